//! Requests of other systems that fire triggers.
//!
//! | file | owns |
//! | --- | --- |
//! | `verify` | whether a request comes from where it claims to come from; pure |

pub mod verify;
