//! Reference pages are made from the tables of routes, transitions, settings and metrics.

mod http;
mod life;
mod types;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use waypost::settings::{SECTIONS, Setting};
use waypost_engine::metrics::{EngineMetrics, Metric};
use waypost_ports::query::{CONDITION_FIELDS, ConditionField};
use waypost_server::metrics::{HttpMetrics, Readings};

use crate::tidy::{refuse, root};

const EVENTS: &str = "docs/reference/events.md";
const HTTP: &str = "docs/reference/http.md";
pub(crate) const METRICS: &str = "docs/reference/metrics.md";
const SETTINGS: &str = "docs/reference/settings.md";
const STATES: &str = "docs/reference/states.md";

/// How to bring the pages that are made up to date.
const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p waypost --test it reference::";

#[test]
fn the_page_of_the_http_api_is_up_to_date() {
    is_up_to_date(HTTP, |_| http::render(UPDATE));
}

#[test]
fn the_page_of_statuses_is_up_to_date() {
    is_up_to_date(STATES, |_| life::states(UPDATE));
}

#[test]
fn the_page_of_events_is_up_to_date() {
    is_up_to_date(EVENTS, |_| life::events(UPDATE));
}

#[test]
fn the_page_of_metrics_is_up_to_date() {
    let (mut engine, mut server) = (String::new(), String::new());
    let row = |rows: &mut String, name: &str, help: &str, metric: &dyn Metric| {
        let (mut labels, mut values) = (BTreeSet::new(), Vec::new());
        metric.samples(&mut |sample| {
            for (label, value) in sample.label.iter().filter(|(label, _)| *label != "le") {
                labels.insert(format!(" by `{label}`"));
                values.push(format!("`{value}`"));
            }
        });
        let by = labels.pop_first().unwrap_or_default();
        let values = match values.join(", ") {
            none if none.is_empty() => none,
            values => format!(" Values: {values}."),
        };
        rows.push_str(&format!("| `{name}` | {}{by} | {help}{values} |\n", metric.kind()));
    };
    EngineMetrics::default().each(|name, help, metric| row(&mut engine, name, help, metric));
    HttpMetrics::default().each(|name, help, metric| row(&mut server, name, help, metric));
    Readings::default().each(|name, help, metric| row(&mut server, name, help, metric));
    is_up_to_date(METRICS, |page| with_tables(page, "| metric |", &[engine, server]));
}

#[test]
fn names_of_conditions_are_listed() {
    let row = |field: &ConditionField| format!("| `{}` | {} |", field.name, field.about);
    let rows = CONDITION_FIELDS.iter().map(row).collect::<Vec<_>>().join("\n");
    let page = std::fs::read_to_string(root().join("docs/reference/expressions.md")).unwrap();
    assert!(page.contains(&format!("| --- | --- |\n{rows}\n\n")), "they are:\n{rows}");
}

/// Compares a page with what is made from it and the tables; with `UPDATE_DOCS`, writes it.
fn is_up_to_date(name: &str, make: impl FnOnce(&str) -> String) {
    let file = root().join(name);
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let page = make(&found);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page).unwrap();
    } else if found != page {
        let differs = (1..).zip(page.lines()).zip(found.lines()).find(|((_, new), old)| new != old);
        let line = differs.map_or(found.lines().count(), |((line, _), _)| line);
        refuse(&[format!("{name}:{line}: is not up to date; this makes it so:\n    {UPDATE}")]);
    }
}

/// A page whose tables with this heading have these rows, in order.
fn with_tables(page: &str, heading: &str, tables: &[String]) -> String {
    let (mut tables, mut made, mut lines) = (tables.iter(), String::new(), page.lines());
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        if line.starts_with(heading) {
            made.push_str(lines.next().unwrap());
            made.push('\n');
            made.push_str(tables.next().expect("the page has a table for each"));
            made.push('\n');
            lines.by_ref().find(|line| !line.starts_with('|'));
        }
    }
    assert!(tables.next().is_none(), "the page has a table for each");
    made
}

#[test]
fn the_page_of_settings_is_up_to_date() {
    let defaults: Value = serde_json::from_str(&output(&["config", "-o", "json"])).unwrap();
    let mut defaults = defaults.as_array().unwrap().iter();
    let mut row = |setting: &Setting| {
        let shown = defaults.next().unwrap();
        assert_eq!(shown["name"], setting.name);
        let default = match shown["value"].as_str().unwrap().replace("/home/you", "~") {
            none if none.is_empty() => "none".to_owned(),
            some => format!("`{some}`"),
        };
        let range = match setting.must.to_string() {
            any if any.is_empty() => any,
            range => format!(" Must be {range}."),
        };
        let (name, usage, variable) = (setting.name, setting.usage(), setting.variable());
        let help = setting.help;
        format!("| `{name}` | `{usage}` | `{variable}` | {default} | {help}{range} |\n")
    };
    let tables: Vec<String> =
        SECTIONS.iter().map(|section| section.iter().map(&mut row).collect()).collect();
    is_up_to_date(SETTINGS, |page| with_tables(page, "| setting |", &tables));
}

/// What units, manifests, alerts and texts about deployments name is there.
#[test]
fn deployment_pages_name_only_existing_settings_and_metrics() {
    let settings: Value = serde_json::from_str(&output(&["config", "-o", "json"])).unwrap();
    let mut known: BTreeSet<String> =
        METRICS_AND_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
    known.extend(
        settings
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| Some(one["variable"].as_str()?.into())),
    );
    known.extend(names(&std::fs::read_to_string(root().join(METRICS)).unwrap()));
    let mut faults = Vec::new();
    let mut folders = vec![root().join("docs/deploy")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let of_histogram = |name: &String| {
                ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| name.strip_suffix(end).is_some_and(|name| known.contains(name)))
            };
            let unknown = names(&text)
                .into_iter()
                .filter(|name| !known.contains(name) && !of_histogram(name));
            faults.extend(unknown.map(|name| format!("{}: there is no {name}", path.display())));
        }
    }
    refuse(&faults);
}

/// Every name of a metric or a variable in a text.
pub(crate) fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(is_part)
        .filter(|word| word.starts_with("waypost_") || word.starts_with("WAYPOST_"))
        .map(str::to_owned)
        .collect()
}

/// Variables that are no settings, and names that are no metrics.
const METRICS_AND_VARIABLES: &[&str] = &[
    "WAYPOST_CONFIG",
    "WAYPOST_KEY",
    "WAYPOST_LOG",
    // Kubernetes would make it, and the manifests say how to keep it from that.
    "WAYPOST_PORT",
    // Users of the database.
    "waypost_a",
    "waypost_b",
];

/// What the program prints where nobody has set anything.
fn output(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
    let output = command.args(args).env_clear().env("HOME", "/home/you").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
