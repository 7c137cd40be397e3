//! Measures what projections cost: `cargo run --release -p waypost-postgres --example measure_projections`.
//!
//! Appends interleaved chains through a store with a private server, and tells how much processor time the
//! thread that projects and its connection in the server took, by node.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people to run by hand"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uuid::Uuid;
use waypost_core::event::{Event, NodeEvent, Origin, RunCreated, RunEvent};
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{
    About, Append, Appended, ControlChange, Heartbeat, LEASE, NewDefinition, Store, Submission,
};
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::postgres::{Durability, Postgres};

const EXECUTIONS: u32 = 10_000;
const NODES: u32 = 10;
const WIDTH: usize = 256;

/// An execution of a chain, one frame a node.
struct Chain {
    hand: Hand,
    done: u32,
}

impl Chain {
    fn next(&mut self, definition: DefinitionHash) -> Append {
        let mut events = Vec::new();
        let first = self.done == 0;
        let key = ExecutionId(format!("exe_{:026}", self.hand.execution.0).into());
        if first {
            events.push(Event::Run(RunEvent::Created(Box::new(RunCreated {
                key: key.clone(),
                workflow: "chain".into(),
                version: 1,
                definition,
                input: Json::parse(r#"{"userId":42}"#).unwrap(),
                labels: BTreeMap::new(),
                deadline: None,
                origin: Origin::default(),
                parent: None,
                trigger: None,
            }))));
            events.push(Event::Run(RunEvent::Owned { instance: self.hand.instance, epoch: 1 }));
        }
        self.done += 1;
        let node: std::sync::Arc<str> = format!("n{}", self.done).into();
        let cause = vec![self.hand.next_seq];
        events.push(Event::Node(NodeEvent::Scheduled {
            node: node.clone(),
            attempt: 1,
            cause,
            deadline: None,
        }));
        let (worker, token) = (None, None);
        events.push(Event::Node(NodeEvent::Started {
            node: node.clone(),
            attempt: 1,
            worker,
            token,
            remote: None,
            due: None,
        }));
        let output = Some(Json::parse(r#"{"ok":true}"#).unwrap());
        let (branch, variables) = (None, BTreeMap::new());
        events.push(Event::Node(NodeEvent::Completed {
            node,
            attempt: 1,
            output,
            branch,
            variables,
        }));
        let last = self.done == NODES;
        if last {
            events.push(Event::Run(RunEvent::Completed { output: Json::parse("{}").unwrap() }));
        }
        let mut draft = self.hand.write(&events);
        if first {
            let submission = Submission { key, idempotency: None, fire: None };
            draft = draft.control(ControlChange::Owned).submission(submission);
        }
        if last {
            draft = draft.control(ControlChange::Ended);
        }
        draft.into()
    }
}

fn main() {
    let server = Postgres::start(Durability::Full);
    let url = server.database();
    let store = PostgresStore::open(&url, Options::default()).unwrap();
    let canonical = r#"{"name":"chain","nodes":[]}"#;
    let hash = DefinitionHash::of(canonical.as_bytes());
    let definition = NewDefinition {
        name: "chain".into(),
        hash,
        canonical: canonical.into(),
        make_current: true,
        triggers: Vec::new(),
        paused: false,
    };
    store.define(&definition).unwrap();
    let instance = InstanceId(Uuid::from_u128(7));
    let about = About::default();
    let heartbeat = Heartbeat { instance, numbers: EXECUTIONS, fold: 1, lease: Some(LEASE), about };
    let numbers = store.heartbeat(&heartbeat).unwrap().numbers;
    let chain = |number| Chain { hand: Hand::new(ExecutionNo(number), instance), done: 0 };
    let mut waiting = numbers.map(chain);
    let mut active: Vec<Chain> = waiting.by_ref().take(WIDTH).collect();
    let started = Instant::now();
    while !active.is_empty() {
        let batch: Vec<Append> = active.iter_mut().map(|chain| chain.next(hash)).collect();
        for outcome in store.append(&batch).unwrap() {
            assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
        }
        active.retain(|chain| chain.done < NODES);
        active.extend(waiting.by_ref().take(WIDTH - active.len()));
    }
    let appended = started.elapsed();
    store.wait_projected().unwrap();
    let shown = started.elapsed();
    let nodes = f64::from(EXECUTIONS * NODES);
    println!("appended  {:>8.0} nodes/s", nodes / appended.as_secs_f64());
    println!("shown     {:>8.0} nodes/s", nodes / shown.as_secs_f64());
    let per_node = |cpu: Duration| cpu.as_secs_f64() * 1e6 / nodes;
    for (thread, cpu) in threads() {
        println!("thread {thread:<18} {:>6.2} us a node", per_node(cpu));
    }
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let backends = server.sql(
        database,
        "SELECT application_name || ' ' || pid FROM pg_stat_activity
         WHERE application_name LIKE 'waypost/%' ORDER BY 1",
    );
    for line in backends.lines() {
        let (name, pid) = line.rsplit_once(' ').unwrap();
        println!(
            "server {name:<18} {:>6.2} us a node",
            per_node(ticks(&format!("/proc/{pid}/stat")))
        );
    }
    for what in ["the first list", "the second"] {
        let asked = Instant::now();
        let page = store.list(&ListRequest { limit: 50, ..ListRequest::default() }).unwrap();
        println!("{what} of {} took {:?}", page.rows.len(), asked.elapsed());
    }
}

/// Processor time by the names of this process' threads.
fn threads() -> BTreeMap<String, Duration> {
    let mut all: BTreeMap<String, Duration> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let stat = entry.path().join("stat").display().to_string();
        *all.entry(name.trim().to_owned()).or_default() += ticks(&stat);
    }
    all
}

/// Processor time of a process or thread: its ticks are hundredths of a second.
fn ticks(path: &str) -> Duration {
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (field(12) + field(13)))
}
