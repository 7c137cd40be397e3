//! The engine with its threads and handlers.

mod drivers;
mod handlers;
mod lanes;
mod life;
mod marks;
mod nudging;
mod payloads;
mod relaying;
mod remote;
mod remote_secrets;
mod requests;
mod stopping;
mod store_faults;
mod triggers;
