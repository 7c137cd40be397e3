//! The same triggers on every store: deploys, claims, fires, windows, changes by people, dead letters, what is no
//! longer kept, and calls whose replies were lost. Numbers of triggers, groups and dead letters are each store's own:
//! they are left out of what is compared, and looked up anew for each call.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::event::{Event, RunCreated, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    Fired, ItemDigest, ItemKey, ScheduleCursor, TriggerCursor, TriggerKindName, WindowMode,
};
use waypost_ports::clock::Clock as _;
use waypost_ports::conformance::rig::{Hand, new_definition};
use waypost_ports::inspect::{ChunkRequest, InspectTriggers, InspectedGroup};
use waypost_ports::query::EventsRequest;
use waypost_ports::store::{Append, Appended, ControlChange, Fire, NewDefinition, Submission};
use waypost_ports::triggers::{
    Advance, Arrival, DeadFire, DeadFireRow, DeadFireState, DeadFiresRequest, DueGroup, EndsWanted,
    FireOutcome, FireRow, FiresRequest, ITEM_KEPT, NewTrigger, SettledFire, Settlement, TriggerAt,
    TriggerChange, TriggerClaim, TriggerNo, TriggerRow, TriggerState, TriggersRequest,
};

use super::World;

/// Workloads at full length; the ordinary tests run a part of them.
const SEEDS: usize = 200;
const STEPS: usize = 120;
/// Percent of [`SEEDS`] without `DIFFERENTIAL_PERCENT`.
const PERCENT: usize = 4;
const WORKFLOWS: [&str; 2] = ["flow", "it's"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Items that fire, by name: few, so that they come again.
const ITEMS: u64 = 40;
const LEASE: Millis = Millis(5_000);

#[test]
fn all_stores_keep_the_same_triggers() {
    let percent = std::env::var("DIFFERENTIAL_PERCENT").ok().and_then(|text| text.parse().ok());
    let seeds = (SEEDS * percent.unwrap_or(PERCENT) / 100).max(1);
    let first = std::env::var("DIFFERENTIAL_SEED").ok().and_then(|text| text.parse().ok());
    for seed in first.map_or(0..seeds as u64, |seed| seed..seed + 1) {
        let mut workload = Workload::new(seed);
        for step in 0..STEPS {
            workload.step();
            if step % 10 == 9 {
                workload.compare();
            }
        }
        workload.compare();
        workload.compare_logs();
    }
}

/// What is done to all stores, and what is needed to go on.
struct Workload {
    world: World,
    /// The triggers of each content, by workflow and content.
    contents: BTreeMap<(usize, u64), Vec<NewTrigger>>,
    /// Rows as they were at some time: what instances may decide on.
    seen: Vec<TriggerRow>,
    /// Groups that were claimed, of each store.
    groups: Vec<Vec<DueGroup>>,
    hands: BTreeMap<ExecutionNo, Hand>,
    /// The revision of the list of triggers, of each store.
    roster: Vec<u64>,
    keys: u64,
}

/// Where a trigger is, on any store.
type Names = (Arc<str>, Arc<str>);

fn names(row: &TriggerRow) -> Names {
    (Arc::clone(&row.workflow), Arc::clone(&row.name))
}

/// The number of a trigger on a store.
fn number(store: &dyn InspectTriggers, names: &Names) -> TriggerNo {
    store.trigger(&names.0, &names.1).unwrap().unwrap().number
}

fn unnumbered(row: &TriggerRow) -> TriggerRow {
    TriggerRow { number: TriggerNo(0), ..row.clone() }
}

fn item(key: &str, incarnation: u32) -> ItemDigest {
    ItemKey { key: key.into(), incarnation }.digest()
}

impl Workload {
    fn new(seed: u64) -> Self {
        let world = World::new(seed);
        let roster = vec![0; world.stores.len()];
        let mut workload = Self {
            world,
            contents: BTreeMap::new(),
            seen: Vec::new(),
            groups: Vec::new(),
            hands: BTreeMap::new(),
            roster,
            keys: 0,
        };
        workload.deploy();
        workload
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.world.random.below(bound)
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.world.random.percent(chance)
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    fn step(&mut self) {
        match self.below(100) {
            0..8 => self.deploy(),
            8..18 => self.claim(),
            18..42 => self.fire(),
            42..54 => self.settle(),
            54..68 => self.arrive(),
            68..76 => self.claim_groups(),
            76..82 => self.change(),
            82..86 => self.end(),
            86..89 => self.settle_dead(),
            89..91 => self.trim(),
            91..93 => self.open_executions(),
            _ => self.world.pass_time(),
        }
    }

    /// Asks each store with its position.
    fn ask_each<T>(
        &self,
        what: &str,
        ask: impl Fn(usize, &dyn InspectTriggers) -> T,
        seen: impl Fn(&T) -> String,
    ) -> Vec<T> {
        let stores = self.world.stores.iter().enumerate();
        let answers: Vec<T> = stores.map(|(at, (_, store))| ask(at, &**store)).collect();
        let expected = seen(&answers[0]);
        for ((name, _), other) in self.world.stores.iter().zip(&answers).skip(1) {
            let (seed, seen) = (self.world.seed, seen(other));
            let first = self.world.stores[0].0;
            assert!(
                seen == expected,
                "seed {seed}: {what}: {name} is not like {first}:\n{}",
                super::difference(&seen, &expected)
            );
        }
        answers
    }

    fn new_trigger(&mut self, name: &str) -> NewTrigger {
        let kind = match self.percent(40) {
            true => TriggerKindName::Event,
            false => *self.world.random.pick(&TriggerKindName::ALL),
        };
        let cursor = match kind {
            TriggerKindName::Schedule => self.cursor(),
            _ => TriggerCursor::None,
        };
        let is_due = matches!(
            kind,
            TriggerKindName::Schedule | TriggerKindName::Poll | TriggerKindName::Stream
        );
        let kinds = MessageKinds::default().with(MessageKind::Failed.into());
        let listens = kind == TriggerKindName::WorkflowEnded;
        let topic = format!("topic {}", self.below(3));
        NewTrigger {
            name: name.into(),
            kind,
            timing: [u8::from(self.percent(50)); 32],
            cursor,
            next_due: is_due.then(|| self.world.clock_plus(4_000)),
            enabled: self.percent(85),
            topics: vec![topic.as_str().into(), "o'*".into()],
            throttle: None,
            ends: listens.then(|| EndsWanted { workflow: Some(topic.as_str().into()), kinds }),
        }
    }

    fn cursor(&mut self) -> TriggerCursor {
        let after = self.world.clock_plus(1_000);
        let waiting = vec![after; usize::from(self.percent(30))];
        let (previous, reached) = (self.percent(50).then_some(after), None);
        let (backfilled, backfills) = (self.percent(20).then_some(after), Vec::new());
        TriggerCursor::Schedule(ScheduleCursor {
            after,
            waiting,
            previous,
            reached,
            backfilled,
            backfills,
        })
    }

    fn deploy(&mut self) {
        let (workflow, content) = (self.world.random.index(WORKFLOWS.len()), self.below(5));
        if !self.contents.contains_key(&(workflow, content)) {
            let mut triggers = Vec::new();
            for name in NAMES {
                if self.percent(70) {
                    triggers.push(self.new_trigger(name));
                }
            }
            self.contents.insert((workflow, content), triggers);
        }
        let name = WORKFLOWS[workflow];
        let new = NewDefinition {
            make_current: self.percent(90),
            triggers: self.contents[&(workflow, content)].clone(),
            paused: self.percent(10),
            ..new_definition(name, &format!("{name} {content}"))
        };
        self.world.ask("define", |store| store.define(&new).unwrap(), Clone::clone);
        self.look();
    }

    /// All rows as they are now.
    fn rows(&self) -> Vec<TriggerRow> {
        let request = TriggersRequest { limit: 1_000, ..TriggersRequest::default() };
        let page = self.world.ask(
            "triggers",
            |store| store.triggers(&request).unwrap(),
            |page| (page.rows.iter().map(unnumbered).collect::<Vec<_>>(), page.more, page.at),
        );
        page.rows
    }

    /// Keeps some rows as they are now.
    fn look(&mut self) {
        for row in self.rows() {
            if self.percent(40) {
                self.seen.push(row);
            }
        }
        let old = self.seen.len().saturating_sub(30);
        self.seen.drain(..old);
    }

    /// A row as it is, or as it was.
    fn row(&mut self) -> Option<TriggerRow> {
        let mut rows = self.rows();
        if !self.seen.is_empty() && self.percent(25) {
            rows.clone_from(&self.seen);
        } else if self.percent(90) {
            rows.retain(|row| row.state == TriggerState::Active);
        }
        (!rows.is_empty()).then(|| rows.swap_remove(self.world.random.index(rows.len())))
    }

    fn claim(&mut self) {
        let limit = 1 + self.world.random.index(4);
        let request = TriggerClaim::any(limit, LEASE);
        self.world.ask(
            "claim of triggers",
            |store| store.claim_triggers(&request).unwrap(),
            |claimed| {
                let rows: Vec<_> = claimed.triggers.iter().map(unnumbered).collect();
                (rows, claimed.next_due, claimed.next_group, claimed.at)
            },
        );
    }

    fn advance(&mut self, row: &TriggerRow) -> Option<Advance> {
        let next_due = self.percent(80).then(|| self.world.clock_plus(3_000));
        let cursor = self.cursor();
        self.percent(60).then_some(Advance { seq: row.seq, cursor, next_due })
    }

    /// First frames, each with its fire, which is appended again now and then.
    fn fire(&mut self) {
        let instance = self.world.instance();
        let count = self.world.random.between(1, 3);
        let mut drafts = Vec::new();
        for execution in self.world.beat(instance, u32::try_from(count).unwrap(), false) {
            let Some(row) = self.row() else { return };
            let mut hand = Hand::new(execution, instance);
            let group = self.world.random.index(self.groups.len().max(1));
            let group = (self.percent(30) && !self.groups.is_empty()).then_some(group);
            let row = group.map_or(row, |group| (*self.groups[group][0].row).clone());
            let (draft, fire) = self.first_frame(&mut hand, &row);
            drafts.push((names(&row), draft, fire, group));
            self.hands.insert(execution, hand);
        }
        let times = 1 + usize::from(self.percent(15));
        let groups = &self.groups;
        let batch = |at: usize, store: &dyn InspectTriggers| -> Vec<Append> {
            let append = |(names, draft, fire, group): &(Names, Append, Fire, Option<usize>)| {
                let trigger = number(store, names);
                let group = group.map(|group| groups[group][at].fence.clone());
                let at = TriggerAt { trigger, ..fire.at };
                let mut draft = draft.clone();
                let submission = draft.side.submission.as_mut().unwrap();
                submission.fire = Some(Box::new(Fire { at, group, ..fire.clone() }));
                draft
            };
            drafts.iter().map(append).collect()
        };
        let about: Vec<_> =
            drafts.iter().map(|(names, _, fire, group)| (names, fire, group)).collect();
        let mut went_in = Vec::new();
        for time in 0..times {
            let outcomes = self.ask_each(
                &format!("fire {about:#?}, time {time}"),
                |at, store| store.append(&batch(at, store)).unwrap(),
                |outcomes| seen_of(outcomes),
            );
            for ((_, draft, ..), outcome) in drafts.iter().zip(&outcomes[0]) {
                if matches!(outcome, Appended::Committed { .. }) {
                    went_in.push(draft.header.execution);
                }
            }
        }
        for (_, draft, ..) in &drafts {
            if !went_in.contains(&draft.header.execution) {
                self.hands.remove(&draft.header.execution);
            }
        }
    }

    fn first_frame(&mut self, hand: &mut Hand, row: &TriggerRow) -> (Append, Fire) {
        let key = format!("item {}", self.below(ITEMS));
        let nominal = (row.kind == TriggerKindName::Schedule).then(|| self.world.clock_plus(10));
        let fire = Fire {
            at: row.at(),
            item: item(&key, row.incarnation),
            label: key.as_str().into(),
            nominal,
            advance: self.advance(row),
            group: None,
        };
        // Now and then under a name that is taken.
        self.keys += u64::from(self.percent(90));
        let now = self.now();
        let fired = Fired {
            name: Arc::clone(&row.name),
            kind: row.kind.name().into(),
            node: None,
            at: nominal.unwrap_or(now),
            fired_at: now,
            key: key.as_str().into(),
            previous_at: None,
            last_success_at: None,
            depth: 0,
            details: None,
        };
        let run = RunCreated {
            trigger: Some(Box::new(fired)),
            definition: row.definition,
            version: row.version,
            ..waypost_ports::conformance::rig::created(
                &format!("fired {}", self.keys),
                &row.workflow,
            )
        };
        let submission = Submission { key: run.key.clone(), idempotency: None, fire: None };
        let owned = Event::Run(RunEvent::Owned { instance: hand.instance, epoch: 1 });
        let draft = hand.write(&[Event::Run(RunEvent::Created(Box::new(run))), owned]);
        (draft.control(ControlChange::Owned).submission(submission).into(), fire)
    }

    fn settle(&mut self) {
        let Some(row) = self.row() else { return };
        let group = self.world.random.index(self.groups.len().max(1));
        let group = (self.percent(15) && !self.groups.is_empty()).then_some(group);
        let row = group.map_or(row, |group| (*self.groups[group][0].row).clone());
        let mut fires = Vec::new();
        for _ in 0..self.below(4) {
            let outcomes = [
                FireOutcome::Filtered,
                FireOutcome::Skipped,
                FireOutcome::Missed,
                FireOutcome::Dead,
                FireOutcome::Dead,
                FireOutcome::Gap,
            ];
            let (outcome, key) = (*self.world.random.pick(&outcomes), self.below(ITEMS));
            let key = format!("item {key}");
            let is_dead = outcome == FireOutcome::Dead;
            fires.push(SettledFire {
                item: item(&key, row.incarnation),
                label: key.as_str().into(),
                nominal: self.percent(30).then(|| self.now()),
                outcome,
                reason: (is_dead || self.percent(50)).then(|| "it's so".into()),
                dead: is_dead.then(|| DeadFire { payload: "{\"a\":1}".into() }),
            });
        }
        let fails = self.percent(20);
        let open = self.hands.keys().next().copied().filter(|_| self.world.random.percent(20));
        let settlement = Settlement {
            at: row.at(),
            advance: self.advance(&row),
            group: None,
            fires,
            failures: u32::from(fails),
            failure: fails.then(|| "down".into()),
            broken: self.percent(4).then(|| "it cannot go on".into()),
            cancel: open.into_iter().map(|open| (open, "later".into())).collect(),
        };
        let (times, names, groups) = (1 + usize::from(self.percent(20)), names(&row), &self.groups);
        for time in 0..times {
            self.ask_each(
                &format!("settlement {settlement:?}, time {time}"),
                |at, store| {
                    let trigger = number(store, &names);
                    let group = group.map(|group| groups[group][at].fence.clone());
                    let at = TriggerAt { trigger, ..settlement.at };
                    let settlement = Settlement { at, group, ..settlement.clone() };
                    store.settle_trigger(&settlement).unwrap()
                },
                ToString::to_string,
            );
        }
    }

    fn arrive(&mut self) {
        let mut arrivals = Vec::new();
        for _ in 0..self.world.random.between(1, 8) {
            let Some(row) = self.row() else { return };
            // Only these have windows.
            if row.kind != TriggerKindName::Event {
                continue;
            }
            let group = self.below(3);
            let rule = match group {
                0 => WindowMode::Debounce { period: Millis(2_000), max: Millis(6_000) },
                1 => WindowMode::Batch { size: 3, wait: Millis(4_000) },
                _ if self.percent(50) => WindowMode::Batch { size: 50, wait: Millis(3_000) },
                _ => WindowMode::Debounce { period: Millis(3_000), max: Millis(3_000) },
            };
            let key = format!("event {}", self.below(4 * ITEMS));
            let bytes = if self.percent(10) { 400_000 } else { 3 };
            let arrival = Arrival {
                at: row.at(),
                group: format!("group's {group}").into(),
                item: item(&key, row.incarnation),
                label: key.as_str().into(),
                rule,
                payload: format!("\"é{}\"", "x".repeat(bytes)).into(),
            };
            arrivals.push((names(&row), arrival));
        }
        let times = 1 + usize::from(self.percent(20));
        for time in 0..times {
            let labels: Vec<_> = arrivals
                .iter()
                .map(|(names, one)| (names, &one.group, &one.label, one.at))
                .collect();
            self.ask_each(
                &format!("arrivals {labels:?}, time {time}"),
                |_, store| {
                    let own = |(names, arrival): &(Names, Arrival)| {
                        let at = TriggerAt { trigger: number(store, names), ..arrival.at };
                        Arrival { at, ..arrival.clone() }
                    };
                    store.arrive(&arrivals.iter().map(own).collect::<Vec<_>>()).unwrap()
                },
                |arrived| format!("{arrived:#?}"),
            );
        }
    }

    fn claim_groups(&mut self) {
        let claimed = self.ask_each(
            "claim of groups",
            |_, store| {
                // All of them: which of those that arrived together is first is each store's own.
                let mut groups = store.claim_groups(1_000, LEASE).unwrap();
                groups.sort_by_key(|group| {
                    (group.first_at, names(&group.row), group.fence.group.clone())
                });
                groups
            },
            |groups| {
                let seen = groups.iter().map(|group| {
                    let DueGroup { row, fence, first_at, last_at, payloads } = group;
                    let labels: Vec<_> =
                        payloads.iter().map(|(payload, label)| (payload.len(), label)).collect();
                    format!(
                        "{:#?} {} {first_at} {last_at} {labels:?}",
                        unnumbered(row),
                        fence.group
                    )
                });
                seen.collect::<Vec<_>>().join("\n")
            },
        );
        for at in 0..claimed[0].len() {
            self.groups.push(claimed.iter().map(|groups| groups[at].clone()).collect());
        }
        let old = self.groups.len().saturating_sub(20);
        self.groups.drain(..old);
    }

    fn change(&mut self) {
        let Some(mut row) = self.row() else { return };
        let rows = self.rows();
        if self.percent(50) && !rows.is_empty() {
            row = rows[self.world.random.index(rows.len())].clone();
        }
        let next_due = self.percent(80).then(|| self.world.clock_plus(3_000));
        let change = match self.below(6) {
            0 => TriggerChange::Pause { reason: self.percent(50).then(|| "it's enough".into()) },
            1 => TriggerChange::Break { reason: "it cannot go on".into() },
            2 => {
                let again = self.percent(50);
                TriggerChange::Move { seq: None, cursor: self.cursor(), next_due, again }
            }
            _ => TriggerChange::Resume { cursor: self.cursor(), next_due },
        };
        let (names, at) = (names(&row), row.at());
        self.world.ask(
            &format!("change {change:?} of {names:?}"),
            |store| {
                let at = TriggerAt { trigger: number(store, &names), ..at };
                store.change_trigger(at, &change).unwrap()
            },
            |row| row.as_ref().map(unnumbered),
        );
        self.look();
    }

    /// An execution ends.
    fn end(&mut self) {
        let executions: Vec<ExecutionNo> = self.hands.keys().copied().collect();
        let Some(at) = (!executions.is_empty()).then(|| self.world.random.index(executions.len()))
        else {
            return;
        };
        let mut hand = self.hands.remove(&executions[at]).unwrap();
        let output = waypost_core::json::Json::null();
        let end = hand.write(&[Event::Run(RunEvent::Completed { output })]);
        self.world.append(&[end.control(ControlChange::Ended).into()]);
    }

    /// Dead letters, in an order that does not depend on numbers.
    fn dead(store: &dyn InspectTriggers) -> Vec<(Names, DeadFireRow)> {
        let (request, named) =
            (DeadFiresRequest { limit: 10_000, ..DeadFiresRequest::default() }, names_of(store));
        let rows = store.dead_fires(&request).unwrap().into_iter();
        let mut rows: Vec<_> = rows.map(|row| (named[&row.trigger].clone(), row)).collect();
        rows.sort_by(|(a, one), (b, other)| {
            (one.at, a, &one.label, one.item, one.state).cmp(&(
                other.at,
                b,
                &other.label,
                other.item,
                other.state,
            ))
        });
        rows
    }

    fn settle_dead(&mut self) {
        let count = self.world.ask("dead letters", |store| Self::dead(store).len(), |count| *count);
        let Some(at) = (count > 0).then(|| self.world.random.index(count)) else { return };
        let state = *self.world.random.pick(&[DeadFireState::Retried, DeadFireState::Discarded]);
        let settle = |store: &dyn InspectTriggers| {
            store.settle_dead_fire(Self::dead(store)[at].1.id, state).unwrap()
        };
        self.world.ask("settled dead letter", settle, |settled| *settled);
    }

    /// After so long that items are forgotten, now and then.
    fn trim(&mut self) {
        if self.percent(40) {
            let kept = ITEM_KEPT.0 / self.world.random.between(1, 3);
            self.world.clock.advance(Millis(kept + self.world.random.below(2)));
            self.world.pass_time();
        }
        self.world.ask("trim", |store| store.trim_triggers().unwrap(), |deleted| *deleted);
    }

    fn open_executions(&mut self) {
        let Some(row) = self.row() else { return };
        let names = names(&row);
        let open = |store: &dyn InspectTriggers| {
            // All of them: which of those that began together is first is each store's own.
            let mut open = store.open_executions(number(store, &names), 1_000).unwrap();
            open.sort_unstable();
            open
        };
        self.world.ask("unfinished executions", open, Clone::clone);
    }

    /// Everything that stores keep of triggers.
    fn compare(&mut self) {
        let rows = self.rows();
        let whole = |store: &dyn InspectTriggers| {
            let mut rows = store.stored_triggers(None, 1_000).unwrap().rows;
            rows.iter_mut().for_each(|row| row.stored.row.number = TriggerNo(0));
            rows
        };
        self.world.ask("rows", whole, |rows| lines(rows));
        for row in &rows {
            let names = names(row);
            let fires = |store: &dyn InspectTriggers| fires_of(store, &names);
            let fires = self.world.ask(&format!("items of {names:?}"), fires, |fires| lines(fires));
            let items: Vec<ItemDigest> = fires.iter().map(|fire| fire.item).collect();
            let fired = |store: &dyn InspectTriggers| {
                let fired = store.fired(number(store, &names), &items).unwrap();
                fired.into_iter().flatten().map(unplaced).collect::<Vec<_>>()
            };
            self.world.ask("known items", fired, Clone::clone);
        }
        let groups = |store: &dyn InspectTriggers| groups_of(store);
        self.world.ask("groups", groups, |groups| lines(groups));
        let dead = |store: &dyn InspectTriggers| {
            let rows = Self::dead(store).into_iter();
            let unnumbered = |row| DeadFireRow { id: 0, trigger: TriggerNo(0), ..row };
            rows.map(|(names, row)| (names, unnumbered(row))).collect::<Vec<_>>()
        };
        self.world.ask("dead letters", dead, |rows| lines(rows));
        self.world.ask("counts", |store| store.trigger_stats().unwrap(), Clone::clone);
        self.world.ask("strays", |store| store.trigger_strays().unwrap(), Clone::clone);
        let endpoints = |store: &dyn InspectTriggers| {
            let rows = store.endpoints().unwrap().into_iter();
            let about = rows
                .map(|row| row.endpoint)
                .map(|it| (it.description, it.workflow, it.kinds.bits()));
            let mut about: Vec<_> = about.collect();
            about.sort();
            about
        };
        self.world.ask("endpoints", endpoints, |endpoints| format!("{endpoints:#?}"));
        let named = |store: &dyn InspectTriggers| {
            let executions: Vec<ExecutionNo> = self.hands.keys().copied().collect();
            let named = store.fires_of(&executions).unwrap().into_iter();
            named
                .map(|named| (named.execution, named.names, unplaced(named.fire)))
                .collect::<Vec<_>>()
        };
        self.world.ask("items of executions", named, Clone::clone);
        self.compare_rosters();
    }

    /// What executions know of the fires that started them, and the mail of triggers that cancel them.
    fn compare_logs(&self) {
        let all = ChunkRequest { after: None, limit: 10_000, since: None };
        let ask = |store: &dyn InspectTriggers| store.executions(&all).unwrap();
        for execution in self.world.ask("executions", ask, Clone::clone).executions {
            let request = EventsRequest::all(execution);
            let events = |store: &dyn InspectTriggers| store.events(&request).unwrap();
            self.world.ask("events", events, |events| format!("{events:#?}"));
            let mail = |store: &dyn InspectTriggers| {
                let mail = store.load(execution).unwrap().unwrap().mail.into_iter();
                let mut bodies: Vec<_> = mail.map(|mail| format!("{:?}", mail.body)).collect();
                bodies.sort();
                bodies
            };
            self.world.ask("mail", mail, Clone::clone);
        }
    }

    /// The revision of the list changes on all stores, or on none.
    fn compare_rosters(&mut self) {
        let before = &self.roster;
        let revisions = self.ask_each(
            "list of triggers",
            |at, store| {
                let revision = store.roster_revision().unwrap();
                (revision, revision != before[at])
            },
            |(_, changed)| changed.to_string(),
        );
        self.roster = revisions.into_iter().map(|(revision, _)| revision).collect();
    }
}

/// Why a frame of several did not go in is each store's own: it may be looked up before or after a later frame of them
/// takes the item or moves the cursor.
fn seen_of(outcomes: &[Appended]) -> String {
    if let [outcome] = outcomes {
        return format!("{outcome:#?}");
    }
    let went_in = outcomes.iter().map(|outcome| matches!(outcome, Appended::Committed { .. }));
    format!("{:#?}", went_in.collect::<Vec<_>>())
}

/// One line for each row.
fn lines<T: std::fmt::Debug>(rows: &[T]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

fn unplaced(fire: FireRow) -> FireRow {
    FireRow { place: 0, ..fire }
}

/// Items in the order of their times; that of those that were committed together is each store's own.
fn fires_of(store: &dyn InspectTriggers, names: &Names) -> Vec<FireRow> {
    let (trigger, outcome) = (number(store, names), None);
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = store.fires(&FiresRequest { trigger, outcome, before, limit: 7 }).unwrap();
        before = page.rows.last().map(|row| row.place);
        rows.extend(page.rows);
        if !page.more {
            break;
        }
    }
    assert!(rows.is_sorted_by(|a, b| a.place > b.place));
    let mut rows: Vec<FireRow> = rows.into_iter().map(unplaced).collect();
    rows.sort_by(|a, b| (a.at, &a.label, a.item).cmp(&(b.at, &b.label, b.item)));
    rows
}

/// The triggers of a store.
fn names_of(store: &dyn InspectTriggers) -> BTreeMap<TriggerNo, Names> {
    let rows = store.stored_triggers(None, 1_000).unwrap().rows.into_iter();
    rows.map(|row| (row.stored.row.number, names(&row.stored.row))).collect()
}

fn groups_of(store: &dyn InspectTriggers) -> Vec<(Names, InspectedGroup)> {
    let named = names_of(store);
    let groups = store.stored_groups(None, 1_000).unwrap().groups.into_iter();
    let groups = groups.map(|mut group| {
        assert_eq!(group.seq, group.held.last);
        let names = named[&group.trigger].clone();
        (group.number, group.trigger, group.seq, group.held.last) = (0, TriggerNo(0), 0, 0);
        (names, group)
    });
    let mut groups: Vec<_> = groups.collect();
    groups.sort_by(|(a, one), (b, other)| {
        (a, &one.key, one.stored.first_at, one.closed, one.stored.bytes).cmp(&(
            b,
            &other.key,
            other.stored.first_at,
            other.closed,
            other.stored.bytes,
        ))
    });
    groups
}
