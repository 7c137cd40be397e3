//! The store in a folder: the promises of every store, and those of this one.

mod bytes;
mod conformance;
mod files;
mod guests;
mod projections;
mod workload;
