//! The projections of an execution, against the fold of its log up to the same point.

use waypost_core::json::Json;
use waypost_core::projection::columns::{NODE, VIEW};
use waypost_core::projection::{Changes, ExecutionView};
use waypost_ports::inspect::{Shown, ShownNode, ShownRows, open_waits};

/// The first difference, in words.
pub(super) fn compare(shown: &Shown, folded: &Changes) -> Option<String> {
    let Some(rows) = &shown.rows else {
        return (shown.due > 0).then(|| "it has no row".to_owned());
    };
    let seq = rows.view.seq;
    if seq < shown.due {
        return Some(format!("its row ends at seq {seq}, the frame at {} is left out", shown.due));
    }
    let Some(created) = &folded.created else {
        return Some("its row shows what the log does not".to_owned());
    };
    if folded.view.seq != seq {
        return Some(format!("its row ends at seq {seq}, where the log has no end of a frame"));
    }
    if *rows.key != *created.run.key.0 || rows.created_at != created.at {
        return Some("its row is that of another execution".to_owned());
    }
    compare_views(&rows.view, &folded.view)
        .or_else(|| compare_output(rows, folded))
        .or_else(|| compare_nodes(rows, folded))
        .or_else(|| compare_waits(rows, folded))
}

fn compare_views(row: &ExecutionView, log: &ExecutionView) -> Option<String> {
    let differs = VIEW.iter().find(|column| column.get(row) != column.get(log))?;
    Some(match row.status == log.status {
        true => format!("its row differs from its log in {}", differs.name),
        false => format!("its row is {}, its log {}", row.status, log.status),
    })
}

fn compare_output(rows: &ShownRows, folded: &Changes) -> Option<String> {
    let output = folded.end.as_ref().and_then(|end| end.output.as_ref()).map(Json::text);
    (rows.output.as_deref() != output).then(|| "its row has another output".to_owned())
}

fn compare_nodes(rows: &ShownRows, folded: &Changes) -> Option<String> {
    for row in &rows.nodes {
        let path = &row.path;
        let Some(log) = folded.nodes.get(path.as_str()) else {
            return Some(format!("node {path:?} has a row, and nothing happened to it"));
        };
        let log = ShownNode::of(path, log);
        let columns = NODE.iter().filter(|column| column.is_folded());
        let mut pairs = columns.zip(row.cells.iter().zip(&log.cells));
        if let Some((column, _)) = pairs.find(|(_, (row, log))| row != log) {
            let name = column.name;
            return Some(format!("the row of node {path:?} differs from the log in {name}"));
        }
    }
    if rows.nodes.len() == folded.nodes.len() {
        return None;
    }
    let has_row = |path: &str| rows.nodes.iter().any(|row| row.path == path);
    let missing = folded.nodes.keys().find(|path| !has_row(path));
    Some(match missing {
        Some(path) => format!("node {path:?} has no row"),
        None => "a node has two rows".to_owned(),
    })
}

fn compare_waits(rows: &ShownRows, folded: &Changes) -> Option<String> {
    if rows.waits.is_empty() && folded.waits.is_empty() {
        return None;
    }
    let mut log = open_waits(&folded.waits);
    let mut shown = rows.waits.clone();
    log.sort_unstable();
    shown.sort_unstable();
    (log != shown).then(|| "its open waits differ from its log".to_owned())
}
