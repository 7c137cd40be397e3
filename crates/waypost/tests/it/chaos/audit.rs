//! The audit after a round: is everything there that was acknowledged, once, and did all of it come
//! to what the model allows?

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use waypost::wiring;
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::inspect::{ChunkRequest, Inspect};
use waypost_ports::store::{LogReader, Store};
use waypost_sim::model::{Ran, judge};
use waypost_sqlite::SqliteStore;

use super::guests;
use super::ledger::{Entry, Ledger};
use super::sink::Seen;
use super::workload;
use crate::program::Program;

/// What a round came to.
#[derive(Clone, Copy, Default)]
pub(super) struct Verdict {
    pub(super) executions: u64,
    /// Those that nothing disturbed, which are judged most strictly.
    pub(super) undisturbed: u64,
    /// Those that had more than one owner.
    pub(super) moved: u64,
    pub(super) quarantined: u64,
}

/// Inspect a round after its last process has ended.
pub(super) fn audit(
    program: &Program,
    seed: u64,
    ledger: &Ledger,
    sink: &BTreeMap<String, Seen>,
) -> Result<Verdict> {
    let counted = guests::check(program)?;
    let store = wiring::open_store(&program.data())?;
    let mut histories = BTreeMap::new();
    for execution in executions(&store)? {
        let log = Log::read(&store, execution)?;
        let n = workload::number(seed, &log.key);
        let n = n.with_context(|| format!("nobody submitted {}", log.key))?;
        if let Some(twice) = histories.insert(n, log) {
            bail!("submission {n} has two executions, {} and {}", twice.execution.0, execution.0);
        }
    }
    ensure!(counted == u64::try_from(histories.len())?, "waypost check saw {counted} executions");
    let mut verdict = Verdict { executions: counted, ..Verdict::default() };
    let mut complaints = Vec::new();
    for (n, entry) in &ledger.entries {
        let log = histories
            .remove(n)
            .with_context(|| format!("submission {n} was acknowledged and is not there"))?;
        ensure!(
            entry.execution == Some(log.execution.0),
            "submission {n} was acknowledged as {:?} and is {}",
            entry.execution,
            log.execution.0
        );
        verdict.moved += u64::from(log.instances.len() > 1);
        verdict.quarantined += u64::from(log.was_quarantined());
        let ran = log.ran(entry, sink);
        verdict.undisturbed += u64::from(!ran.world.is_disturbed());
        let found = judge(&entry.submission.program, &entry.submission.input, &ran);
        if !found.is_empty() {
            complaints.push(complaint(&log.key, entry, &ran, &found));
        }
    }
    let unknown = histories.keys().next();
    ensure!(unknown.is_none(), "submission {unknown:?} was never made");
    ensure!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    for key in sink.keys() {
        let (execution, path) = parts(key).unwrap_or_default();
        let n = workload::number(seed, execution);
        let program = n.and_then(|n| ledger.entries.get(&n)).map(|entry| &entry.submission.program);
        let known = program.is_some_and(|program| program.locate(&path).is_some());
        ensure!(known, "the sink was called under {key:?}, which is nobody's");
    }
    Ok(verdict)
}

/// The execution and the node's path of an idempotency key of the first generation: without the tries
/// of groups, which are only a part of keys.
fn parts(key: &str) -> Option<(&str, String)> {
    let (execution, rest) = key.split_once('/')?;
    let path = rest.strip_suffix("/1")?;
    let steps = path.split('/').map(|step| step.split_once('@').map_or(step, |(step, _)| step));
    Some((execution, steps.collect::<Vec<_>>().join("/")))
}

fn complaint(key: &str, entry: &Entry, ran: &Ran, found: &[String]) -> String {
    let Entry { submission, .. } = entry;
    let program = &submission.program;
    format!(
        "{key}, n = {}: {program}\n{}\n{:?}, {:?}\n{:?}",
        submission.input["n"],
        found.join("\n"),
        ran.end,
        ran.world,
        ran.nodes
    )
}

fn executions(store: &SqliteStore) -> Result<Vec<ExecutionNo>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let chunk = store.executions(&ChunkRequest { after, limit: 1_000, since: None })?;
        all.extend(chunk.executions);
        match chunk.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// An execution's log.
struct Log {
    execution: ExecutionNo,
    key: String,
    events: Vec<Event>,
    instances: Vec<InstanceId>,
}

impl Log {
    fn read(store: &dyn Store, execution: ExecutionNo) -> Result<Self> {
        let (mut events, mut instances) = (Vec::new(), Vec::new());
        for frame in LogReader::whole(store, execution) {
            let frame = frame?;
            let body = frame.body.map_err(anyhow::Error::msg)?;
            events.extend(decode(&body)?);
            instances.push(frame.header.instance);
        }
        instances.sort_unstable();
        instances.dedup();
        let Some(Event::Run(RunEvent::Created(created))) = events.first() else {
            bail!("execution {} has no beginning", execution.0);
        };
        let key = created.key.0.to_string();
        Ok(Self { execution, key, events, instances })
    }

    fn was_quarantined(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Run(RunEvent::Quarantined { .. })))
    }

    /// What happened, as the log, the sink and the ledger tell it.
    fn ran(&self, entry: &Entry, sink: &BTreeMap<String, Seen>) -> Ran {
        let mut ran = Ran::read(&self.events);
        ran.world = entry.world.clone();
        // Whoever let it go on after a quarantine was told to by the last victim's parent.
        ran.world.paused |= self.was_quarantined();
        let own = format!("{}/", self.key);
        for (key, seen) in sink.range(own.clone()..).take_while(|(key, _)| key.starts_with(&own)) {
            let Some((_, path)) = parts(key) else { continue };
            ran.world.replies_lost |= seen.silent;
            ran.sink.entry(path).or_default().insert(key.clone(), seen.calls);
        }
        ran
    }
}
