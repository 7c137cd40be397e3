//! Logs of simulated executions as text, for golden tests: as few as take every arrow of the state
//! machines and hold every event of every log format.
//!
//! A log is a file of JSON lines: the definition, then one line per frame. The events of a frame are
//! the stored bytes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use waypost_core::command::{Command, Decision, Env, Request};
use waypost_core::decide::decide;
use waypost_core::event::{Event, Origin};
use waypost_core::expr::Contents;
use waypost_core::frame::{FrameHeader, decode, encode};
use waypost_core::id::AppendId;
use waypost_core::limits::{ITEMS_OPENED_MAX, MAP_RESULTS_BYTES_MAX, TAKERS_MAX};
use waypost_core::plan::Plan;
use waypost_core::slot::SlotCounts;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_core::transitions::Arrow;
use waypost_ports::store::StoredFrame;

use crate::coverage::{Coverage, Tracker};
use crate::simulation::{WorldOptions, run};

/// Longer logs are hard to read, and show nothing that shorter ones do not.
const EVENTS_MAX: usize = 120;

/// The log of one execution.
#[derive(Clone, Debug)]
pub struct Log {
    /// Its definition, as canonical JSON.
    pub canonical: Arc<str>,
    /// Its frames, from the first on.
    pub frames: Vec<StoredFrame>,
}

/// A feature of a log: an arrow that is taken, or an event in a log format.
type Shown = (u16, Arrow);

/// Records the worlds of these seeds and chooses among their logs.
pub fn record(seeds: Range<u64>) -> Vec<String> {
    let mut logs: Vec<(Log, BTreeSet<Shown>)> = Vec::new();
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let report = run(&WorldOptions { record: true, ..WorldOptions::seed(seed) });
        for log in report.logs {
            let shown = log.shown();
            // A log without a new feature is not needed: a shorter one came before.
            if log.events().len() <= EVENTS_MAX && !shown.is_subset(&seen) {
                seen.extend(shown.iter().copied());
                logs.push((log, shown));
            }
        }
    }
    if let Some(log) = logs.iter().find_map(|(log, _)| log.reopened()) {
        let shown = log.shown();
        seen.extend(shown.iter().copied());
        logs.push((log, shown));
    }
    let mut chosen = Vec::new();
    while !seen.is_empty() {
        let news = |shown: &BTreeSet<Shown>| shown.intersection(&seen).count();
        let Some((log, shown)) = logs.iter().max_by_key(|(_, shown)| news(shown)) else { break };
        chosen.push(log.text());
        seen = seen.difference(shown).copied().collect();
    }
    chosen
}

impl Log {
    fn events(&self) -> Vec<Event> {
        let bodies = self.frames.iter().filter_map(|frame| frame.body.as_ref().ok());
        bodies.flat_map(|body| decode(body).unwrap_or_default()).collect()
    }

    fn shown(&self) -> BTreeSet<Shown> {
        let (mut tracker, mut shown) = (Tracker::default(), BTreeSet::new());
        for frame in &self.frames {
            let events = frame.body.as_ref().ok().and_then(|body| decode(body).ok());
            for event in events.unwrap_or_default() {
                let mut taken = Coverage::default();
                tracker.event(&event, &mut taken);
                shown.extend(taken.arrows.keys().map(|arrow| (0, *arrow)));
                shown.insert((frame.header.requires, ("", event.name(), "")));
            }
        }
        shown
    }

    /// This log, of an execution that failed, with two more frames: it is opened again, and cancelled.
    fn reopened(&self) -> Option<Self> {
        let plan =
            waypost_lang::compile_canonical(self.canonical.as_bytes(), &waypost_nodes::catalog())
                .ok()?;
        let mut log = self.clone();
        let mut state = log.fold(&plan)?;
        if state.status != Status::Failed {
            return None;
        }
        for number in 1..=2 {
            let last = log.frames.last()?.clone();
            let now = last.header.decided_at.plus(waypost_core::time::Millis(1_000));
            let instance = last.header.instance;
            let env = Env {
                now,
                now_max: now,
                instance,
                slots: SlotCounts::default(),
                entropy: number,
                contents: Contents::default(),
                items_opened_max: ITEMS_OPENED_MAX,
                takers_max: Some(TAKERS_MAX),
                map_results_bytes_max: MAP_RESULTS_BYTES_MAX,
            };
            let origin = Origin::default();
            let command = match number {
                1 => Command::Request(Request::Retry { reason: None, budget: None }, origin),
                _ => Command::Request(Request::Cancel { reason: None }, origin),
            };
            let Decision { events, .. } = decide(&plan, &mut state, command, &env).ok()?;
            let header = FrameHeader {
                first_seq: last.header.last_seq + 1,
                last_seq: state.seq,
                append_id: AppendId(uuid::Uuid::from_u128(number)),
                parent: Some(last.header.as_parent()),
                epoch: state.epoch,
                decided_at: now,
                ..last.header
            };
            log.frames.push(StoredFrame { header, at: now, body: Ok(encode(&events)) });
        }
        Some(log)
    }

    fn fold(&self, plan: &Plan) -> Option<State> {
        let mut state: Option<State> = None;
        for frame in &self.frames {
            let at = frame.header.decided_at;
            for event in decode(frame.body.as_ref().ok()?).ok()? {
                match &mut state {
                    None => {
                        let execution = frame.header.execution;
                        state = waypost_core::apply::begin(plan, execution, &event, at).ok();
                    }
                    Some(state) => waypost_core::apply::apply(plan, state, &event, at).ok()?,
                }
            }
        }
        state
    }

    fn text(&self) -> String {
        let frame = |StoredFrame { header, at, body }: &StoredFrame| {
            let events = String::from_utf8_lossy(body.as_deref().unwrap_or_default());
            let (append, instance) = (header.append_id.0, header.instance.0);
            format!(
                "{{\"execution\":{},\"first_seq\":{},\"last_seq\":{},\"append_id\":\"{append}\",\
                 \"instance\":\"{instance}\",\"epoch\":{},\"decided_at\":{},\"at\":{},\
                 \"requires\":{},\"events\":{events}}}\n",
                header.execution.0,
                header.first_seq,
                header.last_seq,
                header.epoch,
                header.decided_at.0,
                at.0,
                header.requires,
            )
        };
        let definition = format!("{}\n", self.canonical);
        std::iter::once(definition).chain(self.frames.iter().map(frame)).collect()
    }
}
