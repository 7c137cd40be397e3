//! The SQL of the projections, one statement a file.

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
    EXECUTION_INSERT = "execution_insert";
    EXECUTION_LOCK = "execution_lock";
    EXECUTION_UPDATE = "execution_update";
    EXECUTION_VIEWS = "execution_views";
    EXECUTIONS_FORGET = "executions_forget";
    EXECUTIONS_NEXT = "executions_next";
    FRAMES_AFTER = "frames_after";
    FRAMES_COUNT = "frames_count";
    FRAMES_PORTION = "frames_portion";
    FRAMES_SINCE = "frames_since";
    LIST = "list";
    LIST_BY_STATUS = "list_by_status";
    LIST_BY_WORKFLOW_STATUS = "list_by_workflow_status";
    LISTED_LOOK = "listed_look";
    LISTED_ROWS = "listed_rows";
    LOG_END = "log_end";
    NODES_FORGET = "nodes_forget";
    NODES_UPSERT = "nodes_upsert";
    OWED = "owed";
    PLACE_WAIT = "place_wait";
    PROGRESS = "progress";
    PROJECTOR_DONE = "projector_done";
    PROJECTOR_END = "projector_end";
    PROJECTOR_MARK = "projector_mark";
    PROJECTOR_REGISTER = "projector_register";
    PROJECTOR_SETTLED = "projector_settled";
    PROJECTOR_TAKE = "projector_take";
    RELAX = "relax";
    SHOWN_DUE = "shown_due";
    SHOWN_NODES = "shown_nodes";
    SHOWN_STRAYS = "shown_strays";
    SHOWN_WAITS = "shown_waits";
    WAITS_CLOSE = "waits_close";
    WAITS_FORGET = "waits_forget";
    WAITS_OPEN = "waits_open";
}
