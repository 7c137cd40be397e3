//! What the tests are made of.
//!
//! | file | owns |
//! | --- | --- |
//! | `house` | a server in this process, with workflows to start |
//! | `client` | HTTP/1.1 over a plain socket: what a test writes is what is sent |
//! | `events` | reading a stream of events |
//! | `failing` | a store that takes no writes on demand |
//! | `triggered` | workflows with triggers |
//! | `samples` | a request for every route of the table |

pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod failing;
pub(crate) mod house;
pub(crate) mod samples;
pub(crate) mod triggered;

pub(crate) use client::{Answer, Ask, Client};
pub(crate) use house::House;
