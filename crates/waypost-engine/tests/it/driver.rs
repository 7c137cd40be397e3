//! The driver alone: no threads, no clock but the test's, and every order of events is a choice.

mod ahead;
mod budget;
mod cancelling;
mod claims;
mod commits;
mod crash;
mod drain;
mod fetching;
mod forgetting;
mod found;
mod inherited;
mod measures;
mod mirror;
mod pages;
mod parking;
mod queue;
mod receipts;
mod remote;
mod requests;
mod retrying;
mod sharing;
mod slots;
mod steering;
mod suspects;
mod takeover;
mod time;
