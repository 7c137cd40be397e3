//! Tests of the importer: what each format becomes, and that no input breaks it.

mod broken;
mod converted;
mod detection;
