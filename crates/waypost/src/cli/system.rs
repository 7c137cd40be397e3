//! `waypost instances` and `limits`: the processes that drive executions, and the limits.

use anyhow::Result;
use waypost_core::time::Millis;
use waypost_server::wire;

use super::{Context, Exit};
use crate::output::{print_columns, print_line, print_table};
use crate::target::{self, Target};

pub(crate) async fn instances(context: &Context) -> Result<Exit> {
    let list = Target::open(&context.settings)?.instances().await?;
    context.show(&list, || match list.instances.as_slice() {
        [] => print_line("no instance is running"),
        instances => {
            let headings =
                ["INSTANCE", "STATE", "VERSION", "ADDRESS", "LEASE", "OWNS", "RUNS", "LAG", "NOTE"];
            print_columns(&headings, instances, columns);
        }
    })
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
    let rows = limits.limits.iter().map(|(name, value)| (name, value.to_string()));
    context.show(&limits, || print_table(&rows.collect::<Vec<_>>()))
}
