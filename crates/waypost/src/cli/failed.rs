//! Why an execution failed, as people need it: which node, after how many attempts, and the last lines
//! that its command printed.

use anyhow::Result;
use serde_json::Value;
use waypost_server::wire;

use crate::output::fit;
use crate::target::{EventsOf, Target};

/// Most lines of what a command printed.
const LINES_MAX: usize = 10;
/// Most columns of such a line.
const COLUMNS_MAX: usize = 240;
/// The beginning of such a line.
const MARGIN: &str = "    | ";

/// The failure of an execution in a sentence or two: its nodes and attempts come from the log.
pub(super) async fn sentences(
    target: &Target,
    id: &str,
    failure: &wire::Failure,
    nodes: &[wire::Node],
) -> Result<Vec<String>> {
    let what = format!("{} ({})", failure.message, failure.kind);
    let failed = failed_nodes(target, id).await?;
    let Some((first, others)) = failed.split_first() else { return Ok(vec![what]) };
    let attempts = nodes.iter().find(|node| node.id == *first).map_or(1, |node| node.attempt);
    let attempts = match attempts {
        0 | 1 => "1 attempt".to_owned(),
        several => format!("{several} attempts"),
    };
    let mut sentences = vec![format!("node `{first}` failed after {attempts}: {what}")];
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|node| format!("`{node}`")).collect();
        sentences.push(format!("these failed, too: {}", others.join(", ")));
    }
    Ok(sentences)
}

/// The nodes that an execution failed for, the first one first.
async fn failed_nodes(target: &Target, id: &str) -> Result<Vec<String>> {
    let kind = Some("RunFailed".to_owned());
    let wanted = EventsOf { kind, limit: usize::MAX, ..EventsOf::default() };
    let events = target.events(id, &wanted).await?.events;
    let Some(last) = events.last() else { return Ok(Vec::new()) };
    let data = last.data.0.to_value().unwrap_or_default();
    let nodes = data["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(nodes.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The last lines that a failed command printed: on standard error, or on standard output if that
/// is empty.
pub(super) fn printed(failure: &wire::Failure) -> Vec<String> {
    let details = failure.details.as_ref().and_then(|details| details.0.to_value().ok());
    let details = details.unwrap_or_default();
    let text = |name: &str| details[name].as_str().unwrap_or_default().trim_end().to_owned();
    let (stream, text) = match (text("stderr"), text("stdout")) {
        (stderr, stdout) if stderr.is_empty() => ("stdout", stdout),
        (stderr, _) => ("stderr", stderr),
    };
    if text.is_empty() {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().map(overwritten).collect();
    let shown = lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default();
    let head = match lines.len() > LINES_MAX {
        true => format!("  last {LINES_MAX} lines of its {stream}:"),
        false => format!("  its {stream}:"),
    };
    let shown = shown.iter().map(|line| format!("{MARGIN}{}", fit(line, COLUMNS_MAX)));
    std::iter::once(head).chain(shown).collect()
}

/// What a terminal would show of a line that overwrote itself, as progress bars do.
fn overwritten(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(details: &Value) -> wire::Failure {
        let failure =
            serde_json::json!({ "kind": "exit_code", "message": "it failed", "details": details });
        serde_json::from_value(failure).unwrap()
    }

    #[test]
    fn printed_shows_the_last_lines_of_stderr_and_of_stdout_where_there_is_none() {
        let many: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        let lines = printed(&failure(&serde_json::json!({ "stdout": "x", "stderr": many })));
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[0], "  last 10 lines of its stderr:");
        assert_eq!((&*lines[1], &*lines[10]), ("    | line 21", "    | line 30"));
        let lines = printed(&failure(&serde_json::json!({ "stdout": "bad\n", "stderr": "\n" })));
        assert_eq!(lines, ["  its stdout:", "    | bad"]);
        let lines = printed(&failure(&serde_json::json!({ "stderr": "10%\r50%\rfailed\r\n" })));
        assert_eq!(lines, ["  its stderr:", "    | failed"]);
        assert!(printed(&failure(&serde_json::json!({ "stderr": "" }))).is_empty());
        assert!(printed(&failure(&serde_json::json!([1]))).is_empty());
        let long = "w".repeat(10_000);
        let lines = printed(&failure(&serde_json::json!({ "stderr": long })));
        assert_eq!(lines[1].chars().count(), MARGIN.len() + COLUMNS_MAX);
    }
}
