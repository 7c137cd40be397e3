//! The same work, done by every store there is, comes to the same: a seed gives appends, claims, mail and
//! the passing of time, and whatever the stores answer, and show in the end, must be equal.
//!
//! What stores may differ in is left alone. One releases what a dead instance owned at once and another
//! when it is claimed; so nobody comes back from the dead, and who owns an execution is compared for the
//! living only.
//!
//! `triggers` does the same with triggers; `engines` compares what real engines make of real workflows over the stores.

mod engines;
mod triggers;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::event::{
    Event, FailureEnd, NodeEvent, Origin, PauseReason, RunCreated, RunEvent, Wait,
};
use waypost_core::failure::Failure;
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::permits::PermitRequest;
use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::ManualClock;
use waypost_ports::conformance::rig::{Draft, Hand};
use waypost_ports::inspect::{ChunkRequest, InspectTriggers};
use waypost_ports::memory::MemoryStore;
use waypost_ports::query::{EventsRequest, FeedPosition, FeedRequest, ListCondition, ListRequest};
use waypost_ports::store::{
    About, Append, Appended, ClaimRequest, ControlChange, Heartbeat, History, Idempotency, LEASE,
    Mail, MailDelivery, MailOf, NewDefinition, Share, Submission,
};
use waypost_postgres::PostgresStore;
use waypost_sim::random::Random;
use waypost_sqlite::SqliteStore;
use waypost_testbed::postgres::Postgres;

const SEEDS: u64 = 8;
const STEPS: usize = 150;
const START: Timestamp = Timestamp(1_790_000_000_000);

#[test]
fn all_stores_do_the_same() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.step(step);
        }
        world.compare_everything();
    }
}

/// Three stores and the hands that write to all of them.
struct World {
    seed: u64,
    random: Random,
    clock: Arc<ManualClock>,
    stores: Vec<(&'static str, Box<dyn InspectTriggers>)>,
    /// Those that are alive.
    instances: Vec<InstanceId>,
    born: u128,
    hands: BTreeMap<ExecutionNo, Hand>,
    /// Hands that go on from frames that are not the last, or will not be.
    zombies: Vec<Hand>,
    messages: u64,
    executions: u64,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let folder = tempfile::tempdir().unwrap();
        let sqlite =
            waypost_sqlite::Options { clock: clock.clone(), ..waypost_sqlite::Options::engine() };
        let postgres = waypost_postgres::Options {
            clock: Some(clock.clone()),
            ..waypost_postgres::Options::default()
        };
        let url = empty_database();
        let stores: Vec<(&'static str, Box<dyn InspectTriggers>)> = vec![
            ("memory", Box::new(MemoryStore::new(clock.clone()))),
            ("sqlite", Box::new(SqliteStore::open(folder.path(), sqlite).unwrap())),
            ("postgres", Box::new(PostgresStore::open(&url, postgres).unwrap())),
        ];
        let mut world = Self {
            seed,
            random: Random::new(seed),
            clock,
            stores,
            instances: Vec::new(),
            born: 0,
            hands: BTreeMap::new(),
            zombies: Vec::new(),
            messages: 0,
            executions: 0,
            _folder: folder,
        };
        world.be_born();
        world.be_born();
        world
    }

    /// Asks every store, and gives the answer that all of them gave.
    fn ask<T, S: Debug + PartialEq>(
        &self,
        what: &str,
        ask: impl Fn(&dyn InspectTriggers) -> T,
        seen: impl Fn(&T) -> S,
    ) -> T {
        let mut answers = self.stores.iter().map(|(name, store)| (*name, ask(&**store)));
        let (first, answer) = answers.next().unwrap();
        let expected = seen(&answer);
        for (name, other) in answers {
            let (seed, seen) = (self.seed, seen(&other));
            assert!(
                seen == expected,
                "seed {seed}: {what}: {name} is not like {first}:\n{}",
                difference(&format!("{seen:#?}"), &format!("{expected:#?}"))
            );
        }
        answer
    }

    fn beat(&self, instance: InstanceId, numbers: u32, leaving: bool) -> Vec<ExecutionNo> {
        let (lease, about) = ((!leaving).then_some(LEASE), About::default());
        let heartbeat = Heartbeat { instance, numbers, fold: 1, lease, about };
        let renewal = self.ask(
            "heartbeat",
            |store| store.heartbeat(&heartbeat).unwrap(),
            |renewal| (renewal.now, renewal.numbers.clone().collect::<Vec<_>>(), renewal.fold),
        );
        renewal.numbers.map(ExecutionNo).collect()
    }

    fn be_born(&mut self) {
        self.born += 1;
        let instance = InstanceId(Uuid::from_u128(self.born));
        self.beat(instance, 0, false);
        self.instances.push(instance);
    }

    fn instance(&mut self) -> InstanceId {
        let index = self.random.index(self.instances.len());
        self.instances[index]
    }

    fn step(&mut self, step: usize) {
        match self.random.below(100) {
            0..20 => self.start(),
            20..55 => self.go_on(),
            55..60 => self.append_as_zombie(),
            60..75 => self.send(),
            75..88 => self.claim(),
            88..90 => self.hold(),
            90..93 => self.collect(),
            93..95 => self.define(),
            95..97 => self.die(),
            _ => self.pass_time(),
        }
        if step % 25 == 24 {
            self.compare_lists();
        }
    }

    fn start(&mut self) {
        let instance = self.instance();
        let count = self.random.between(1, 4);
        let numbers = self.beat(instance, u32::try_from(count).unwrap(), false);
        let mut hands = Vec::new();
        let mut batch = Vec::new();
        for number in numbers {
            let mut hand = Hand::new(number, instance);
            let run = self.run();
            // Now and then under names that are taken. One that is refused for its key leaves its other
            // name to those after it in the batch, and whether it is told of them is a store's own
            // matter: it has one name then.
            let fresh = run.key.as_str() == format!("key-{}", self.executions);
            let both = count == 1 || fresh;
            let idempotency = (self.random.percent(30) && both).then(|| Idempotency {
                key: format!("once-{}", self.random.below(20)).into(),
                digest: [u8::from(self.random.percent(80)); 32],
            });
            let submission = Submission {
                key: run.key.clone(),
                idempotency: idempotency.map(Box::new),
                fire: None,
            };
            let owned = Event::Run(RunEvent::Owned { instance, epoch: 1 });
            let draft = hand.write(&[Event::Run(RunEvent::Created(Box::new(run))), owned]);
            batch.push(draft.control(ControlChange::Owned).submission(submission).into());
            hands.push(hand);
        }
        let outcomes = self.append(&batch);
        for (hand, outcome) in hands.into_iter().zip(outcomes) {
            if matches!(outcome, Appended::Committed { .. }) {
                self.hands.insert(hand.execution, hand);
            }
        }
    }

    fn run(&mut self) -> RunCreated {
        self.executions += 1;
        let key = match self.random.percent(10) {
            true => self.random.below(self.executions),
            false => self.executions,
        };
        let workflow = *self.random.pick(&["alpha", "beta", "gamma"]);
        let labels = match self.random.percent(50) {
            true => BTreeMap::from([("team".to_owned(), format!("t{}", self.random.below(3)))]),
            false => BTreeMap::new(),
        };
        let input = *self.random.pick(&["null", r#"{"n":1}"#, r#"{"s":"\u0000 é"}"#, "[1,2]"]);
        RunCreated {
            key: ExecutionId(format!("key-{key}").into()),
            workflow: workflow.into(),
            version: 1,
            definition: DefinitionHash::of(workflow.as_bytes()),
            input: Json::parse(input).unwrap(),
            labels,
            deadline: None,
            origin: Origin::default(),
            parent: None,
            trigger: None,
        }
    }

    /// Frames of some executions in one batch, some of which have several.
    fn go_on(&mut self) {
        let owned: Vec<ExecutionNo> = self.hands.keys().copied().collect();
        let mut batch = Vec::new();
        for execution in owned {
            if !self.random.percent(30) {
                continue;
            }
            let mut hand = self.hands[&execution].clone();
            if self.random.percent(10) {
                self.zombies.push(hand.clone());
            }
            let mut gone = false;
            for _ in 0..self.random.between(1, 3) {
                let draft = self.frame(&mut hand);
                let (draft, leaves) = self.with_side(draft, execution);
                batch.push(draft.into());
                gone = leaves;
                if gone {
                    break;
                }
            }
            match gone {
                true => drop(self.hands.remove(&execution)),
                false => drop(self.hands.insert(execution, hand)),
            }
        }
        self.append(&batch);
    }

    fn frame(&mut self, hand: &mut Hand) -> Draft {
        let count = self.random.between(1, 5);
        let events: Vec<Event> = (0..count).flat_map(|_| self.events()).collect();
        hand.write(&events)
    }

    fn events(&mut self) -> Vec<Event> {
        let node: Arc<str> = format!("n{}", self.random.below(4)).into();
        let attempt = u32::try_from(self.random.between(1, 3)).unwrap();
        let due = self.clock_plus(5_000);
        let failure = Failure::transient("http", "answered 503");
        let origin = Origin::default();
        let scheduled = Event::Node(NodeEvent::Scheduled {
            node: node.clone(),
            attempt,
            cause: Vec::new(),
            deadline: None,
        });
        let event = match self.random.below(13) {
            0 => scheduled,
            1 => Event::Node(NodeEvent::Started {
                node,
                attempt,
                worker: None,
                token: None,
                remote: None,
                due: None,
            }),
            // A node settles once; one that does so again has to say the same.
            2 | 3 => Event::Node(NodeEvent::Completed {
                attempt,
                output: Some(Json::parse(r#"{"ok":true}"#).unwrap()),
                branch: (&*node < "n2").then(|| "true".into()),
                node,
                variables: BTreeMap::new(),
            }),
            4 => Event::Node(NodeEvent::Failed {
                node,
                attempt,
                failure,
                end: FailureEnd::RetryAt(due),
                wait: None,
            }),
            5 => Event::Node(NodeEvent::Failed {
                node,
                attempt,
                failure,
                end: FailureEnd::Final,
                wait: None,
            }),
            6 => {
                // A node that waits already does not begin to wait once more.
                let wait = Wait::Delay { due };
                return vec![
                    scheduled,
                    Event::Node(NodeEvent::Waiting {
                        node,
                        attempt,
                        wait,
                        span: None,
                        message: None,
                    }),
                ];
            }
            7 => Event::Run(RunEvent::Resumed { reason: None, origin }),
            8 => Event::Run(RunEvent::Reopened {
                generation: attempt,
                nodes: vec![node],
                origin,
                deadline: None,
                reason: None,
            }),
            9 => Event::Run(RunEvent::Completed { output: Json::parse("[1]").unwrap() }),
            10 => Event::Run(RunEvent::Failed { failure, nodes: vec![node], output: None }),
            11 => Event::Run(RunEvent::Cancelled { reason: Some("enough".to_owned()) }),
            _ => Event::Run(RunEvent::Paused { reason: PauseReason::Waits }),
        };
        vec![event]
    }

    /// Side rows for a frame; and does the execution leave its owner with it?
    fn with_side(&mut self, mut draft: Draft, execution: ExecutionNo) -> (Draft, bool) {
        if self.random.percent(20) {
            draft = draft.snapshot(format!("state of {execution}").as_bytes());
        }
        if self.random.percent(20) {
            let message = format!("m{}", self.random.below(self.messages + 1));
            draft = draft.consuming(&[&message]);
        }
        let next_due = self.random.percent(60).then(|| self.clock_plus(20_000));
        let change = match self.random.below(12) {
            0 | 1 => ControlChange::Parked { next_due },
            2 => ControlChange::Held { reason: "paused".to_owned(), next_due },
            3 => ControlChange::Ended,
            4 | 5 => {
                // It is queued for a slot, or goes back to its place there.
                draft = draft.permit(self.slot());
                ControlChange::Held { reason: "waits for a slot".to_owned(), next_due: None }
            }
            _ => return (draft, false),
        };
        (draft.control(change), true)
    }

    /// A place in one of a few lines, where limits differ from one execution to the next.
    fn slot(&mut self) -> PermitRequest {
        let key = format!("line {}", self.random.below(3));
        let limit = u32::try_from(self.random.between(1, 3)).unwrap();
        let policy =
            *self.random.pick(&[ConcurrencyPolicy::Queue, ConcurrencyPolicy::CancelOldest]);
        PermitRequest { key: key.into(), limit, policy }
    }

    fn append_as_zombie(&mut self) {
        if self.zombies.is_empty() {
            return;
        }
        let index = self.random.index(self.zombies.len());
        let mut zombie = self.zombies[index].clone();
        let draft = self.frame(&mut zombie);
        let outcome = self.append(&[draft.into()]).remove(0);
        if matches!(outcome, Appended::Committed { .. }) {
            // It was the owner after all, or nobody has taken over yet.
            self.hands.entry(zombie.execution).and_modify(|hand| *hand = zombie.clone());
            self.zombies[index] = zombie;
        }
    }

    fn append(&self, batch: &[Append]) -> Vec<Appended> {
        self.ask("append", |store| store.append(batch).unwrap(), Clone::clone)
    }

    fn send(&mut self) {
        let mut mail = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            self.messages += u64::from(self.random.percent(80));
            let body = match self.random.below(4) {
                0 => Request::Cancel { reason: None },
                1 => Request::Resume { reason: None },
                2 => Request::Pause { now: false, reason: None },
                _ => Request::Signal { name: "go".into(), body: Json::null() },
            };
            mail.push(Mail {
                execution: ExecutionNo(
                    i64::try_from(self.random.below(self.executions + 3)).unwrap(),
                ),
                message: format!("m{}", self.messages).as_str().into(),
                actor: None,
                body: body.into(),
                blobs: Vec::new(),
            });
        }
        let living = self.instances.clone();
        let seen = |deliveries: &Vec<MailDelivery>| -> Vec<MailDelivery> {
            deliveries.iter().cloned().map(|delivery| of_the_living(delivery, &living)).collect()
        };
        self.ask("deliver", |store| store.deliver(&mail).unwrap(), seen);
    }

    fn claim(&mut self) {
        let instance = self.instance();
        self.beat(instance, 0, false);
        let request = ClaimRequest {
            instance,
            fold: 1,
            limit: 1_000,
            share: Share::ALL,
            only: None,
            held: None,
            suspects: true,
            ahead: Millis(0),
        };
        let claims = self.ask(
            "claim",
            |store| store.claim(&request).unwrap(),
            |claims| (claims.claimed.iter().map(whole).collect::<Vec<_>>(), claims.next_due),
        );
        for history in &claims.claimed {
            let hand = Hand::of(history);
            if let Some(old) = self.hands.insert(hand.execution, hand.clone()) {
                self.zombies.push(old);
            }
            let mut hand = hand;
            let owned = Event::Run(RunEvent::Owned { instance, epoch: hand.epoch });
            let draft = hand.write(&[owned]).control(ControlChange::Owned);
            self.append(&[draft.into()]);
            self.hands.insert(hand.execution, hand);
        }
    }

    fn hold(&mut self) {
        let Some((execution, hand)) = self.hands.pop_first() else { return };
        let held =
            |store: &dyn InspectTriggers| store.hold(execution, hand.instance, "by hand").unwrap();
        self.ask("hold", held, |()| ());
    }

    fn collect(&mut self) {
        let instance = self.instance();
        self.ask(
            "collect",
            |store| store.collect(MailOf::Owner(instance, Share::ALL), 1_000).unwrap(),
            |mail| {
                let mut mail: Vec<String> = mail.iter().map(|mail| format!("{mail:?}")).collect();
                mail.sort();
                mail
            },
        );
    }

    fn define(&mut self) {
        let name = *self.random.pick(&["alpha", "beta"]);
        let canonical = format!("{{\"v\":{}}}", self.random.below(4));
        let hash = DefinitionHash::of(format!("{name}{canonical}").as_bytes());
        let new = NewDefinition {
            name: name.into(),
            hash,
            canonical: canonical.into(),
            make_current: true,
            triggers: Vec::new(),
            paused: false,
        };
        self.ask("define", |store| store.define(&new).unwrap(), Clone::clone);
    }

    /// An instance ends, in order or not, and another takes its place.
    fn die(&mut self) {
        let index = self.random.index(self.instances.len());
        let instance = self.instances.remove(index);
        if self.random.percent(50) {
            self.beat(instance, 0, true);
        } else {
            self.clock.advance(Millis(LEASE.0 + 1));
            let living = self.instances.clone();
            living.into_iter().for_each(|instance| drop(self.beat(instance, 0, false)));
        }
        self.be_born();
        let of_the_dead = |hand: &Hand| hand.instance == instance;
        let dead: Vec<_> = self.hands.extract_if(.., |_, hand| of_the_dead(hand)).collect();
        self.zombies.extend(dead.into_iter().map(|(_, hand)| hand));
    }

    fn pass_time(&mut self) {
        self.clock.advance(Millis(self.random.below(9_000)));
        let living = self.instances.clone();
        living.into_iter().for_each(|instance| drop(self.beat(instance, 0, false)));
    }

    fn clock_plus(&mut self, millis: u64) -> Timestamp {
        let span = Millis(self.random.below(millis));
        waypost_ports::clock::Clock::now(&*self.clock).plus(span)
    }

    fn compare_lists(&mut self) {
        self.ask("catch up", |store| store.catch_up().unwrap(), |()| ());
        let statuses = vec![*self.random.pick(&Status::ALL), *self.random.pick(&Status::ALL)];
        let limit = usize::try_from(self.random.between(1, 40)).unwrap();
        let labels = BTreeMap::from([("team".to_owned(), "t1".to_owned())]);
        let all = ListRequest { limit, ..ListRequest::default() };
        let requests = [
            all.clone(),
            ListRequest { statuses: statuses.clone(), ..all.clone() },
            ListRequest { workflow: Some("beta".to_owned()), ..all.clone() },
            ListRequest { workflow: Some("alpha".to_owned()), statuses, ..all.clone() },
            ListRequest { labels, ..all.clone() },
            ListRequest { text: Some("KEY-1".to_owned()), ..all.clone() },
            ListRequest { since: Some(self.clock_plus(1)), ..all.clone() },
            ListRequest { condition: self.condition(), ..all.clone() },
            ListRequest { condition: self.condition(), ..all },
        ];
        for mut request in requests {
            loop {
                let page = self.ask(
                    &format!("{request:?}"),
                    |store| store.list(&request).unwrap(),
                    |page| format!("{:#?} {:?} {}", page.rows, page.next, page.lag.frames),
                );
                request.before = page.next;
                if page.next.is_none() {
                    break;
                }
            }
        }
    }

    /// A random condition of a list.
    fn condition(&mut self) -> Option<Arc<ListCondition>> {
        let now = waypost_ports::clock::Clock::now(&*self.clock);
        let source = self.condition_of(2);
        Some(Arc::new(ListCondition::compile(&source, now).expect(&source)))
    }

    fn condition_of(&mut self, depth: u32) -> String {
        if depth == 0 || self.random.below(3) == 0 {
            let status = self.random.pick(&Status::SHOWN).name();
            let ms = self.random.below(20_000);
            return match self.random.below(14) {
                0 => format!("status == '{status}'"),
                1 => format!("status in ['COMPLETED', '{status}', 'FAILED']"),
                2 => "workflow == 'alpha'".to_owned(),
                3 => "workflow in ['beta', 'none']".to_owned(),
                4 => format!("created > ago('{ms}ms')"),
                5 => format!("duration < {}.5", ms / 1_000),
                6 => "labels.team == 't1'".to_owned(),
                7 => "input.n == 1".to_owned(),
                8 => "input[1] > 1".to_owned(),
                9 => "'\\u0000' in input.s".to_owned(),
                10 => "output is not none".to_owned(),
                11 => "error is none".to_owned(),
                12 => "failure.kind is defined and generation == 1".to_owned(),
                _ => "'1' in id and ended is none".to_owned(),
            };
        }
        let (one, other) = (self.condition_of(depth - 1), self.condition_of(depth - 1));
        match self.random.below(3) {
            0 => format!("({one}) or ({other})"),
            1 => format!("not ({one})"),
            _ => format!("({one}) and {other}"),
        }
    }

    fn compare_everything(&mut self) {
        self.compare_lists();
        let all = ChunkRequest { after: None, limit: 10_000, since: None };
        let chunk = self.ask("executions", |store| store.executions(&all).unwrap(), Clone::clone);
        for execution in &chunk.executions {
            let request = EventsRequest::all(*execution);
            let events = |store: &dyn InspectTriggers| store.events(&request).unwrap();
            self.ask("events", events, |events| format!("{events:#?}"));
            let load = |store: &dyn InspectTriggers| {
                let history = store.load(*execution).unwrap().unwrap();
                let frames = history.whole_log(store).map(Result::unwrap).collect();
                History { frames, ..history }
            };
            self.ask("log", load, whole);
            let shown = |store: &dyn InspectTriggers| store.shown(&[*execution]).unwrap().remove(0);
            self.ask("rows", shown, |shown| {
                let mut rows = shown.rows.clone();
                if let Some(rows) = &mut rows {
                    rows.nodes.sort_by(|a, b| a.path.cmp(&b.path));
                    rows.waits.sort();
                }
                format!("{rows:#?}")
            });
        }
        let feed = |store: &dyn InspectTriggers| whole_feed(store);
        self.ask("feed", feed, Clone::clone);
        self.ask("strays", |store| store.strays().unwrap(), Clone::clone);
        let rebuilt = |store: &dyn InspectTriggers| store.rebuild(&mut |_, _| {}).unwrap();
        self.ask("rebuild", rebuilt, |frames| *frames);
        self.compare_lists();
    }
}

/// The URL of a database with the tables and nothing in them.
fn empty_database() -> String {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    let postgres = Postgres::shared();
    let template = TEMPLATE.get_or_init(|| {
        let url = postgres.database();
        waypost_postgres::migrate(&url, &waypost_postgres::Options::default()).unwrap();
        url
    });
    postgres.copy(template)
}

/// Where two texts begin to differ, with what comes before.
fn difference(left: &str, right: &str) -> String {
    let (left, right) = (left.replace("\\n", "\n"), right.replace("\\n", "\n"));
    let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| -> String {
        let lines: Vec<&str> = text.lines().skip(same.saturating_sub(20)).take(30).collect();
        lines.join("\n")
    };
    format!("{}\n--- instead of ---\n{}", around(&left), around(&right))
}

/// Every frame of the feed. The order of those that were committed together is each store's own.
fn whole_feed(store: &dyn InspectTriggers) -> Vec<String> {
    let (mut frames, mut after) = (Vec::new(), FeedPosition::default());
    loop {
        let page = store.feed(&FeedRequest { after, limit: 50 }).unwrap();
        let Some(last) = page.last() else { break };
        after = last.position;
        frames.extend(page.iter().map(|fed| format!("{} {:?}", fed.key, fed.frame)));
    }
    assert_eq!(after, store.feed_end().unwrap());
    frames.sort();
    frames
}

/// Log, mail, and the place in the queue.
fn whole(history: &History) -> String {
    let History { execution, control, frames, mail, mail_waits, .. } = history;
    let permit = control.as_ref().and_then(|control| control.permit.as_ref());
    format!("{execution} {permit:?} {frames:#?} {mail:#?} {mail_waits}")
}

fn of_the_living(delivery: MailDelivery, living: &[InstanceId]) -> MailDelivery {
    match delivery {
        MailDelivery::Accepted { owner } => {
            MailDelivery::Accepted { owner: owner.filter(|owner| living.contains(owner)) }
        }
        other => other,
    }
}
