//! The SQL of the projections' file, one statement a file.

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
    DEFINITION_NODE_ADD = "definition_node_add";
    EXECUTION_END = "execution_end";
    EXECUTION_FORGET = "execution_forget";
    EXECUTION_INSERT = "execution_insert";
    EXECUTION_UPDATE = "execution_update";
    EXECUTION_VIEW = "execution_view";
    LIST = "list";
    LIST_BY_STATUS = "list_by_status";
    LIST_BY_WORKFLOW = "list_by_workflow";
    LIST_BY_WORKFLOW_STATUS = "list_by_workflow_status";
    LISTED_LOOK = "listed_look";
    LISTED_ROW = "listed_row";
    META_CREATE = "meta_create";
    META_LOAD = "meta_load";
    NODES_FORGET = "nodes_forget";
    NODE_RESET = "node_reset";
    NODE_STATUS_ADD = "node_status_add";
    NODE_UPSERT = "node_upsert";
    PATH_ADD = "path_add";
    PATH_FIND = "path_find";
    SCHEMA = "schema";
    SHOWN_AFTER = "shown_after";
    SHOWN_EXECUTION = "shown_execution";
    SHOWN_NODES = "shown_nodes";
    SHOWN_WAITS = "shown_waits";
    STATUS_ADD = "status_add";
    WAITS_FORGET = "waits_forget";
    WAIT_CLOSE = "wait_close";
    WAIT_OPEN = "wait_open";
    WORKFLOW_ADD = "workflow_add";
    WORKFLOW_FIND = "workflow_find";
}
