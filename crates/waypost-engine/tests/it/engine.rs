//! The engine with its threads and handlers.

mod handlers;
mod life;
mod requests;
mod stopping;
mod store_faults;
