//! The SQL of the projections, one statement a file. Statements about all columns of a table are filled
//! from the core's columns, at their first use.

use std::sync::LazyLock;

use waypost_core::projection::columns::{CREATED, Column, END, NODE, VIEW};
use waypost_ports::statement::{fill, list, merges, names};

use super::cells::type_name;

macro_rules! queries {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../projections/", $file, ".sql"));)*
    };
}

queries! {
    DEFINITION_CANONICAL = "definition_canonical";
    DEFINITION_NODES_ADD = "definition_nodes_add";
    DOCUMENTS_FORGET = "documents_forget";
    DOCUMENTS_WRITE = "documents_write";
    EXECUTION_LOCK = "execution_lock";
    EXECUTIONS_FORGET = "executions_forget";
    EXECUTIONS_NEXT = "executions_next";
    FRAMES_AFTER = "frames_after";
    FRAMES_COUNT = "frames_count";
    FRAMES_PORTION = "frames_portion";
    LIST = "list";
    LIST_BY_STATUS = "list_by_status";
    LIST_BY_WORKFLOW_STATUS = "list_by_workflow_status";
    LISTED_LOOK = "listed_look";
    NODES_CANCEL = "nodes_cancel";
    NODES_FORGET = "nodes_forget";
    PLACE_WAIT = "place_wait";
    PROGRESS = "progress";
    RELAX = "relax";
    SHOWN_DUE = "shown_due";
    SHOWN_STRAYS = "shown_strays";
    SHOWN_WAITS = "shown_waits";
    SWEEP_CLAIM = "sweep_claim";
    SWEEP_LOOK = "sweep_look";
    SWEEP_PAGE = "sweep_page";
    SWEEP_PASS = "sweep_pass";
    SWEEP_RELEASE = "sweep_release";
    VARIABLES_FORGET = "variables_forget";
    VARIABLES_SET = "variables_set";
    WAITS_CLOSE = "waits_close";
    WAITS_FORGET = "waits_forget";
    WAITS_OPEN = "waits_open";
}

macro_rules! filled {
    ($($name:ident = $file:literal, $marks:expr;)*) => {
        $(pub(super) static $name: LazyLock<String> = LazyLock::new(|| {
            fill(include_str!(concat!("../../projections/", $file, ".sql")), &$marks)
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
