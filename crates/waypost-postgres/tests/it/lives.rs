//! Different ways for an execution to live, cut into frames: what projections are made of.

use std::collections::BTreeMap;

use waypost_core::event::{Event, FailureEnd, NodeEvent, Origin, RunCreated, RunEvent, Wait};
use waypost_core::failure::Failure;
use waypost_core::id::{DefinitionHash, ExecutionId, InstanceId};
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::store::{NewDefinition, Store};
use waypost_postgres::PostgresStore;

use crate::support::{instance, is_committed, numbers};

/// What they are executions of.
pub(crate) fn definition() -> NewDefinition {
    let canonical = r#"{"name":"chain","nodes":[{"id":"a","label":"Node A","type":"noop"}]}"#;
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

/// The first event of an execution.
pub(crate) fn created(key: &str, input: &str) -> Event {
    Event::Run(RunEvent::Created(Box::new(RunCreated {
        key: ExecutionId(key.into()),
        workflow: "chain".into(),
        version: 1,
        definition: definition().hash,
        input: Json::parse(input).unwrap(),
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    })))
}

pub(crate) fn started(node: &str, attempt: u32) -> Event {
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt,
        worker: None,
        token: None,
        remote: None,
        due: None,
    })
}

pub(crate) fn completed(node: &str) -> Event {
    Event::Node(NodeEvent::Completed {
        node: node.into(),
        attempt: 1,
        output: Some(Json::parse(r#"{"text":"\u0000"}"#).unwrap()),
        branch: Some("true".into()),
        variables: BTreeMap::new(),
    })
}

/// The frames after the first, by execution.
pub(crate) fn lives() -> Vec<Vec<Vec<Event>>> {
    let scheduled = |node: &str, attempt| {
        Event::Node(NodeEvent::Scheduled {
            node: node.into(),
            attempt,
            cause: Vec::new(),
            deadline: None,
        })
    };
    let failure = Failure::transient("http", "answered 503");
    let failed = |end| {
        Event::Node(NodeEvent::Failed {
            node: "b".into(),
            attempt: 1,
            failure: failure.clone(),
            end,
            wait: None,
        })
    };
    let signal = Wait::Signal { name: "go".into(), due: Some(Timestamp(5_000_000)) };
    let waiting = Event::Node(NodeEvent::Waiting {
        node: "b".into(),
        attempt: 1,
        wait: signal,
        span: None,
        message: None,
    });
    let resumed = Event::Node(NodeEvent::Resumed {
        node: "b".into(),
        attempt: 1,
        message: None,
        origin: Origin::default(),
        timed_out: false,
        more: false,
    });
    let run_failed = Event::Run(RunEvent::Failed {
        failure: failure.clone(),
        nodes: vec!["b".into()],
        output: None,
    });
    let reopened = Event::Run(RunEvent::Reopened {
        generation: 2,
        nodes: vec!["b".into()],
        origin: Origin::default(),
        deadline: None,
        reason: None,
    });
    let retry_at = |due| FailureEnd::RetryAt(Timestamp(due));
    let done = || Event::Run(RunEvent::Completed { output: Json::parse(r#"{"sum":3}"#).unwrap() });
    vec![
        vec![vec![started("a", 1), completed("a")], vec![done()]],
        vec![
            vec![started("a", 1), completed("a"), started("b", 1)],
            vec![failed(retry_at(7)), scheduled("b", 2)],
            vec![started("b", 2), failed(retry_at(8))],
            vec![scheduled("b", 3), failed(FailureEnd::Final), run_failed],
            vec![reopened, scheduled("b", 1)],
            vec![started("b", 1), completed("b"), done()],
        ],
        vec![vec![started("b", 1), waiting.clone()], vec![resumed], vec![completed("b")]],
        vec![
            vec![started("b", 1), waiting],
            vec![Event::Run(RunEvent::Cancelled { reason: None })],
        ],
    ]
}

/// Lives all of them, each frame through another of these stores, and calls `after` after each.
pub(crate) fn live(stores: &[&PostgresStore], after: impl Fn(usize, &PostgresStore)) {
    let owner: InstanceId = instance(stores[0], 1);
    stores[0].define(&definition()).unwrap();
    let mut turn = stores.iter().copied().cycle();
    let executions = numbers(stores[0], owner, 4).into_iter();
    for (life, (execution, frames)) in executions.zip(lives()).enumerate() {
        let mut hand = Hand::new(execution, owner);
        let first = vec![created(&format!("life-{}", life + 1), r#"{"n":1}"#)];
        for events in std::iter::once(first).chain(frames) {
            let store = turn.next().unwrap();
            let outcomes = store.append(&[hand.write(&events).into()]).unwrap();
            assert!(is_committed(&outcomes[0]), "{outcomes:?}");
            after(life, store);
        }
    }
    stores.iter().for_each(|store| store.wait_projected().unwrap());
}
