//! What the engine asks of the world. (map follows)
pub mod handler;
