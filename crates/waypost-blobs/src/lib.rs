//! Places for blobs outside of a database.
//!
//! | file | owns |
//! | --- | --- |
//! | `folder` | files in a folder of this machine |
//!
//! Both store a blob as one file or object: its parts, and then its index (`ports/blobs/format.rs`).

mod folder;

pub use folder::FolderBlobs;
