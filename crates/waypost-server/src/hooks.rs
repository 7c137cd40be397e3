//! Requests of other systems that fire webhook triggers.
//!
//! | file | owns |
//! | --- | --- |
//! | `verify` | whether a request comes from where it claims to come from; pure |
//! | `payload` | the request as expressions see it; pure |
//! | `identity` | what identifies a delivery |
//! | `rows` | rows of triggers, for a short while |
//!
//! The order of the checks is in `actions/hooks`.

pub(crate) mod identity;
pub(crate) mod payload;
pub(crate) mod rows;
pub mod verify;
