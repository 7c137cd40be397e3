//! The SQL of the projections, one statement a file. Statements about all columns of a table are filled
//! from the core's columns, at their first use.

use std::sync::LazyLock;

use waypost_core::projection::columns::{CREATED, Column, END, NODE, VIEW};
use waypost_ports::statement::{fill, list, merges, names};

use super::cells::type_name;

/// The statement in a file of the folder `projections`.
macro_rules! sql {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/projections/", $file, ".sql"))
    };
}

pub(super) use sql;

macro_rules! filled {
    ($($name:ident = $file:literal, $marks:expr;)*) => {
        $(pub(super) static $name: LazyLock<String> = LazyLock::new(|| {
            fill(sql!($file), &$marks)
        });)*
    };
}

filled! {
    EXECUTION_INSERT = "execution_insert", [
        ("columns", [names(&CREATED), names(&VIEW), names(&END)].join(", ")),
        ("arrays", [
            arrays(&CREATED, 7),
            arrays(&VIEW, 7 + CREATED.len()),
            arrays(&END, 7 + CREATED.len() + VIEW.len()),
        ].join(", ")),
    ];
    EXECUTION_UPDATE = "execution_update", [
        ("columns", [names(&VIEW), names(&END)].join(", ")),
        ("arrays", [arrays(&VIEW, 4), arrays(&END, 4 + VIEW.len())].join(", ")),
        ("values", [
            list(&VIEW, |_, column| format!("{0} = c.{0}", column.name)),
            list(&END, |_, column| {
                format!("{0} = CASE WHEN c.ends THEN c.{0} ELSE e.{0} END", column.name)
            }),
        ].join(", ")),
    ];
    EXECUTION_VIEWS = "execution_views", [("columns", names(&VIEW))];
    LISTED_ROWS = "listed_rows", [("columns", names(&VIEW))];
    NODES_UPSERT = "nodes_upsert", [
        ("columns", names(&NODE)),
        ("arrays", arrays(&NODE, 5)),
        ("merges", merges("node_rows", &NODE)),
    ];
    SHOWN_NODES = "shown_nodes", [("columns", names(&NODE))];
}

/// Arrays as parameters from a number on.
fn arrays<T>(columns: &[Column<T>], first: usize) -> String {
    list(columns, |at, column| format!("${}::{}[]", first + at, type_name(column.kind)))
}
