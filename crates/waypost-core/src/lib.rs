//! The pure heart of Waypost. (map follows)
pub mod event;
pub mod expr;
pub mod failure;
pub mod frame;
pub mod id;
pub mod json;
pub mod kind;
pub mod limits;
pub mod plan;
pub mod projection;
pub mod retry;
pub mod status;
pub mod time;
