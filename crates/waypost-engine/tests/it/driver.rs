//! The driver alone: no threads, no clock but the test's, and every order of events is a choice.

mod claims;
mod commits;
mod crash;
mod drain;
mod found;
mod measures;
mod parking;
mod requests;
mod slots;
mod takeover;
mod time;
