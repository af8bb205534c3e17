//! The engine against the lab: real protocols over in-memory streams, in virtual time.

mod crash;
mod faults;
mod scale;
mod story;
mod strangers;
mod support;
