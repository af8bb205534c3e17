//! Observes the world and executes plans.
