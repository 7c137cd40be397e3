//! The model: what must come of a program.
