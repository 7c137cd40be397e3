//! Programs and the model, against the language and the core.

mod programs;
