//! The planner's stories and laws.

mod golden;
mod simulator;
