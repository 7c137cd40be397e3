//! Places for blobs outside of a database.
//!
//! | file | owns |
//! | --- | --- |
//! | `folder` | files in a folder of this machine |
//! | `s3` | objects in a bucket of S3, or of a service that is compatible with it |
//!
//! How content becomes parts and an index is in `ports/blobs/format.rs`.

mod folder;
mod s3;

pub use folder::FolderBlobs;
pub use s3::{S3Blobs, S3Options};
