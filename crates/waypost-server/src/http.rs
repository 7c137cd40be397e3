//! From bytes on a socket to an action and back.
//!
//! | file | owns |
//! | --- | --- |
//! | `listen` | sockets: limits, timeouts, TLS, the end |
//! | `dispatch` | the order in which a request is checked, and what is recorded about it |
//! | `entry` | who sends a request, by key or by link |
//! | `guard` | requests that a browser was tricked into |
//! | `route`, `parameter` | the row of a route; its parameters |
//! | `body` | bodies: their limits and kinds |
//! | `call` | an admitted request, and its reply |
//! | `client_address` | whose request it is, where proxies pass it on |
//! | `openapi` | the description of all routes |
//! | `upload` | bodies of any length, passed on as they come |
//! | `stall` | peers that stop reading |

pub mod body;
pub mod call;
mod client_address;
pub mod dispatch;
pub mod entry;
pub mod guard;
pub mod listen;
pub mod openapi;
pub mod parameter;
pub mod route;
mod stall;
pub mod upload;
