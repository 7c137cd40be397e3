//! Chains of nodes that do nothing: what tests fill stores with, and what the measurements run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uuid::Uuid;
use waypost_core::event::{Event, NodeEvent, Origin, RunCreated, RunEvent};
use waypost_core::frame::{FrameHeader, Parent, encode};
use waypost_core::id::{AppendId, DefinitionHash, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::store::{
    About, Append, Appended, ControlChange, Heartbeat, LEASE, NewDefinition, Side, Store,
    Submission,
};

/// The instance that all of it belongs to.
pub(crate) const INSTANCE: InstanceId = InstanceId(Uuid::from_u128(7));

/// An execution of a chain, one frame a node.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) execution: ExecutionNo,
    definition: DefinitionHash,
    nodes: u64,
    done: u64,
    next_seq: u64,
    parent: Option<Parent>,
}

/// The definition of a chain of so many nodes.
pub(crate) fn definition(nodes: u64) -> NewDefinition {
    let nodes: Vec<String> = (1..=nodes)
        .map(|node| format!(r#"{{"id":"n{node}","label":"Node {node}","type":"noop"}}"#))
        .collect();
    let canonical = format!(r#"{{"name":"chain","nodes":[{}]}}"#, nodes.join(","));
    let hash = DefinitionHash::of(canonical.as_bytes());
    NewDefinition {
        name: "chain".into(),
        hash,
        canonical: canonical.into(),
        make_current: true,
        triggers: Vec::new(),
        paused: false,
    }
}

/// Announces the instance and sets so many numbers aside.
pub(crate) fn numbers(store: &dyn Store, count: u32) -> std::ops::Range<i64> {
    let heartbeat = Heartbeat {
        instance: INSTANCE,
        numbers: count,
        fold: 1,
        lease: Some(LEASE),
        about: About::default(),
    };
    store.heartbeat(&heartbeat).unwrap().numbers
}

impl Chain {
    pub(crate) fn new(number: i64, nodes: u64) -> Self {
        Self::of(number, nodes, definition(nodes.min(100)).hash)
    }

    fn of(number: i64, nodes: u64, definition: DefinitionHash) -> Self {
        let execution = ExecutionNo(number);
        Self { execution, definition, nodes, done: 0, next_seq: 1, parent: None }
    }

    /// The next frame, or nothing when the chain has ended.
    pub(crate) fn next(&mut self) -> Option<Append> {
        if self.done == self.nodes {
            return None;
        }
        let mut events = Vec::with_capacity(5);
        let mut side = Side::default();
        if self.done == 0 {
            let key = self.key();
            events.push(self.created(&key));
            events.push(Event::Run(RunEvent::Owned { instance: INSTANCE, epoch: 1 }));
            side.submission = Some(Submission { key, idempotency: None, fire: None });
            side.control = Some(ControlChange::Owned);
        }
        self.done += 1;
        events.extend(node_events(&format!("n{}", self.done), self.next_seq));
        if self.done == self.nodes {
            events.push(Event::Run(RunEvent::Completed { output: Json::parse("{}").unwrap() }));
            side.control = Some(ControlChange::Ended);
        }
        Some(self.frame(&events, side))
    }

    /// A frame that parks the chain where it stands.
    pub(crate) fn park(&mut self, next_due: Option<Timestamp>) -> Append {
        let side = Side { control: Some(ControlChange::Parked { next_due }), ..Side::default() };
        let paused =
            Event::Run(RunEvent::Paused { reason: waypost_core::event::PauseReason::Waits });
        self.frame(&[paused], side)
    }

    fn frame(&mut self, events: &[Event], side: Side) -> Append {
        let body = encode(events);
        let header = FrameHeader {
            execution: self.execution,
            first_seq: self.next_seq,
            last_seq: self.next_seq + events.len() as u64 - 1,
            append_id: AppendId(Uuid::now_v7()),
            parent: self.parent,
            instance: INSTANCE,
            epoch: 1,
            decided_at: Timestamp(1_790_000_000_000),
            requires: 1,
        };
        self.next_seq = header.last_seq + 1;
        self.parent = Some(header.as_parent());
        Append { header, body, side }
    }

    fn key(&self) -> ExecutionId {
        let low = u128::from(self.execution.0.unsigned_abs());
        ExecutionId::from_uuid(Uuid::from_u128((0x0192_aaaa_bbbb_7000_u128 << 64) | low))
    }

    fn created(&self, key: &ExecutionId) -> Event {
        Event::Run(RunEvent::Created(Box::new(RunCreated {
            key: key.clone(),
            workflow: "chain".into(),
            version: 1,
            definition: self.definition,
            input: Json::parse(r#"{"userId":42}"#).unwrap(),
            labels: BTreeMap::new(),
            deadline: None,
            origin: Origin::default(),
            parent: None,
            trigger: None,
        })))
    }
}

fn node_events(node: &str, cause: u64) -> [Event; 3] {
    let node: std::sync::Arc<str> = node.into();
    [
        Event::Node(NodeEvent::Scheduled {
            node: node.clone(),
            attempt: 1,
            cause: vec![cause],
            deadline: None,
        }),
        Event::Node(NodeEvent::Started {
            node: node.clone(),
            attempt: 1,
            worker: None,
            remote: None,
            token: None,
            due: None,
        }),
        Event::Node(NodeEvent::Completed {
            node,
            attempt: 1,
            output: Some(Json::parse(r#"{"ok":true}"#).unwrap()),
            branch: None,
            variables: BTreeMap::new(),
        }),
    ]
}

/// What a run of chains came to.
pub(crate) struct Ran {
    pub(crate) frames: u64,
    /// The time spent in the store; the rest went into making frames.
    pub(crate) appending: Duration,
    /// How much of it on a processor, where the system tells.
    pub(crate) appending_cpu: Duration,
}

/// The time this thread has spent on a processor; zero where the system does not tell.
pub(crate) fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// Runs so many chains to their end, `width` at a time, interleaved.
pub(crate) fn run(store: &dyn Store, executions: u32, nodes: u64, width: usize) -> Ran {
    let hash = definition(nodes).hash;
    let mut waiting = numbers(store, executions).map(|number| Chain::of(number, nodes, hash));
    let mut active: Vec<Chain> = waiting.by_ref().take(width).collect();
    let mut ran = Ran { frames: 0, appending: Duration::ZERO, appending_cpu: Duration::ZERO };
    while !active.is_empty() {
        let batch: Vec<Append> = active.iter_mut().filter_map(Chain::next).collect();
        let (started, cpu_before) = (Instant::now(), cpu());
        let outcomes = store.append(&batch).unwrap();
        ran.appending_cpu += cpu() - cpu_before;
        ran.appending += started.elapsed();
        for outcome in outcomes {
            assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
        }
        ran.frames += batch.len() as u64;
        active.retain(|chain| chain.done < chain.nodes);
        active.extend(waiting.by_ref().take(width - active.len()));
    }
    ran
}
