//! The pages of statuses and events: arrows and meanings from the tables of transitions, fields from
//! the doc comments of the event types, examples from the golden logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::transitions::{Arrow, NODE, RUN, arrows};

use super::types::{Field, Type, types};
use crate::tidy::root;

const EXECUTION: &str = "\
submitted ──────────▶ SCHEDULING    only with a concurrency key: queued for a permit
    │                     │ permit
    ▼                     ▼
  RUNNING ◀───────────────┘
    │  ├── nothing to do ────▶ WAITING ────── timer, signal, retry ─▶ RUNNING
    │  ├── pause ────────────▶ PAUSED ─────── resume ───────────────▶ RUNNING
    │  ├── cannot continue ──▶ QUARANTINED ── resume ───────────────▶ RUNNING
    │  │
    │  └── cancel, unhandled failure, timeout; also from each status above
    │                     │
    │                     ▼
    │                  ENDING              running attempts are cancelled and awaited
    ▼                     │
  COMPLETED, FAILED       └──▶ FAILED, CANCELLED, TIMED_OUT ── retry ─▶ RUNNING
";

const NODES: &str = "\
PENDING ──▶ QUEUED ──▶ RUNNING ──▶ COMPLETED
   │          ▲         │   ▲ └──▶ FAILED, TIMED_OUT
   │          │ retry   ▼   │ time, signal
   │          └─────── WAITING ──▶ TIMED_OUT
   ├──▶ SKIPPED
   └──▶ CANCELLED, also from QUEUED, RUNNING and WAITING
";

/// The page of statuses.
pub(super) fn states(update: &str) -> String {
    let types = types(&["status.rs"]);
    let mut page = format!(
        "# Life cycle\n\n\
         <!-- Made from crates/waypost-core/src/transitions.rs; do not edit. This makes it again:\n     \
         {update} -->\n\n\
         The statuses of executions and of their nodes, and the [events](events.md) that change them.\n\
         Every change is an event in the log; a pair of status and event that is not listed here is rejected.\n\n\
         ## Executions\n\n```text\n{EXECUTION}```\n\n"
    );
    meanings(&mut page, types.get("Status"), &Status::SHOWN.map(Status::name));
    let (run, node) = split_arrows();
    rows(&mut page, RUN.iter().map(|row| (row.name, row.about)), &run);
    write!(page, "## Nodes\n\n```text\n{NODES}```\n\n").unwrap();
    meanings(&mut page, types.get("NodeStatus"), &NodeStatus::ALL.map(NodeStatus::name));
    rows(&mut page, NODE.iter().map(|row| (row.name, row.about)), &node);
    page.push_str(
        "Two events of the execution change nodes as well: `RunEnding` makes every PENDING node CANCELLED, \
         and `RunReopened` makes the listed nodes PENDING again.\n",
    );
    page
}

fn split_arrows() -> (Vec<Arrow>, Vec<Arrow>) {
    let of_run = |(_, event, _): &Arrow| RUN.iter().any(|row| row.name == *event);
    arrows().into_iter().partition(of_run)
}

fn meanings(page: &mut String, of: Option<&Type>, names: &[&str]) {
    page.push_str("| status | meaning |\n| --- | --- |\n");
    for name in names {
        let spelled = |variant: &str| spaced(variant, '_').to_uppercase() == **name;
        let variant = of.unwrap().variants.iter().find(|variant| spelled(&variant.name)).unwrap();
        writeln!(page, "| `{name}` | {} |", variant.doc).unwrap();
    }
    page.push('\n');
}

fn rows<'a>(page: &mut String, rows: impl Iterator<Item = (&'a str, &'a str)>, arrows: &[Arrow]) {
    page.push_str("| event | from → to | meaning |\n| --- | --- | --- |\n");
    for (name, about) in rows {
        let event = name.split('(').next().unwrap();
        let link = format!("[`{name}`](events.md#{})", event.to_lowercase());
        writeln!(page, "| {link} | {} | {about} |", leads(name, arrows)).unwrap();
    }
    page.push('\n');
}

/// The arrows of a row, those to one status together.
fn leads(name: &str, arrows: &[Arrow]) -> String {
    let mut to: Vec<(&str, Vec<&str>)> = Vec::new();
    for (from, _, end) in arrows.iter().filter(|(_, event, _)| *event == name) {
        let end = if from == end { "unchanged" } else { end };
        match to.iter_mut().find(|(known, _)| *known == end) {
            Some((_, froms)) => froms.push(from),
            None => to.push((end, vec![from])),
        }
    }
    let groups = to.iter().map(|(end, from)| format!("{} → {end}", from.join(", ")));
    match groups.collect::<Vec<_>>().join("; ") {
        // The first event leads from nowhere.
        none if none.is_empty() => "→ RUNNING".to_owned(),
        some => some,
    }
}

/// The page of events.
pub(super) fn events(update: &str) -> String {
    let files = [
        "event.rs",
        "event/run.rs",
        "event/node.rs",
        "event/budget.rs",
        "budget.rs",
        "event/ends.rs",
        "event/wait.rs",
        "child.rs",
        "failure.rs",
        "plan.rs",
        "trigger/fired.rs",
    ];
    let types = types(&files);
    let mut page = format!(
        "# Events\n\n\
         <!-- Made from crates/waypost-core/src/event and transitions.rs; do not edit. This makes it again:\n     \
         {update} -->\n\n\
         Every event that an execution's log has, and that [the API](http.md#get-v1executionsidevents), the streams and `waypost events` return.\n\
         The API returns an event with `seq`, `at`, `epoch`, `type` and, under `data`, the fields of this page; [Life cycle](states.md) says which status each leads to.\n\
         Times are milliseconds since 1970 in UTC, and durations milliseconds.\n\
         Fields without a star are absent where they have nothing to say; readers must ignore fields that they do not know.\n\n\
         ## Events of executions\n\n"
    );
    let examples = examples();
    let run = RUN.iter().map(|row| (row.event, row.name, row.about)).collect::<Vec<_>>();
    sections(&mut page, &run, &types, &examples);
    page.push_str("## Events of nodes\n\n");
    let node = NODE.iter().map(|row| (row.event, row.name, row.about)).collect::<Vec<_>>();
    sections(&mut page, &node, &types, &examples);
    page.push_str("## Types\n\n");
    for name in [
        "Origin",
        "Failure",
        "EndCause",
        "PauseReason",
        "ConcurrencyPolicy",
        "FailureEnd",
        "Wait",
        "CancelReason",
        "ParentLink",
        "Fired",
    ] {
        value(&mut page, &types[name]);
    }
    page.trim_end().to_owned() + "\n"
}

fn sections(
    page: &mut String,
    rows: &[(&str, &str, &str)],
    types: &BTreeMap<String, Type>,
    examples: &BTreeMap<String, String>,
) {
    let mut last = "";
    for (event, ..) in rows {
        if std::mem::replace(&mut last, event) == *event {
            continue;
        }
        write!(page, "### {event}\n\n").unwrap();
        let cases: Vec<_> = rows.iter().filter(|(other, ..)| other == event).collect();
        for (_, name, about) in &cases {
            match cases.len() {
                1 => writeln!(page, "{about}").unwrap(),
                _ => writeln!(page, "- `{name}`: {about}").unwrap(),
            }
        }
        page.push('\n');
        let variants = ["RunEvent", "NodeEvent"].iter().flat_map(|kind| &types[*kind].variants);
        let variant = variants.into_iter().find(|variant| variant.log_name() == *event);
        let variant = variant.unwrap_or_else(|| panic!("{event} is in no type of events"));
        let boxed = variant.content.as_ref().map(|name| &types[name].fields);
        fields(page, boxed.unwrap_or(&variant.fields));
        let example = examples.get(*event);
        let example = example.unwrap_or_else(|| panic!("no golden log has a {event}"));
        write!(page, "```text\n{example}\n```\n\n").unwrap();
    }
}

fn fields(page: &mut String, fields: &[Field]) {
    if fields.is_empty() {
        page.push_str("It has no fields.\n\n");
        return;
    }
    page.push_str("| field | type | meaning |\n| --- | --- | --- |\n");
    for field in fields {
        let star = if field.optional { "" } else { "*" };
        let (name, kind) = (&field.name, shown_type(&field.kind));
        assert!(!field.doc.is_empty(), "the page needs a doc comment of the field {name}");
        writeln!(page, "| `{name}`{star} | {kind} | {} |", field.doc).unwrap();
    }
    page.push('\n');
}

/// A type that fields have: an object, or one of several values.
fn value(page: &mut String, of: &Type) {
    write!(page, "### {}\n\n{}\n\n", of.name, of.doc).unwrap();
    if !of.fields.is_empty() {
        return fields(page, &of.fields);
    }
    page.push_str("| value | meaning |\n| --- | --- |\n");
    for variant in &of.variants {
        let separator = if of.name == "ConcurrencyPolicy" { '-' } else { '_' };
        let name = spaced(&variant.name, separator);
        let of_field = |field: &Field| format!("`{}`: {}", field.name, field.doc);
        let inner = variant.fields.iter().map(of_field).collect::<Vec<_>>().join(" ");
        let shown = match (&variant.content, variant.fields.is_empty()) {
            (Some(content), _) => format!("{{\"{name}\": {}}}", shown_type(content)),
            (None, true) => format!("\"{name}\""),
            (None, false) => format!("{{\"{name}\": {{…}}}}"),
        };
        writeln!(page, "| `{shown}` | {} |", format!("{} {inner}", variant.doc).trim_end())
            .unwrap();
    }
    page.push('\n');
}

/// An example of each event from the golden logs: the longest says most.
fn examples() -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut files: Vec<_> = std::fs::read_dir(root().join("crates/waypost/tests/golden/logs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines().skip(1) {
            let frame: Frame = serde_json::from_str(line).unwrap();
            for event in frame.events.iter().map(|event| event.get()) {
                let name = event.trim_start_matches("{\"").split('"').next().unwrap();
                let is_longer = |known: &String| event.len() > known.len();
                if all.get(name).is_none_or(is_longer) && event.len() < EXAMPLE_MAX {
                    all.insert(name.to_owned(), event.to_owned());
                }
            }
        }
    }
    all
}

/// Longer events are no examples.
const EXAMPLE_MAX: usize = 400;

/// A line of a golden log: the events as they are stored.
#[derive(serde::Deserialize)]
struct Frame {
    events: Vec<Box<RawValue>>,
}

/// A Rust name in lower case, its words apart.
fn spaced(name: &str, separator: char) -> String {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !spaced.is_empty() {
            spaced.push(separator);
        }
        spaced.extend(letter.to_lowercase());
    }
    spaced
}

/// A Rust type as readers of JSON know it.
fn shown_type(kind: &str) -> String {
    if let Some(inner) = kind.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("list of {}", shown_type(inner));
    }
    if let Some(inner) = kind.strip_prefix("Box<").and_then(|rest| rest.strip_suffix('>')) {
        return shown_type(inner);
    }
    match kind {
        "Arc<str>" | "String" | "MessageId" | "ExecutionId" | "DefinitionHash" | "InstanceId"
        | "WorkerId" | "Token" | "Cow<'static, str>" => "text".to_owned(),
        "u16" | "u32" | "u64" | "ExecutionNo" | "Money" => "number".to_owned(),
        "Status" => "[status](states.md#executions)".to_owned(),
        "bool" => "true or false".to_owned(),
        "Json" => "JSON".to_owned(),
        "Timestamp" => "time".to_owned(),
        "Millis" => "duration".to_owned(),
        map if map.starts_with("BTreeMap<") => "object".to_owned(),
        own => format!("[{own}](#{})", own.to_lowercase()),
    }
}
