//! The built-in node kinds. So far: where outbound calls may go, and the settings of handlers.

pub mod egress;
mod settings;

pub use settings::{CALL_TIMEOUT, SHELL_GRACE, Settings};
