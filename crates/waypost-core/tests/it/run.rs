//! One execution, driven by hand: commands in, effects out, evaluations performed at once.
//!
//! Every decision is checked against a shadow that only ever sees the events: it is folded from
//! what the frames decode to, goes through a snapshot now and then, and must always equal the live
//! state. The arrows that the fold takes are collected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::apply::{apply, begin};
use waypost_core::child::ParentLink;
use waypost_core::command::{Command, Decision, Effect, Env, Outcome, Refusal, Report};
use waypost_core::decide::{create, decide};
use waypost_core::event::{Event, Origin, RunCreated, RunEvent};
use waypost_core::expr::Contents;
use waypost_core::frame::{decode, encode};
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token};
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_core::limits::{ITEMS_OPENED_MAX, MAP_RESULTS_BYTES_MAX, TAKERS_MAX};
use waypost_core::path::At;
use waypost_core::plan::Plan;
use waypost_core::slot::SlotCounts;
use waypost_core::state::{NodeState, State};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::Fired;

fn fire_of(plan: &Plan, trigger: &str) -> Fired {
    Fired {
        name: trigger.into(),
        kind: "event".into(),
        node: plan.find(trigger).map(|_| trigger.into()),
        at: EPOCH,
        fired_at: EPOCH,
        key: "k".into(),
        previous_at: None,
        last_success_at: None,
        depth: 0,
        details: None,
    }
}

/// When every test begins.
pub(crate) const EPOCH: Timestamp = Timestamp(1_000_000_000_000);

pub(crate) use waypost_core::transitions::Arrow;

/// Arrows of the two machines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arrows {
    pub(crate) execution: BTreeSet<Arrow>,
    pub(crate) node: BTreeSet<Arrow>,
}

pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    /// By how much the time of commands may be behind the store's.
    pub(crate) behind: Millis,
    pub(crate) slots: u32,
    /// Perform evaluations at once?
    pub(crate) evaluates: bool,
    /// Every event with the time of its command.
    pub(crate) log: Vec<(Timestamp, Event)>,
    /// What the last command led to, evaluations included.
    pub(crate) last: Decision,
    /// Deliveries: what was handed off under which token.
    pub(crate) deliveries: BTreeMap<Token, (At, u32)>,
    /// The paths of what was handed off, which outlive scopes.
    pub(crate) paths: BTreeMap<Token, Arc<str>>,
    pub(crate) arrows: Arrows,
    /// The contents of blobs that are at hand.
    pub(crate) contents: Contents,
    pub(crate) map_results_bytes_max: u64,
    pub(crate) takers_max: Option<usize>,
    shadow: State,
    instance: InstanceId,
    decisions: u128,
}

impl<'a> Run<'a> {
    /// An execution whose first frame was decided.
    pub(crate) fn start(plan: &'a Plan, input: &str, deadline: Option<Millis>, slots: u32) -> Self {
        let mut run = Self::born(plan, input, deadline);
        run.slots = slots;
        run.create();
        run
    }

    /// The same, started by a fire of the trigger of this name: a node's, if a node has it.
    pub(crate) fn fired(plan: &'a Plan, trigger: &str) -> Self {
        let mut run = Self::born(plan, "{}", None);
        run.be_created(|created| created.trigger = Some(Box::new(fire_of(plan, trigger))));
        run.create();
        run
    }

    /// Decides the first frame.
    fn create(&mut self) {
        let created = self.state.created.as_ref().clone();
        let (state, decision) = create(self.plan, ExecutionNo(7), created, None, &self.env());
        self.log.clear();
        self.state = state;
        self.check(decision.clone(), 1);
        self.last = decision.clone();
        self.follow_up(decision.effects);
    }

    /// Begins again with another first event.
    fn be_created(&mut self, change: impl FnOnce(&mut RunCreated)) {
        let mut created = self.state.created.as_ref().clone();
        change(&mut created);
        let first = Event::Run(RunEvent::Created(Box::new(created)));
        self.state = begin(self.plan, ExecutionNo(7), &first, EPOCH).expect("it is RunCreated");
        self.shadow = self.state.clone();
        self.log = vec![(EPOCH, first)];
    }

    /// An execution of which nothing but the first event is known.
    pub(crate) fn born(plan: &'a Plan, input: &str, deadline: Option<Millis>) -> Self {
        let created = RunCreated {
            key: ExecutionId("exe_test".into()),
            workflow: "test".into(),
            version: 1,
            definition: plan.hash,
            input: Json::parse(input).expect("the input of a test is JSON"),
            labels: BTreeMap::new(),
            deadline: deadline.map(|span| EPOCH.plus(span)),
            origin: Origin::default(),
            parent: None,
            trigger: None,
        };
        let first = Event::Run(RunEvent::Created(Box::new(created)));
        let state = begin(plan, ExecutionNo(7), &first, EPOCH).expect("it is RunCreated");
        Self {
            plan,
            shadow: state.clone(),
            state,
            now: EPOCH,
            behind: Millis(0),
            slots: 100,
            evaluates: true,
            log: vec![(EPOCH, first)],
            last: Decision::default(),
            deliveries: BTreeMap::new(),
            paths: BTreeMap::new(),
            arrows: Arrows::default(),
            contents: Contents::default(),
            map_results_bytes_max: MAP_RESULTS_BYTES_MAX,
            takers_max: Some(TAKERS_MAX),
            instance: InstanceId(Uuid::from_u128(1)),
            decisions: 0,
        }
    }

    /// An execution that node `calls` of another one started.
    pub(crate) fn child(plan: &'a Plan, parent: i64) -> Self {
        Self::child_at(plan, parent, 1)
    }

    /// As `child`, with so many executions above it.
    pub(crate) fn child_at(plan: &'a Plan, parent: i64, depth: u32) -> Self {
        let mut run = Self::born(plan, "{}", None);
        let parent = ParentLink {
            execution: ExecutionNo(parent),
            key: ExecutionId("exe_parent".into()),
            node: "calls".into(),
            awaits: true,
            root: ExecutionId("exe_root".into()),
            depth,
            keys: vec!["test/k".into()],
        };
        run.be_created(|created| created.parent = Some(Box::new(parent)));
        run
    }

    /// Decides a command and what follows from it.
    pub(crate) fn command(&mut self, command: Command) -> Result<(), Refusal> {
        self.last = Decision::default();
        let mut effects = self.decide(command)?;
        effects.extend(self.open_items());
        self.follow_up(effects);
        if self.evaluates {
            self.deliver();
        }
        Ok(())
    }

    /// Decides a command, twice: the second time on a copy, to see that it comes out the same.
    #[expect(clippy::needless_pass_by_value, reason = "as `decide` takes it")]
    fn decide(&mut self, command: Command) -> Result<Vec<Effect>, Refusal> {
        self.decisions += 1;
        let env = self.env();
        let before = self.state.clone();
        let mut twin = before.clone();
        let decided = decide(self.plan, &mut self.state, command.clone(), &env);
        assert_eq!(decide(self.plan, &mut twin, command.clone(), &env), decided, "deterministic");
        assert_eq!(twin, self.state, "deterministic");
        let decision = decided.inspect_err(|_| {
            assert_eq!(before, self.state, "{command:?} was refused and changed the state");
        })?;
        let runs = |effect: &&Effect| matches!(effect, Effect::Run { .. });
        let runs = decision.effects.iter().filter(runs).count();
        assert!(runs <= self.slots as usize, "{runs} attempts in {} slots", self.slots);
        self.check(decision.clone(), 0);
        let effects = decision.effects.clone();
        self.last.events.extend(decision.events);
        self.last.effects.extend(decision.effects);
        self.last.births.extend(decision.births);
        self.last.sent.extend(decision.sent);
        self.last.published.extend(decision.published);
        self.last.reopened.extend(decision.reopened);
        Ok(effects)
    }

    /// As the engine does at the end of a frame.
    fn open_items(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.evaluates && self.state.wants_items() {
            effects.extend(self.decide(Command::OpenItems).expect("it is never refused"));
        }
        effects
    }

    /// As the engine does after a frame: signals that are on their way go on.
    pub(crate) fn deliver(&mut self) {
        while self.state.wants_delivery() {
            let effects = self.decide(Command::Deliver).expect("it is never refused");
            self.follow_up(effects);
        }
    }

    fn follow_up(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Evaluate { node, attempt } if self.evaluates => {
                    let command = Command::Evaluate { node, attempt };
                    effects.extend(self.decide(command).expect("an evaluation is never refused"));
                    effects.extend(self.open_items());
                }
                Effect::Run { node, attempt, token } => {
                    if self.state.get(node).is_some() {
                        self.paths.insert(token, self.state.path(self.plan, node));
                    }
                    let known = self.deliveries.insert(token, (node, attempt));
                    assert_eq!(known, None, "one token, two deliveries");
                }
                Effect::Evaluate { .. }
                | Effect::Launch { .. }
                | Effect::Offer { .. }
                | Effect::Cancel { .. } => {}
            }
        }
        for token in self.state.nodes().filter_map(|(_, node)| node.token) {
            assert!(
                self.deliveries.contains_key(&token),
                "an attempt that was handed to no worker"
            );
        }
    }

    fn env(&self) -> Env {
        let entropy = self.decisions;
        let now_max = self.now.plus(self.behind);
        let slots = SlotCounts::each(self.slots);
        Env {
            now: self.now,
            now_max,
            instance: self.instance,
            slots,
            entropy,
            items_opened_max: ITEMS_OPENED_MAX,
            takers_max: self.takers_max,
            map_results_bytes_max: self.map_results_bytes_max,
            contents: self.contents.clone(),
        }
    }

    /// Folds a decision into the shadow, the first `skip` events left aside.
    fn check(&mut self, decision: Decision, skip: usize) {
        let frame = decode(&encode(&decision.events)).expect("what was encoded can be decoded");
        assert_eq!(frame, decision.events, "a frame is read as it was written");
        for event in frame.iter().skip(skip) {
            let from = self.shadow.clone();
            apply(self.plan, &mut self.shadow, event, self.now).expect("decided, so legal");
            self.note_arrow(&from, event);
        }
        self.log.extend(decision.events.into_iter().map(|event| (self.now, event)));
        assert_eq!(self.shadow, self.state, "replay equals the live state");
        let restored = State::decode(&self.shadow.encode(), self.plan);
        self.shadow = restored.expect("a snapshot of this build and plan");
        assert_eq!(self.shadow, self.state, "a snapshot is read as it was written");
    }

    fn note_arrow(&mut self, from: &State, event: &Event) {
        let shadow = &self.shadow;
        match event {
            Event::Run(event) => {
                let arrow = (from.phase().name(), event.row().name, shadow.phase().name());
                self.arrows.execution.insert(arrow);
            }
            Event::Node(event) => {
                let at = from.find(self.plan, event.node()).expect("it was applied");
                let Some(to) = shadow.get(at) else { return };
                let (from, to) = (from.node(at).phase(), to.phase());
                self.arrows.node.insert((from.name(), event.row().name, to.name()));
            }
        }
    }

    /// How many commands were decided.
    pub(crate) fn decided(&self) -> u128 {
        self.decisions
    }

    pub(crate) fn node(&self, id: &str) -> &NodeState {
        self.state.node(self.at(id))
    }

    pub(crate) fn at(&self, id: &str) -> At {
        self.state.find(self.plan, id).unwrap_or_else(|| panic!("no node {id:?}"))
    }

    /// The report of the worker that was handed this attempt (the last one where none is named).
    pub(crate) fn report(&self, id: &str, attempt: Option<u32>, outcome: Outcome) -> Report {
        let at = self.at(id);
        let fits = |of: &(At, u32)| of.0 == at && attempt.is_none_or(|attempt| attempt == of.1);
        // Where several were handed it, the one that holds it.
        let holds = |token: &Token| self.state.node(at).token == Some(*token);
        let handed = self.deliveries.iter().filter(|(_, of)| fits(of));
        let handed = handed.max_by_key(|(token, of)| (of.1, holds(token)));
        let (token, (_, attempt)) = handed.unwrap_or_else(|| panic!("{id} was not handed off"));
        Report { node: id.into(), attempt: *attempt, token: *token, worker: None, outcome }
    }

    /// What still runs: deliveries whose attempt is the current one and RUNNING.
    pub(crate) fn running(&self) -> Vec<At> {
        let runs = self.state.nodes().filter(|(_, node)| node.token.is_some());
        runs.map(|(at, _)| at).collect()
    }

    /// Are a node's attempts made remotely only?
    pub(crate) fn is_foreign(&self, at: At) -> bool {
        matches!(self.plan.node(at.node).behaviour, Behaviour::Task { slot: None, .. })
    }

    /// Another process goes on with the execution.
    pub(crate) fn restart(&mut self) {
        self.instance = InstanceId(Uuid::from_u128(self.instance.0.as_u128() + 1));
    }
}
