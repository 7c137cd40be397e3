//! The checker: a good log, one damage, one finding, with the code and the seq that name it.
//!
//! That it finds nothing in logs that the engine can write is among the [`laws`](super::laws).

use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;
use waypost_core::breaker::{BreakerCause, BreakerHold};
use waypost_core::check::{Invariant, LogCheck};
use waypost_core::command::{Command, Outcome, Report, Request, Tuning};
use waypost_core::event::Wait;
use waypost_core::event::{
    CancelReason, Event, FailureEnd, NodeEvent, Origin, PauseReason, RunEvent,
};
use waypost_core::failure::Failure;
use waypost_core::flow::{millis, plan};
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{AppendId, DefinitionHash, ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::limits::{ABANDONED_MAX, EARLY_SIGNALS_MAX, PAYLOAD_BYTES_MAX};
use waypost_core::plan::{ConcurrencyPolicy, Plan};
use waypost_core::time::{Millis, Timestamp};

use super::run::{EPOCH, Run};

/// Puts events into frames, as their owner would, and has them checked.
pub(crate) struct Logbook {
    pub(crate) check: LogCheck,
    frames: Vec<Frame>,
}

#[derive(Clone, Debug)]
struct Frame {
    header: FrameHeader,
    at: Timestamp,
    events: Vec<Event>,
}

impl Logbook {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { check: LogCheck::new(ExecutionNo(7), plan), frames: Vec::new() }
    }

    /// Takes in the events of one command.
    pub(crate) fn read(&mut self, events: &[(Timestamp, Event)]) {
        let Some((at, _)) = events.first() else { return };
        let last = self.frames.last().map(|frame| frame.header);
        let mut header = FrameHeader {
            execution: ExecutionNo(7),
            first_seq: last.map_or(0, |last| last.last_seq) + 1,
            last_seq: last.map_or(0, |last| last.last_seq) + events.len() as u64,
            append_id: AppendId(Uuid::from_u128(1000 + self.frames.len() as u128)),
            parent: last.map(|last| last.as_parent()),
            instance: last.map_or(InstanceId(Uuid::nil()), |last| last.instance),
            epoch: last.map_or(0, |last| last.epoch),
            decided_at: *at,
            requires: 1,
        };
        let events: Vec<Event> = events.iter().map(|(_, event)| event.clone()).collect();
        for event in &events {
            if let Event::Run(RunEvent::Owned { instance, epoch }) = event {
                (header.instance, header.epoch) = (*instance, *epoch);
            }
        }
        self.check.frame(&header, *at, Ok(&events));
        self.frames.push(Frame { header, at: *at, events });
    }
}

/// A log in the making.
struct Draft<'a> {
    run: Run<'a>,
    logbook: Logbook,
    read: usize,
}

impl<'a> Draft<'a> {
    fn new(plan: &'a Arc<Plan>) -> Self {
        let run = Run::start(plan, "{}", None, 100);
        let mut draft = Self { run, logbook: Logbook::new(Arc::clone(plan)), read: 0 };
        draft.note();
        draft
    }

    fn note(&mut self) {
        self.logbook.read(&self.run.log[self.read..]);
        self.read = self.run.log.len();
    }

    fn command(&mut self, command: Command) {
        self.run.command(command).expect("a command of a good log");
        self.note();
    }

    fn complete(&mut self, node: &str) {
        let outcome = Outcome::Completed(Json::parse("1").expect("as the case says"));
        self.command(Command::Report(self.run.report(node, None, outcome)));
    }

    fn fail(&mut self, node: &str) {
        let outcome = Outcome::Failed(Failure::transient("http", "it failed"));
        self.command(Command::Report(self.run.report(node, None, outcome)));
    }

    fn lose(&mut self, node: &str) {
        let outcome = Outcome::Lost(Failure::transient("panic", "it panicked"));
        self.command(Command::Report(self.run.report(node, None, outcome)));
    }

    fn pass(&mut self, span: &str) {
        self.run.now = self.run.now.plus(millis(span));
        self.command(Command::Tick);
    }

    fn signal(&mut self, message: &str) {
        let origin = Origin { message: Some(message.into()), actor: None };
        self.command(Command::Request(
            Request::Signal { name: "go".into(), body: Json::null() },
            origin,
        ));
    }
}

fn origin() -> Origin {
    Origin::default()
}

/// A plan, how its log comes about, what is done to the log, and what must be found.
struct Case {
    name: &'static str,
    flow: &'static str,
    write: fn(&mut Draft<'_>),
    damage: fn(&mut Vec<Frame>),
    finds: &'static [(&'static str, u64)],
}

const CHAIN: &str = "a; b needs a";

/// Created 1, owned 2, a scheduled 3, started 4 | completed 5, b scheduled 6, started 7 | completed
/// 8, ended 9.
fn chain(draft: &mut Draft<'_>) {
    draft.complete("a");
    draft.complete("b");
}

/// Created 1, owned 2, queued 3 | owned 4 | admitted 5, a scheduled 6, started 7 | completed 8, ended 9.
fn keyed(draft: &mut Draft<'_>) {
    draft.run.restart();
    draft.command(Command::TakeOver);
    draft.command(Command::Admit);
    draft.complete("a");
}

fn queued() -> Event {
    Event::Run(RunEvent::Queued { key: "k".into(), limit: 1, policy: ConcurrencyPolicy::Queue })
}

const FAR: &str = "a = worker";

/// Created 1, owned 2, a scheduled 3 | started remotely 4 | completed 5, ended 6.
fn far(draft: &mut Draft<'_>) {
    let (worker, token) = (Some(WorkerId(Uuid::from_u128(1))), Token(1));
    draft.run.deliveries.insert(token, (draft.run.at("a"), 1));
    for outcome in [Outcome::Started, Outcome::Completed(Json::null())] {
        let report = Report { node: "a".into(), attempt: 1, token, worker, outcome };
        draft.command(Command::Report(report));
    }
}

/// The chain, taken over by another instance after its first node: owned 5, a failed 6, …
fn taken_over(draft: &mut Draft<'_>) {
    draft.run.restart();
    draft.command(Command::TakeOver);
    draft.command(Command::Recover);
    chain(draft);
}

fn event(frames: &mut [Frame], seq: u64) -> &mut Event {
    let frame =
        frames.iter_mut().find(|frame| frame.header.last_seq >= seq).expect("as the case says");
    let at = usize::try_from(seq - frame.header.first_seq).expect("as the case says");
    &mut frame.events[at]
}

/// Puts events behind a frame's own and moves everything after it.
fn insert(frames: &mut [Frame], at: usize, events: Vec<Event>) {
    let more = events.len() as u64;
    frames[at].events.extend(events);
    frames[at].header.last_seq += more;
    let mut parent = frames[at].header.as_parent();
    for frame in &mut frames[at + 1..] {
        frame.header.first_seq += more;
        frame.header.last_seq += more;
        frame.header.parent = Some(parent);
        parent = frame.header.as_parent();
    }
}

fn remove(frames: &mut [Frame], seq: u64) {
    let at =
        frames.iter().position(|frame| frame.header.last_seq >= seq).expect("as the case says");
    let place = usize::try_from(seq - frames[at].header.first_seq).expect("as the case says");
    frames[at].events.remove(place);
    frames[at].header.last_seq -= 1;
    let mut parent = frames[at].header.as_parent();
    for frame in &mut frames[at + 1..] {
        frame.header.first_seq -= 1;
        frame.header.last_seq -= 1;
        frame.header.parent = Some(parent);
        parent = frame.header.as_parent();
    }
}

/// As builds wrote an event that did not record how long things last.
fn forget_spans(event: &mut Event) {
    match event {
        Event::Node(NodeEvent::Scheduled { deadline, .. }) => *deadline = None,
        Event::Node(NodeEvent::Started { due, .. }) => *due = None,
        Event::Node(NodeEvent::Waiting { span, .. }) => *span = None,
        Event::Node(NodeEvent::Failed { wait, .. }) => *wait = None,
        _ => {}
    }
}

/// Moves a frame in time.
fn decide_and_store(frame: &mut Frame, ms: u64) {
    frame.at = EPOCH.plus(Millis(ms));
    frame.header.decided_at = frame.at;
}

fn started(node: &str, attempt: u32) -> Event {
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt,
        worker: None,
        remote: None,
        token: None,
        due: None,
    })
}

fn started_remote(node: &str, worker: Option<InstanceId>, token: Option<Token>) -> Event {
    let remote = Some(WorkerId(Uuid::from_u128(1)));
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt: 1,
        worker,
        remote,
        token,
        due: None,
    })
}

fn scheduled(node: &str, attempt: u32, cause: &[u64]) -> Event {
    Event::Node(NodeEvent::Scheduled {
        node: node.into(),
        attempt,
        cause: cause.to_vec(),
        deadline: None,
    })
}

#[test]
fn one_damage_gives_one_finding() {
    let mut wrong = Vec::new();
    for case in CASES {
        let plan = Arc::new(plan(case.flow));
        let mut draft = Draft::new(&plan);
        (case.write)(&mut draft);
        assert_eq!(draft.logbook.check.violations(), [], "{}: a good log", case.name);
        let mut frames = draft.logbook.frames;
        (case.damage)(&mut frames);
        let mut check = LogCheck::new(ExecutionNo(7), Arc::clone(&plan));
        for frame in &frames {
            check.frame(&frame.header, frame.at, Ok(&frame.events));
        }
        let found: Vec<_> =
            check.violations().iter().map(|v| (v.invariant.name(), v.seq)).collect();
        if found != case.finds {
            let lines = check.violations().iter().map(|violation| format!("\n    {violation}"));
            wrong.push(format!("{}:{}", case.name, lines.collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const BREAKER: &str = "a breaker k";

/// Created 1, owned 2, a scheduled 3, started 4 | waits for its breaker 5 | queued again 6, started 7 |
/// completed 8, ended 9.
fn blocked(draft: &mut Draft<'_>) {
    let until = draft.run.now.plus(Millis(5_000));
    let (spread, cause) = (Millis(1), BreakerCause::Crowded);
    let hold = BreakerHold { key: "k".into(), until, spread, cause };
    let outcome = Outcome::Blocked(Box::new(hold));
    draft.command(Command::Report(draft.run.report("a", None, outcome)));
    draft.pass("5s");
    draft.complete("a");
}

const STEERED: &str = "m = map(5, at 1, tolerate 5) {a}";

/// One item after the other, then three at once; then one is cancelled, and the map is held.
fn steered(draft: &mut Draft<'_>) {
    let tune = |tuning| Request::Tune { node: "m".into(), tuning, reason: None };
    draft.complete("m[0]/a");
    let wider = Tuning { held: None, concurrency: Some(3) };
    draft.command(Command::Request(tune(wider), origin()));
    let item = Request::CancelItem { node: "m[2]".into(), reason: None };
    draft.command(Command::Request(item, origin()));
    let held = Tuning { held: Some(true), concurrency: None };
    draft.command(Command::Request(tune(held), origin()));
    draft.complete("m[1]/a");
}

/// The only event of a kind, or the first.
fn seq_of(frames: &[Frame], name: &str) -> u64 {
    let events = frames.iter().flat_map(|frame| &frame.events);
    (1..).zip(events).find(|(_, event)| event.name() == name).expect("as the case says").0
}

const CASES: &[Case] = &[
    Case {
        name: "an attempt asks its breaker again before it is due",
        flow: BREAKER,
        write: blocked,
        damage: |frames| decide_and_store(&mut frames[2], 4_000),
        finds: &[("wait.ends-once", 6)],
    },
    Case {
        name: "a node with a breaker waits for something else",
        flow: BREAKER,
        write: blocked,
        damage: |frames| {
            if let Event::Node(NodeEvent::Waiting { wait, .. }) = event(frames, 5) {
                *wait = Wait::Delay { due: EPOCH };
            }
        },
        finds: &[("wait.ends-once", 5), ("log.readable", 6)],
    },
    Case {
        name: "an attempt is made while it waits for its breaker",
        flow: BREAKER,
        write: blocked,
        damage: |frames| remove(frames, 6),
        finds: &[("attempt.once", 6)],
    },
    Case {
        name: "more items are open than the map allows",
        flow: STEERED,
        write: steered,
        damage: |frames| {
            let seq = seq_of(frames, "NodeTuned");
            remove(frames, seq);
        },
        finds: &[("body.in-order", 13)],
    },
    Case {
        name: "an item ends, and no request asked for it",
        flow: STEERED,
        write: steered,
        damage: |frames| {
            let seq = seq_of(frames, "BodyEnding");
            if let Event::Node(NodeEvent::BodyEnding { origin, .. }) = event(frames, seq) {
                *origin = Origin::default();
            }
        },
        finds: &[("graph.justified", 19)],
    },
    Case {
        name: "a map that is held opens an item",
        flow: STEERED,
        write: steered,
        damage: |frames| {
            let (node, attempt) = ("m".into(), 1);
            let opened =
                NodeEvent::ItemsOpened { node, attempt, from: 4, count: 1, items: None, failed: 0 };
            let last = frames.len() - 1;
            insert(frames, last, vec![opened.into()]);
        },
        finds: &[("body.in-order", 22)],
    },
    Case {
        name: "a map is tuned to more items than are allowed",
        flow: STEERED,
        write: steered,
        damage: |frames| {
            let seq = seq_of(frames, "NodeTuned");
            if let Event::Node(NodeEvent::Tuned { concurrency, .. }) = event(frames, seq) {
                *concurrency = Some(10_001);
            }
        },
        finds: &[("limits.hold", 13)],
    },
    Case {
        name: "a remote attempt that nobody has a token for",
        flow: FAR,
        write: far,
        damage: |frames| *event(frames, 4) = started_remote("a", None, None),
        finds: &[("attempt.once", 4)],
    },
    Case {
        name: "an attempt in two places",
        flow: FAR,
        write: far,
        damage: |frames| {
            let here = Some(frames[0].header.instance);
            *event(frames, 4) = started_remote("a", here, Some(Token(1)));
        },
        finds: &[("attempt.once", 4)],
    },
    Case {
        name: "an attempt with the token of an earlier one",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let Event::Node(NodeEvent::Started { token, .. }) = *event(frames, 4) else {
                panic!("started")
            };
            let Event::Node(NodeEvent::Started { token: second, .. }) = event(frames, 7) else {
                panic!("started")
            };
            *second = token;
        },
        finds: &[("attempt.once", 7)],
    },
    Case {
        name: "a wait that somebody elsewhere waits",
        flow: "a; b = delay(5s) needs a",
        write: |draft| draft.complete("a"),
        damage: |frames| *event(frames, 7) = started_remote("b", None, Some(Token(1))),
        finds: &[("graph.justified", 7)],
    },
    Case {
        name: "an attempt in a slot that has no handler for it",
        flow: FAR,
        write: far,
        damage: |frames| {
            let (node, attempt, token) = ("a".into(), 1, Some(Token(1)));
            let worker = Some(frames[0].header.instance);
            *event(frames, 4) = Event::Node(NodeEvent::Started {
                node,
                attempt,
                worker,
                remote: None,
                token,
                due: None,
            });
        },
        finds: &[("graph.justified", 4)],
    },
    Case {
        name: "a frame is missing",
        flow: CHAIN,
        write: chain,
        damage: |frames| drop(frames.remove(1)),
        finds: &[("log.gapless", 8)],
    },
    Case {
        name: "the first frame is missing",
        flow: CHAIN,
        write: chain,
        damage: |frames| drop(frames.remove(0)),
        finds: &[("log.gapless", 5)],
    },
    Case {
        name: "a frame is there twice",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames.insert(1, frames[1].clone()),
        finds: &[("log.gapless", 5), ("append.once", 5)],
    },
    Case {
        name: "a frame follows another one than it says",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let append_id = AppendId(Uuid::from_u128(5));
            frames[1].header.parent = Some(Parent { first_seq: 1, append_id });
        },
        finds: &[("log.gapless", 5)],
    },
    Case {
        name: "a frame holds other events than it says",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[1].header.last_seq += 1,
        finds: &[("log.gapless", 5)],
    },
    Case {
        name: "a frame of another execution",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[2].header.execution = ExecutionNo(8),
        finds: &[("log.gapless", 8)],
    },
    Case {
        name: "created twice",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let created = frames[0].events[0].clone();
            insert(frames, 0, vec![created]);
            *event(frames, 7) = scheduled("b", 1, &[6]);
        },
        finds: &[("log.created-first", 5)],
    },
    Case {
        name: "does not begin with its creation",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[0].events.swap(0, 1),
        finds: &[("log.created-first", 1)],
    },
    Case {
        name: "an earlier owner appends",
        flow: CHAIN,
        write: taken_over,
        damage: |frames| frames[3].header.epoch = 1,
        finds: &[("log.fenced", 9)],
    },
    Case {
        name: "two instances append as one owner",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[2].header.instance = InstanceId(Uuid::from_u128(99)),
        finds: &[("log.fenced", 8)],
    },
    Case {
        name: "an owner that skips an epoch",
        flow: CHAIN,
        write: taken_over,
        damage: |frames| {
            let instance = frames[1].header.instance;
            *event(frames, 5) = Event::Run(RunEvent::Owned { instance, epoch: 3 });
            frames[1..].iter_mut().for_each(|frame| frame.header.epoch = 3);
        },
        finds: &[("log.fenced", 5)],
    },
    Case {
        name: "two ends",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let end = frames[2].events[1].clone();
            insert(frames, 2, vec![end]);
        },
        finds: &[("log.single-end", 10)],
    },
    Case {
        name: "a frame after the end",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let mut copy = frames[1].clone();
            copy.header = FrameHeader {
                first_seq: 10,
                last_seq: 12,
                append_id: AppendId(Uuid::from_u128(5)),
                parent: Some(frames[2].header.as_parent()),
                ..copy.header
            };
            copy.at = frames[2].at;
            frames.push(copy);
        },
        finds: &[("log.single-end", 10)],
    },
    Case {
        name: "ended before everything was settled",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            remove(frames, 8);
        },
        finds: &[("log.single-end", 8)],
    },
    Case {
        name: "an attempt that starts twice",
        flow: CHAIN,
        write: chain,
        damage: |frames| insert(frames, 1, vec![started("b", 1)]),
        finds: &[("attempt.once", 8)],
    },
    Case {
        name: "an attempt that ends twice",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let completed = frames[1].events[0].clone();
            insert(frames, 1, vec![completed]);
        },
        finds: &[("attempt.once", 8)],
    },
    Case {
        name: "an attempt that ends without a start",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            remove(frames, 7);
        },
        finds: &[("attempt.once", 7)],
    },
    Case {
        name: "an attempt number left out",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            *event(frames, 6) = scheduled("b", 2, &[5]);
            *event(frames, 7) = started("b", 2);
        },
        finds: &[("attempt.consecutive", 6)],
    },
    Case {
        name: "the next attempt before the last one ended",
        flow: CHAIN,
        write: chain,
        damage: |frames| insert(frames, 1, vec![scheduled("b", 2, &[])]),
        finds: &[("attempt.consecutive", 8)],
    },
    Case {
        name: "more tries than allowed",
        flow: "a retry 2 wait 1s",
        write: |draft| {
            draft.fail("a");
            draft.pass("1s");
            draft.fail("a");
        },
        damage: |frames| {
            let last = frames.last_mut().expect("as the case says");
            let due = FailureEnd::RetryAt(last.at.plus(Millis(1)));
            let Event::Node(NodeEvent::Failed { end, .. }) = &mut last.events[0] else {
                panic!("a failed")
            };
            *end = due;
            last.events.truncate(1);
            last.header.last_seq = last.header.first_seq;
        },
        finds: &[("attempt.consecutive", 8)],
    },
    Case {
        name: "a failure of the work passes onError by",
        flow: "a error oops",
        write: |draft| draft.fail("a"),
        damage: |frames| {
            let Event::Node(NodeEvent::Failed { failure, .. }) = event(frames, 5) else {
                panic!("a failed")
            };
            failure.on_error_skipped = true;
        },
        finds: &[("graph.justified", 5)],
    },
    Case {
        name: "a completed node runs again",
        flow: CHAIN,
        write: chain,
        damage: |frames| insert(frames, 1, vec![scheduled("a", 2, &[]), started("a", 2)]),
        finds: &[("node.settles-once", 8)],
    },
    Case {
        name: "a completed node is cancelled",
        flow: CHAIN,
        write: |draft| {
            draft.complete("a");
            draft.command(Command::Request(Request::Cancel { reason: None }, origin()));
        },
        damage: |frames| {
            let reason = CancelReason::Ending;
            insert(frames, 2, vec![Event::Node(NodeEvent::Cancelled { node: "a".into(), reason })]);
        },
        finds: &[("node.settles-once", 9)],
    },
    Case {
        name: "a repair of a completed node",
        flow: CHAIN,
        write: |draft| {
            draft.complete("a");
            let failure = Outcome::Failed(Failure::permanent("broken", "it failed"));
            draft.command(Command::Report(draft.run.report("b", None, failure)));
            draft
                .command(Command::Request(Request::Retry { reason: None, budget: None }, origin()));
            draft.complete("b");
        },
        damage: |frames| {
            let Event::Run(RunEvent::Reopened { nodes, .. }) = event(frames, 11) else {
                panic!("reopened")
            };
            nodes.push("a".into());
        },
        finds: &[("node.settles-once", 11)],
    },
    Case {
        name: "a join that fires early",
        flow: "a; b; j needs a, b",
        write: |draft| {
            draft.complete("a");
            draft.complete("b");
            draft.complete("j");
        },
        damage: |frames| {
            insert(frames, 1, vec![scheduled("j", 1, &[7]), started("j", 1)]);
            remove(frames, 12);
            remove(frames, 11);
        },
        finds: &[("join.on-time", 8)],
    },
    Case {
        name: "a join that cannot be met, and fails as if its work had",
        flow: "partial; a; b; c needs a, b join 2",
        write: |draft| {
            draft.complete("b");
            draft.fail("a");
        },
        damage: |frames| {
            let Event::Node(NodeEvent::Failed { failure, .. }) = event(frames, 10) else {
                panic!("failed")
            };
            *failure = Failure::permanent("http", "it failed");
        },
        finds: &[("join.on-time", 10)],
    },
    Case {
        name: "a node is scheduled before there is an owner",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            frames[0].events.swap(1, 2);
            frames.truncate(1);
        },
        finds: &[("log.fenced", 2)],
    },
    Case {
        name: "paused while a node runs",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let request =
                Event::Run(RunEvent::PauseRequested { now: false, reason: None, origin: origin() });
            let paused = Event::Run(RunEvent::Paused { reason: PauseReason::User });
            insert(frames, 0, vec![request, paused]);
            frames.truncate(1);
        },
        finds: &[("pause.holds", 6)],
    },
    Case {
        name: "a start that nothing justifies",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            insert(frames, 0, vec![scheduled("b", 1, &[]), started("b", 1)]);
            remove(frames, 9);
            remove(frames, 8);
        },
        finds: &[("graph.justified", 5)],
    },
    Case {
        name: "a start with a false cause",
        flow: CHAIN,
        write: chain,
        damage: |frames| *event(frames, 6) = scheduled("b", 1, &[4]),
        finds: &[("graph.justified", 6)],
    },
    Case {
        name: "a skip that nothing justifies",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            *event(frames, 6) =
                Event::Node(NodeEvent::Skipped { node: "b".into(), cause: vec![5] });
            remove(frames, 8);
            remove(frames, 7);
        },
        finds: &[("graph.justified", 6)],
    },
    Case {
        name: "a branch that was not selected",
        flow: "c = if(input.n == 1); t needs c:true; f needs c:false",
        write: |draft| {
            draft.run.evaluates = true;
        },
        damage: |frames| {
            // The condition has failed on the missing field: make it a choice, then the wrong one.
            frames.truncate(1);
            let frame = &mut frames[0];
            let (at, _) = (0..)
                .zip(&frame.events)
                .find(|(_, e)| e.name() == "NodeFailed")
                .expect("as the case says");
            frame.events.truncate(at);
            frame.events.push(Event::Node(NodeEvent::Completed {
                node: "c".into(),
                attempt: 1,
                output: None,
                branch: Some("true".into()),
                variables: std::collections::BTreeMap::new(),
            }));
            let cause = frame.events.len() as u64;
            frame.events.push(scheduled("f", 1, &[cause]));
            frame.header.last_seq = frame.events.len() as u64;
        },
        finds: &[("graph.justified", 6)],
    },
    Case {
        name: "a node that the definition does not have",
        flow: CHAIN,
        write: chain,
        damage: |frames| insert(frames, 0, vec![scheduled("z", 1, &[])]),
        finds: &[("graph.justified", 5), ("graph.justified", 7)],
    },
    Case {
        name: "a delay that ends early",
        flow: "d = delay(5s)",
        write: |draft| draft.pass("5s"),
        damage: |frames| decide_and_store(&mut frames[1], 4_999),
        finds: &[("wait.ends-once", 6)],
    },
    Case {
        name: "a delay that was due too early, because the time was behind",
        flow: "a; d = delay(5s) needs a",
        write: |draft| {
            draft.complete("a");
            draft.pass("9s");
        },
        damage: |frames| {
            // What was decided after the first frame was stored began after that.
            frames[0].at = EPOCH.plus(Millis(3_000));
            frames[1].at = EPOCH.plus(Millis(3_000));
        },
        finds: &[("wait.ends-once", 8)],
    },
    Case {
        name: "a delay that is not as long as its definition says",
        flow: "d = delay(5s)",
        write: |draft| draft.pass("5s"),
        damage: |frames| {
            let Event::Node(NodeEvent::Waiting { span, .. }) = event(frames, 5) else {
                panic!("waits")
            };
            *span = Some(Millis(4_999));
        },
        finds: &[("wait.ends-once", 5)],
    },
    Case {
        name: "a retry that is due too early, because the time was behind",
        flow: "a retry 2 wait 1s",
        write: |draft| {
            draft.fail("a");
            draft.pass("9s");
            draft.complete("a");
        },
        damage: |frames| {
            frames[0].at = EPOCH.plus(Millis(1));
            frames[1].at = EPOCH.plus(Millis(1));
        },
        finds: &[("wait.ends-once", 5)],
    },
    Case {
        name: "a retry that waits less than its policy says",
        flow: "a retry 2 wait 1s",
        write: |draft| {
            draft.fail("a");
            draft.pass("1s");
            draft.complete("a");
        },
        damage: |frames| {
            let Event::Node(NodeEvent::Failed { wait, .. }) = event(frames, 5) else {
                panic!("failed")
            };
            *wait = Some(Millis(810));
        },
        finds: &[("wait.ends-once", 5)],
    },
    Case {
        name: "a log of an older build, which does not say how long its waits last",
        flow: "a retry 2 wait 1s deadline 1m timeout 9s",
        write: |draft| {
            draft.fail("a");
            draft.pass("9s");
            draft.complete("a");
        },
        damage: |frames| {
            frames[0].at = EPOCH.plus(Millis(1));
            frames[1].at = EPOCH.plus(Millis(1));
            for frame in frames {
                frame.events.iter_mut().for_each(forget_spans);
            }
        },
        finds: &[],
    },
    Case {
        name: "a node's deadline and an attempt's timeout that are due too early",
        flow: "a; b needs a deadline 1m timeout 9s; c needs a timeout 9s",
        write: |draft| draft.complete("a"),
        damage: |frames| {
            frames[0].at = EPOCH.plus(Millis(1));
            frames[1].at = EPOCH.plus(Millis(1));
        },
        finds: &[("wait.ends-once", 6), ("wait.ends-once", 9)],
    },
    Case {
        name: "a grace time that is due too early",
        flow: "a",
        write: |draft| {
            draft.command(Command::Request(Request::Cancel { reason: None }, origin()));
        },
        damage: |frames| {
            frames[0].at = EPOCH.plus(Millis(1));
            frames[1].at = EPOCH.plus(Millis(1));
        },
        finds: &[("wait.ends-once", 5)],
    },
    Case {
        name: "a retry that begins early",
        flow: "a retry 2 wait 1s",
        write: |draft| {
            draft.fail("a");
            draft.pass("1s");
            draft.complete("a");
        },
        damage: |frames| decide_and_store(&mut frames[2], 999),
        finds: &[("wait.ends-once", 6)],
    },
    Case {
        name: "a decision that is later than its commit",
        flow: "a",
        write: |draft| draft.complete("a"),
        damage: |frames| frames[1].header.decided_at = EPOCH.plus(Millis(1)),
        finds: &[("time.monotonic", 5)],
    },
    Case {
        name: "a wait that ends twice",
        flow: "d = delay(5s); b needs d",
        write: |draft| {
            draft.pass("5s");
            draft.complete("b");
        },
        damage: |frames| {
            let resumed = frames[1].events[0].clone();
            insert(frames, 1, vec![resumed]);
        },
        finds: &[("wait.ends-once", 10)],
    },
    Case {
        name: "a signal that never came",
        flow: "s = signal(go)",
        write: |draft| draft.signal("m1"),
        damage: |frames| {
            let Event::Node(NodeEvent::Resumed { message, .. }) = event(frames, 7) else {
                panic!("resumed")
            };
            *message = Some("m2".into());
        },
        finds: &[("wait.ends-once", 7)],
    },
    Case {
        name: "a message that is consumed twice",
        flow: CHAIN,
        write: |draft| {
            draft.signal("m1");
            chain(draft);
        },
        damage: |frames| {
            let signal = frames[1].events[0].clone();
            insert(frames, 1, vec![signal]);
            *event(frames, 8) = scheduled("b", 1, &[7]);
        },
        finds: &[("message.consumed-once", 6)],
    },
    Case {
        name: "a wait that somebody ends is not early",
        flow: "d = delay(5h); s = signal(go)",
        write: |draft| {
            for wait in [7, 8] {
                draft.command(Command::Request(
                    Request::CompleteWait { wait, body: Json::null() },
                    origin(),
                ));
            }
        },
        damage: |_| {},
        finds: &[],
    },
    Case {
        name: "a wait that nobody ended, and that was not over",
        flow: "d = delay(5h)",
        write: |draft| {
            draft.command(Command::Request(
                Request::CompleteWait { wait: 5, body: Json::null() },
                origin(),
            ));
        },
        damage: |frames| {
            let Event::Node(NodeEvent::Resumed { origin, .. }) = event(frames, 6) else {
                panic!("resumed")
            };
            *origin = Origin::default();
        },
        finds: &[("wait.ends-once", 6)],
    },
    Case {
        name: "two waits that one message ended",
        flow: "d = delay(5h); e = delay(5h)",
        write: |draft| {
            for (wait, message) in [(7, "m1"), (8, "m2")] {
                let origin = Origin { message: Some(message.into()), actor: None };
                draft.command(Command::Request(
                    Request::CompleteWait { wait, body: Json::null() },
                    origin,
                ));
            }
        },
        damage: |frames| {
            let Event::Node(NodeEvent::Resumed { origin, .. }) = event(frames, 11) else {
                panic!("resumed")
            };
            origin.message = Some("m1".into());
        },
        finds: &[("message.consumed-once", 11)],
    },
    Case {
        name: "a wait that somebody ends while it is paused",
        flow: "d = delay(5h); a",
        write: |draft| {
            draft.command(Command::Request(Request::Pause { now: false, reason: None }, origin()));
        },
        damage: |frames| {
            let origin = Origin { message: Some("m".into()), actor: None };
            let resumed = Event::Node(NodeEvent::Resumed {
                node: "d".into(),
                attempt: 1,
                message: None,
                origin,
                timed_out: false,
                more: false,
            });
            let last = frames.len() - 1;
            insert(frames, last, vec![resumed]);
        },
        finds: &[("pause.holds", 9)],
    },
    Case {
        name: "a start while it is paused",
        flow: CHAIN,
        write: |draft| {
            draft.command(Command::Request(Request::Pause { now: false, reason: None }, origin()));
            draft.complete("a");
        },
        damage: |frames| {
            let last = &mut frames[2];
            last.events.insert(1, scheduled("b", 1, &[6]));
            last.header.last_seq += 1;
        },
        finds: &[("pause.holds", 7)],
    },
    Case {
        name: "paused twice",
        flow: CHAIN,
        write: |draft| {
            draft.command(Command::Request(Request::Pause { now: false, reason: None }, origin()));
            draft.complete("a");
        },
        damage: |frames| {
            let paused = frames[2].events[1].clone();
            insert(frames, 2, vec![paused]);
        },
        finds: &[("pause.holds", 8)],
    },
    Case {
        name: "resumed by nobody's pause",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            insert(
                frames,
                0,
                vec![Event::Run(RunEvent::Resumed { reason: None, origin: origin() })],
            );
            *event(frames, 7) = scheduled("b", 1, &[6]);
        },
        finds: &[("pause.holds", 5)],
    },
    Case {
        name: "a start after the cancellation",
        flow: "a; c; b needs a",
        write: |draft| draft.command(Command::Request(Request::Cancel { reason: None }, origin())),
        damage: |frames| {
            let last = &mut frames[1];
            last.events.insert(1, scheduled("b", 1, &[]));
            last.header.last_seq += 1;
        },
        finds: &[("end.follows-cause", 8)],
    },
    Case {
        name: "completed although it was cancelled",
        flow: "a",
        write: |draft| {
            draft.command(Command::Request(Request::Cancel { reason: None }, origin()));
            draft.complete("a");
        },
        damage: |frames| {
            *event(frames, 7) = Event::Run(RunEvent::Completed { output: Json::null() })
        },
        finds: &[("end.follows-cause", 7)],
    },
    Case {
        name: "an event that is not possible where it stands",
        flow: "w = signal(go)",
        write: |_| {},
        damage: |frames| insert(frames, 0, vec![queued()]),
        finds: &[("log.readable", 6)],
    },
    Case {
        name: "another definition",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let Event::Run(RunEvent::Created(created)) = event(frames, 1) else {
                panic!("created")
            };
            created.definition = DefinitionHash::of(b"another");
        },
        finds: &[("definition.pinned", 1)],
    },
    Case {
        name: "an append that is applied twice",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            frames[2].header.append_id = frames[0].header.append_id;
        },
        finds: &[("append.once", 8)],
    },
    Case {
        name: "an output beyond the limit",
        flow: CHAIN,
        write: chain,
        damage: |frames| {
            let Event::Node(NodeEvent::Completed { output, .. }) = event(frames, 5) else {
                panic!("completed")
            };
            let large = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX));
            *output = Some(Json::parse(&large).expect("as the case says"));
        },
        finds: &[("limits.hold", 5)],
    },
    Case {
        name: "too many signals are kept",
        flow: CHAIN,
        write: |draft| {
            (0..EARLY_SIGNALS_MAX).for_each(|n| draft.signal(&format!("m{n}")));
        },
        damage: |frames| {
            let mut more = frames.last().expect("as the case says").events[0].clone();
            let Event::Run(RunEvent::SignalReceived { origin, .. }) = &mut more else {
                panic!("a signal")
            };
            origin.message = Some("more".into());
            let last = frames.len() - 1;
            insert(frames, last, vec![more]);
        },
        finds: &[("limits.hold", 1_005)],
    },
    Case {
        name: "lost too often",
        flow: "a",
        write: |draft| {
            for _ in 1..ABANDONED_MAX {
                draft.lose("a");
                draft.pass("1h");
            }
            draft.lose("a");
        },
        damage: |frames| {
            // Instead of being set aside, it is tried once more.
            let last = frames.len() - 1;
            let at = frames[last].at;
            frames[last].at = at.plus(Millis::from_secs(3_600));
            frames[last].events.truncate(1);
            let lost = frames[last].events[0].clone();
            let Event::Node(NodeEvent::Failed { failure, .. }) = lost else { panic!("lost") };
            let end = FailureEnd::Abandoned(at);
            let again = Event::Node(NodeEvent::Failed {
                node: "a".into(),
                attempt: 6,
                failure,
                end,
                wait: None,
            });
            frames[last].events.extend([scheduled("a", 6, &[]), started("a", 6), again]);
            frames[last].header.last_seq = frames[last].header.first_seq + 3;
        },
        finds: &[("limits.hold", 20)],
    },
    Case {
        name: "a start without a slot",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| remove(frames, 5),
        finds: &[("concurrency.within-limit", 5)],
    },
    Case {
        name: "a start that never asked for a slot",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| {
            remove(frames, 5);
            remove(frames, 3);
        },
        finds: &[("concurrency.within-limit", 4)],
    },
    Case {
        name: "admitted twice",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| insert(frames, 2, vec![Event::Run(RunEvent::Admitted {})]),
        finds: &[("concurrency.within-limit", 8)],
    },
    Case {
        name: "in the queue twice",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| insert(frames, 0, vec![queued()]),
        finds: &[("concurrency.within-limit", 4)],
    },
    Case {
        name: "in the queue with a slot",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| insert(frames, 2, vec![queued()]),
        finds: &[("concurrency.within-limit", 8)],
    },
    Case {
        name: "a pause of what has not begun",
        flow: "keyed k; a",
        write: keyed,
        damage: |frames| {
            let pause =
                Event::Run(RunEvent::PauseRequested { now: false, reason: None, origin: origin() });
            insert(
                frames,
                1,
                vec![pause, Event::Run(RunEvent::Resumed { reason: None, origin: origin() })],
            );
        },
        finds: &[("pause.holds", 5)],
    },
    Case {
        name: "time that goes back",
        flow: CHAIN,
        write: |draft| {
            draft.run.now = draft.run.now.plus(Millis(10));
            chain(draft);
        },
        damage: |frames| frames[1].at = EPOCH.plus(Millis(20)),
        finds: &[("time.monotonic", 8)],
    },
    Case {
        name: "an append behind a frame that its writer cannot read",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[2].header.requires = 0,
        finds: &[("log.format-known", 8)],
    },
    Case {
        name: "a frame of a newer program",
        flow: CHAIN,
        write: chain,
        damage: |frames| frames[1..].iter_mut().for_each(|frame| frame.header.requires = 99),
        finds: &[("log.format-known", 5)],
    },
];

/// Before `onError` passed mistakes of the definition by, an expression that failed took its branch.
#[test]
fn old_log_in_which_a_failed_expression_took_on_error_has_no_finding() {
    let then = "a = value(${{ input.coupon.code }}) error oops always; b needs a:oops; c needs a";
    let written = Arc::new(plan(then));
    let mut draft = Draft::new(&written);
    draft.complete("b");
    // The same definition, as this build compiles it.
    let mut now = plan(&then.replace(" always", ""));
    now.hash = written.hash;
    let mut check = LogCheck::new(ExecutionNo(7), Arc::new(now));
    for frame in &draft.logbook.frames {
        check.frame(&frame.header, frame.at, Ok(&frame.events));
    }
    assert_eq!(check.violations(), []);
}

#[test]
fn a_frame_that_cannot_be_read_is_one_finding() {
    let plan = Arc::new(plan(CHAIN));
    let mut draft = Draft::new(&plan);
    chain(&mut draft);
    let mut check = LogCheck::new(ExecutionNo(7), Arc::clone(&plan));
    for (at, frame) in draft.logbook.frames.iter().enumerate() {
        let events = if at == 1 { Err("its checksum does not match") } else { Ok(&*frame.events) };
        check.frame(&frame.header, frame.at, events);
    }
    let found: Vec<_> = check.violations().iter().map(|v| (v.invariant.name(), v.seq)).collect();
    assert_eq!(found, [("log.readable", 5)]);
    assert_eq!(check.state(), None);
}

#[test]
fn without_a_plan_attempts_are_checked_all_the_same() {
    let plan = Arc::new(plan(CHAIN));
    let mut draft = Draft::new(&plan);
    chain(&mut draft);
    let mut frames = draft.logbook.frames;
    insert(&mut frames, 1, vec![started("b", 1)]);
    let mut check = LogCheck::without_plan(ExecutionNo(7), Some("it is not there".into()));
    for frame in &frames {
        check.frame(&frame.header, frame.at, Ok(&frame.events));
    }
    let found: Vec<_> = check.violations().iter().map(|v| (v.invariant.name(), v.seq)).collect();
    assert_eq!(found, [("definition.pinned", 1), ("attempt.once", 8)]);
}

#[test]
fn log_check_without_the_schedule_of_a_node_names_it_as_forgotten() {
    let plan = Arc::new(plan(CHAIN));
    let mut draft = Draft::new(&plan);
    draft.complete("a");
    assert_eq!(draft.logbook.check.forgotten(), None);
    let mut frames = draft.logbook.frames;
    remove(&mut frames, 7);
    remove(&mut frames, 6);
    let mut check = LogCheck::new(ExecutionNo(7), Arc::clone(&plan));
    for frame in &frames {
        check.frame(&frame.header, frame.at, Ok(&frame.events));
    }
    assert_eq!(check.violations(), []);
    assert_eq!(check.forgotten().as_deref(), Some("b"));
}

#[test]
fn a_snapshot_is_compared_with_the_fold() {
    let plan = Arc::new(plan(CHAIN));
    let mut draft = Draft::new(&plan);
    draft.complete("a");
    let good = draft.run.state.encode();
    draft.logbook.check.snapshot(7, &good);
    assert_eq!(draft.logbook.check.violations(), []);
    let text =
        String::from_utf8(good).expect("as the case says").replace("\"output\":1", "\"output\":2");
    draft.logbook.check.snapshot(7, text.as_bytes());
    let found = draft.logbook.check.take_violations();
    assert_eq!((found[0].invariant, found[0].seq), (Invariant::SnapshotFolds, 7));
}

#[test]
fn every_invariant_has_a_name_and_a_meaning() {
    let names: std::collections::BTreeSet<_> = Invariant::ALL.iter().map(|i| i.name()).collect();
    assert_eq!(names.len(), Invariant::ALL.len());
    assert!(Invariant::ALL.iter().all(|invariant| !invariant.meaning().is_empty()));
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let node = prop::sample::select(vec!["a", "b", "j", "z"]);
    let event = (node, 0..25u8, 0..3u32, any::<i64>()).prop_map(|(node, kind, n, ms)| {
        let (name, due): (Arc<str>, _) = (node.into(), Timestamp(ms));
        let failure = || Failure::transient("timeout", "late");
        let text = match kind {
            0 => return scheduled(node, n, &[u64::from(n)]),
            1 => return scheduled(node, u32::MAX, &[]),
            2 => return started(node, n),
            3 => "NodeCompleted",
            4 => {
                return Event::Node(NodeEvent::Cancelled {
                    node: name,
                    reason: CancelReason::Join,
                });
            }
            5 => return Event::Node(NodeEvent::Skipped { node: name, cause: vec![u64::MAX] }),
            6 => {
                let end = FailureEnd::RetryAt(due);
                return Event::Node(NodeEvent::Failed {
                    node: name,
                    attempt: n,
                    failure: failure(),
                    end,
                    wait: None,
                });
            }
            7 => {
                let end = FailureEnd::TimedOut;
                return Event::Node(NodeEvent::Failed {
                    node: name,
                    attempt: n,
                    failure: failure(),
                    end,
                    wait: None,
                });
            }
            8 => return Event::Run(RunEvent::TimedOut {}),
            9 => {
                let nodes = vec![Arc::clone(&name), name];
                return Event::Run(RunEvent::Reopened {
                    generation: n,
                    nodes,
                    origin: origin(),
                    deadline: None,
                    reason: None,
                });
            }
            10 => {
                return Event::Run(RunEvent::Owned {
                    instance: InstanceId(Uuid::nil()),
                    epoch: u32::MAX - n,
                });
            }
            11 => {
                return Event::Run(RunEvent::Owned { instance: InstanceId(Uuid::nil()), epoch: n });
            }
            12 => {
                return Event::Run(RunEvent::PauseRequested {
                    now: false,
                    reason: None,
                    origin: origin(),
                });
            }
            13 => return Event::Run(RunEvent::Resumed { reason: None, origin: origin() }),
            14 => return Event::Run(RunEvent::Quarantined { reason: "no".into() }),
            16 => return Event::Run(RunEvent::Admitted {}),
            17 => return queued(),
            15 => {
                let cause = waypost_core::event::EndCause::Deadline;
                return Event::Run(RunEvent::Ending { cause, grace: None });
            }
            _ => "NodeResumed",
        };
        match text {
            "NodeCompleted" => Event::Node(NodeEvent::Completed {
                node: name,
                attempt: n,
                output: None,
                branch: None,
                variables: std::collections::BTreeMap::new(),
            }),
            _ => Event::Node(NodeEvent::Resumed {
                node: name,
                attempt: n,
                message: Some("m".into()),
                origin: Origin::default(),
                timed_out: false,
                more: false,
            }),
        }
    });
    prop::collection::vec(event, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a log holds, the checker says so and goes on.
    #[test]
    fn garbage_never_panics(
        tail in prop::collection::vec((any_events(), any::<[u64; 2]>(), any::<bool>()), 0..12),
    ) {
        let plan = Arc::new(plan("a; b; j needs a, b join any cancel-rest"));
        let draft = Draft::new(&plan);
        let mut check = LogCheck::new(ExecutionNo(7), Arc::clone(&plan));
        let mut last = draft.logbook.frames[0].clone();
        check.frame(&last.header, last.at, Ok(&last.events));
        for (events, [first, end], linked) in tail {
            let mut header = last.header;
            header.parent = Some(last.header.as_parent());
            header.append_id = AppendId(Uuid::from_u128(u128::from(first)));
            (header.first_seq, header.last_seq) = match linked {
                true => (last.header.last_seq + 1, last.header.last_seq + events.len() as u64),
                false => (first, end),
            };
            check.frame(&header, last.at, Ok(&events));
            if linked {
                last.header = header;
            }
        }
    }
}
