//! The SQL, one statement a file. Nothing else in this crate holds SQL text.

/// The statement in a file of the folder `queries`.
macro_rules! sql {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $file, ".sql"))
    };
}

pub(crate) use sql;
