//! `waypost instances` and `limits`: the processes that drive executions, and the limits.

use anyhow::Result;
use waypost_core::time::Millis;
use waypost_server::wire;

use super::{Context, Exit};
use crate::output::{Format, print_columns, print_json, print_line, print_table};
use crate::target::{self, Target};

pub(crate) async fn instances(context: &Context) -> Result<Exit> {
    let list = Target::open(&context.settings)?.instances().await?;
    match context.format {
        Format::Json => print_json(&list)?,
        Format::Text if list.instances.is_empty() => print_line("no instance is running"),
        Format::Text => {
            let rows: Vec<_> = list.instances.iter().map(columns).collect();
            let heads =
                ["INSTANCE", "STATE", "VERSION", "ADDRESS", "LEASE", "OWNS", "RUNS", "LAG", "NOTE"];
            print_columns(&heads, &rows);
        }
    }
    Ok(Exit::Done)
}

fn columns(instance: &wire::Instance) -> Vec<String> {
    let state = if instance.alive { "alive" } else { "dead" };
    let lease = instance.alive_until.map(|at| format!("until {}", at.0)).unwrap_or_default();
    let note = if instance.me { "answers" } else { "" };
    vec![
        instance.id.clone(),
        state.to_owned(),
        instance.version.clone().unwrap_or_default(),
        instance.address.clone().unwrap_or_default(),
        lease,
        instance.owned.to_string(),
        instance.running.to_string(),
        instance.lag_ms.map(|ms| Millis(ms).to_string()).unwrap_or_default(),
        note.to_owned(),
    ]
}

pub(crate) async fn limits(context: &Context) -> Result<Exit> {
    let limits = target::limits(&context.settings).await?;
    match context.format {
        Format::Json => print_json(&limits)?,
        Format::Text => {
            let rows = limits.limits.iter().map(|(name, value)| (name, value.to_string()));
            print_table(&rows.collect::<Vec<_>>());
        }
    }
    Ok(Exit::Done)
}
