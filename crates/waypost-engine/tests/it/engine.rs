//! The engine with its threads and handlers.

mod elsewhere;
mod handlers;
mod lanes;
mod life;
mod relaying;
mod requests;
mod stopping;
mod store_faults;
