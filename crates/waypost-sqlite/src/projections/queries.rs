//! The SQL of the projections' file, one statement a file. Statements about all columns of a table are
//! filled from the core's columns, at their first use.

use std::sync::LazyLock;

use waypost_core::projection::columns::{CREATED, Column, ColumnKind, END, NODE, VIEW};
use waypost_ports::statement::{fill, list, merges, names};

macro_rules! queries {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../projections/", $file, ".sql"));)*
    };
}

queries! {
    CLEAR = "clear";
    CURSOR_ADVANCE = "cursor_advance";
    DEFINITION_ADD = "definition_add";
    DEFINITION_FIND = "definition_find";
    DEFINITION_HASH = "definition_hash";
    DEFINITION_NODE_ADD = "definition_node_add";
    EXECUTION_FORGET = "execution_forget";
    INPUTS_FORGET = "inputs_forget";
    INPUT_RESET = "input_reset";
    INPUT_SET = "input_set";
    LIST = "list";
    LIST_BY_STATUS = "list_by_status";
    LIST_BY_WORKFLOW = "list_by_workflow";
    LIST_BY_WORKFLOW_STATUS = "list_by_workflow_status";
    LISTED_LOOK = "listed_look";
    META_CREATE = "meta_create";
    META_LOAD = "meta_load";
    NODES_FORGET = "nodes_forget";
    NODES_CANCEL = "nodes_cancel";
    NODE_RESET = "node_reset";
    NODE_STATUS_ADD = "node_status_add";
    PATH_ADD = "path_add";
    PATH_FIND = "path_find";
    SCHEMA = "schema";
    SHOWN_AFTER = "shown_after";
    SHOWN_WAITS = "shown_waits";
    STATUS_ADD = "status_add";
    VARIABLES_FORGET = "variables_forget";
    VARIABLE_SET = "variable_set";
    WAITS_FORGET = "waits_forget";
    WAIT_CLOSE = "wait_close";
    WAITS_LIST = "waits_list";
    WAITS_LIST_BY_KIND = "waits_list_by_kind";
    WAIT_OPEN = "wait_open";
    WORKFLOW_ADD = "workflow_add";
    WORKFLOW_FIND = "workflow_find";
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
        ("values", [
            parameters(&CREATED, 4),
            parameters(&VIEW, 4 + CREATED.len()),
            parameters(&END, 4 + CREATED.len() + VIEW.len()),
        ].join(", ")),
    ];
    EXECUTION_UPDATE = "execution_update", [("values", values(&VIEW))];
    EXECUTION_END = "execution_update", [("values", values(&END))];
    EXECUTION_VIEW = "execution_view", [("columns", selected(&VIEW))];
    LISTED_ROW = "listed_row", [("columns", selected(&VIEW))];
    NODE_UPSERT = "node_upsert", [
        ("columns", names(&NODE)),
        ("values", parameters(&NODE, 3)),
        ("merges", merges("node_rows", &NODE)),
    ];
    SHOWN_NODES = "shown_nodes", [("columns", selected(&NODE))];
}

/// Parameters from a number on.
fn parameters<T>(columns: &[Column<T>], first: usize) -> String {
    list(columns, |at, _| format!("?{}", first + at))
}

/// New values, from the second parameter on.
fn values<T>(columns: &[Column<T>]) -> String {
    list(columns, |at, column| format!("{} = ?{}", column.name, at + 2))
}

/// Columns of the table `e`; paths are stored by number, and joined under the name of their column.
fn selected<T>(columns: &[Column<T>]) -> String {
    list(columns, |_, column| match column.kind {
        ColumnKind::Path => format!("{}.path", column.name),
        _ => format!("e.{}", column.name),
    })
}
