//! Laws, over random plans and random commands, sensible and not.
//!
//! [`Run`] checks of every decision that it is deterministic, that replay and snapshots give the
//! live state, that frames are read as they were written, that a refusal changes nothing and that
//! slots are respected. The checker that ships with the product ([`LogCheck`]) justifies every event
//! from the rules. What is left is here: what comes twice changes nothing, whatever may run does,
//! and in the end everything ends.
//!
//! [`LogCheck`]: waypost_core::check::LogCheck

use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;
use waypost_core::budget::{Money, SpendingLimits};
use waypost_core::command::{Command, Mark, Outcome, Report, Request};
use waypost_core::event::{Event, FailureEnd, NodeEvent, Origin, Wait};
use waypost_core::failure::{Failure, kind};
use waypost_core::flow::{build, millis};
use waypost_core::id::{NodeIx, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::limits::ABANDONED_MAX;
use waypost_core::path::At;
use waypost_core::plan::{OnError, Plan};
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Millis;

use super::check::Logbook;
use super::run::Run;

const BEHAVIOURS: &[&str] = &[
    "task",
    "task",
    "task",
    "task",
    "worker",
    "worker",
    "pass",
    "gather",
    "if(input.n > 1)",
    "if(input.n)",
    "switch(input.n == 0 -> a, input.n == 1 -> b, else -> true)",
    "switch(input.n == 0 -> a)",
    "delay(0s)",
    "delay(5s)",
    "delay(2h)",
    "signal(s0)",
    "signal(s1, where signal.ok)",
    "signal(s0, within 10s)",
    "value({\"v\": \"${{ variables.v | default(0) }}\"})",
];
/// Behaviours with a body. Names in bodies are none of those outside.
const CONTAINERS: &[&str] = &[
    "group {x; y needs x}",
    "group {x = delay(5s); y error continue}",
    "group {x = group {z; w}; y}",
    "loop(until iteration == 2) {x}",
    "loop(while iteration < 3, delay 1s, all) {x; y = worker}",
    "loop(until input.n) {x = signal(s0)}",
    "loop(until iteration == 2) {x = group {y; z = pass} retry 2 wait 1s}",
    "map(3, at 2) {x}",
    "map([1,2,3], at 1, tolerate 1) {x; y = worker}",
    "map(5, at 2, stop) {x; y needs x}",
    "map(2) {x = signal(s1, where signal.ok); y needs x}",
    "map(${{ input.n }}, at 2, percent 50) {x = if(index > 0); y needs x:true; z needs x:false}",
    "map(3, at 2, tolerate 3) {x = loop(until iteration == 2) {z = worker} deadline 20s}",
    "group {x = map(3, at 1) {z}; y}",
    "map(4, at 3, tolerate 2) {x meter 10 5; y = worker meter 8 2}",
    "loop(until iteration == 2) {x meter 10 5 retry 2 wait 1s}",
];
const BRANCHES: &[&str] = &["", "", "", ":true", ":false", ":a", ":oops"];
const JOINS: &[&str] =
    &["", "", "", " join any", " join 2", " join any cancel-rest", " join 2 cancel-rest"];
const RETRIES: &[&str] = &["", "", " retry 2 wait 0s", " retry 3 wait 1s on=timeout"];
const ERRORS: &[&str] = &["", "", " error continue", " error oops"];
const EXTRAS: &[&str] = &[
    "",
    "",
    "",
    "",
    " timeout 1s",
    " deadline 20s",
    " once",
    " set v = 1",
    " set v = output.n",
    " meter 10 5",
    " meter 30 10",
];
const BUDGETS: &[&str] =
    &["", "", "budget 1000", "budget 40", "budget 50 pause", "budget x money 0.00006 pause"];

/// The text of a plan, in which edges go from earlier letters to later ones and statements stand in
/// any order.
fn flows() -> impl Strategy<Value = String> {
    let word = |words: &'static [&'static str]| prop::sample::select(words);
    let edges = prop::collection::vec((any::<prop::sample::Index>(), word(BRANCHES)), 0..4);
    let behaviour = prop_oneof![5 => word(BEHAVIOURS), 1 => word(CONTAINERS)];
    let node = (behaviour, edges, word(JOINS), word(RETRIES), word(ERRORS), word(EXTRAS));
    let nodes = prop::collection::vec(node, 1..9)
        .prop_map(|nodes| nodes.into_iter().enumerate().map(statement).collect::<Vec<_>>());
    let policies = (prop::bool::weighted(0.3), prop::bool::weighted(0.2), word(BUDGETS));
    (nodes.prop_shuffle(), policies).prop_map(|(mut statements, (partial, keyed, budget))| {
        statements.push(budget.into());
        if keyed {
            statements.push("keyed '${{ input.n }}'".into());
        }
        if partial {
            statements.push("partial".into());
        }
        statements.join("\n")
    })
}

type Edges = Vec<(prop::sample::Index, &'static str)>;
type Words = (&'static str, Edges, &'static str, &'static str, &'static str, &'static str);

fn statement((at, (behaviour, edges, join, retry, error, extra)): (usize, Words)) -> String {
    let id = |at: usize| char::from(b'a' + u8::try_from(at).expect("a few nodes"));
    let mut text = format!("{} = {behaviour}", id(at));
    if at > 0 && !edges.is_empty() {
        let edges =
            edges.iter().map(|(source, branch)| format!("{}{branch}", id(source.index(at))));
        text += &format!(" needs {}{join}", edges.collect::<Vec<_>>().join(", "));
    }
    if CONTAINERS.contains(&behaviour) {
        // What the language allows.
        let retry = match behaviour.starts_with("group") {
            // A group fails at the end of a decision: a try without a wait is left to the next one.
            true => retry.replace("wait 0s", "wait 1s"),
            false => String::new(),
        };
        let allowed = extra.starts_with(" deadline") || extra.starts_with(" set");
        return text + &retry + error + if allowed { extra } else { "" };
    }
    let is_task = ["task", "worker"].contains(&behaviour);
    let extra = if extra.starts_with(" meter") && !is_task { "" } else { extra };
    text + retry + error + extra
}

/// Something that happens. Numbers choose among what is there when it happens.
#[derive(Clone, Debug)]
enum Step {
    Report {
        which: usize,
        what: What,
    },
    /// A report on any delivery there ever was.
    Echo {
        which: usize,
        what: What,
    },
    Forge {
        which: usize,
    },
    /// A remote worker speaks of an attempt of any node, whether or not it was given it.
    Far {
        which: usize,
        worker: u128,
        attempt: u32,
        what: What,
    },
    Signal {
        name: usize,
        ok: bool,
        message: usize,
    },
    Cancel {
        message: usize,
    },
    Pause {
        now: bool,
        message: usize,
    },
    Resume {
        message: usize,
    },
    /// Somebody ends the wait of a node, or one that there is none of.
    CompleteWait {
        which: usize,
        message: usize,
    },
    Reopen {
        message: usize,
    },
    TakeOver,
    Own,
    Recover,
    Park,
    Admit,
    /// An attempt is lost again and again, until the execution is set aside.
    LoseOften {
        which: usize,
    },
    Time {
        span: &'static str,
        noticed: bool,
    },
    Slots(u32),
    Start {
        which: usize,
        attempt: u32,
    },
    Evaluate {
        which: usize,
        attempt: u32,
    },
    /// Evaluations happen at once, or are forgotten until somebody recovers.
    Evaluates(bool),
}

#[derive(Clone, Copy, Debug)]
enum What {
    Started,
    Completed,
    Counted,
    Failed,
    FailedForNow,
    TimedOut,
    Cancelled,
    Lost,
    Mark,
    NoMark,
}

impl What {
    fn outcome(self) -> Outcome {
        let json = |text| Json::parse(text).expect("JSON");
        match self {
            Self::Started => Outcome::Started,
            Self::Completed => Outcome::Completed(json("{\"n\": 1}")),
            Self::Counted => Outcome::Completed(json(
                "{\"n\": 1, \"usage\": {\"inputTokens\": 7, \"outputTokens\": 2}}",
            )),
            Self::Failed => Outcome::Failed(Failure::permanent("broken", "it failed")),
            Self::FailedForNow => Outcome::Failed(Failure::transient("http", "it failed")),
            Self::TimedOut => Outcome::Failed(Failure::transient("timeout", "it took too long")),
            Self::Cancelled => Outcome::Cancelled,
            Self::Lost => {
                let details = Some(Json::null());
                Outcome::Lost(Failure { details, ..Failure::transient("panic", "it panicked") })
            }
            Self::Mark => Outcome::Checkpoint(json("[1]").into()),
            Self::NoMark => Outcome::Checkpoint(Mark { data: Json::null(), number: 1 }),
        }
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let what = prop::sample::select(vec![
        What::Completed,
        What::Completed,
        What::Counted,
        What::Counted,
        What::Failed,
        What::FailedForNow,
        What::TimedOut,
        What::Cancelled,
        What::Lost,
        What::Mark,
        What::NoMark,
        What::Started,
    ]);
    let which = 0..32usize;
    let message = 0..12usize;
    let attempt = 0..4u32;
    let span = prop::sample::select(vec!["0s", "1ms", "1s", "5s", "10s", "1m", "3h"]);
    prop_oneof![
        12 => (which.clone(), what.clone()).prop_map(|(which, what)| Step::Report { which, what }),
        2 => (which.clone(), what.clone()).prop_map(|(which, what)| Step::Echo { which, what }),
        8 => (which.clone(), 1..4u128, 0..3u32, what)
            .prop_map(|(which, worker, attempt, what)| Step::Far { which, worker, attempt, what }),
        1 => which.clone().prop_map(|which| Step::Forge { which }),
        4 => (0..3usize, any::<bool>(), message.clone())
            .prop_map(|(name, ok, message)| Step::Signal { name, ok, message }),
        1 => message.clone().prop_map(|message| Step::Cancel { message }),
        2 => (any::<bool>(), message.clone()).prop_map(|(now, message)| Step::Pause { now, message }),
        3 => message.clone().prop_map(|message| Step::Resume { message }),
        2 => (which.clone(), message.clone())
            .prop_map(|(which, message)| Step::CompleteWait { which, message }),
        2 => message.prop_map(|message| Step::Reopen { message }),
        3 => Just(Step::TakeOver),
        1 => Just(Step::Own),
        1 => Just(Step::Recover),
        3 => Just(Step::Park),
        2 => Just(Step::Admit),
        1 => which.clone().prop_map(|which| Step::LoseOften { which }),
        6 => (span, prop::bool::weighted(0.8))
            .prop_map(|(span, noticed)| Step::Time { span, noticed }),
        1 => (0..4u32).prop_map(Step::Slots),
        2 => (which.clone(), attempt.clone())
            .prop_map(|(which, attempt)| Step::Start { which, attempt }),
        1 => (which, attempt).prop_map(|(which, attempt)| Step::Evaluate { which, attempt }),
        1 => any::<bool>().prop_map(Step::Evaluates),
    ]
}

/// An execution, and its log as the checker reads it.
struct Trial<'a> {
    run: Run<'a>,
    logbook: Logbook,
    read: usize,
}

impl<'a> Trial<'a> {
    fn new(plan: &'a Arc<Plan>, run: Run<'a>) -> Self {
        let logbook = Logbook::new(Arc::clone(plan));
        let mut trial = Self { run, logbook, read: 0 };
        trial.check();
        trial
    }

    /// The checker reads what is new in the log; then whatever may run must be under way.
    fn check(&mut self) {
        self.check_budget();
        for (_, event) in self.run.log.iter().skip(self.read) {
            self.check_on_error(event);
        }
        self.logbook.read(&self.run.log[self.read..]);
        assert_eq!(self.logbook.check.violations(), [], "the checker finds nothing");
        assert_eq!(self.logbook.check.state(), Some(&self.run.state), "and folds the same state");
        self.read = self.run.log.len();
        let state = &self.run.state;
        // Items are opened with evaluations: those that were put off are opened with the next command.
        if !state.wants_items() && state.acts() && state.status == Status::Running {
            let forgotten = self.logbook.check.forgotten();
            assert_eq!(forgotten, None, "a node's turn has come, and nothing happens");
        }
        assert_eq!(state.status.is_end(), state.end.is_some());
    }

    /// Reservations stay within the budget, whatever is lost; usage that a worker reported may be above.
    fn check_budget(&self) {
        let state = &self.run.state;
        let Some(limits) = state.budget_limits(self.run.plan) else { return };
        let total = state.spending.spent().plus(state.spending.reserved);
        assert!(limits.allow(total), "{total} of {limits}");
        let waits = |at: &At| state.get(*at).is_some_and(|node| node.status == NodeStatus::Queued);
        assert!(
            state.spending.waiting.iter().all(waits),
            "only what is QUEUED waits for the budget"
        );
    }

    /// Mistakes of a definition that end a node pass `onError` by, where the node has not asked for
    /// them. The checker cannot demand that: older logs pass nothing by.
    fn check_on_error(&self, event: &Event) {
        let Event::Node(NodeEvent::Failed { node, end, failure, .. }) = event else { return };
        let node = self.run.plan.locate(node).expect("the definition has it");
        let node = self.run.plan.node(node);
        let mistake = kind::DEFINITION_ERRORS.contains(&&*failure.kind);
        let settles = matches!(end, FailureEnd::Final | FailureEnd::TimedOut);
        let handled = node.on_error != OnError::Fail && !node.on_definition_errors;
        assert_eq!(failure.on_error_skipped, mistake && settles && handled, "{}", node.id);
    }

    /// Gives a command, and then the same command once more.
    #[expect(clippy::needless_pass_by_value, reason = "commands are made where they are given")]
    fn command(&mut self, command: Command) {
        let known = !matches!(command, Command::TakeOver)
            && !matches!(&command, Command::Request(_, Origin { message: None, .. }));
        // What is refused is refused; that it changed nothing is checked where it is decided.
        self.run.command(command.clone()).ok();
        self.check();
        if known {
            let seq = self.run.state.seq;
            // Without slots: a slot that came free would be a reason of its own to start something.
            let slots = std::mem::take(&mut self.run.slots);
            self.run.command(command.clone()).ok();
            self.run.slots = slots;
            assert_eq!(self.run.state.seq, seq, "{command:?} came twice and did something twice");
        }
    }

    fn step(&mut self, step: &Step) {
        let open: Vec<At> = self.run.state.nodes().map(|(at, _)| at).collect();
        // One more than there are: nonsense is allowed.
        let nowhere = At::from(NodeIx(u32::try_from(self.run.plan.nodes.len()).expect("few")));
        let node = |which: usize| open.get(which % (open.len() + 1)).copied().unwrap_or(nowhere);
        match *step {
            Step::Report { which, what } => {
                let running = self.run.running();
                let Some(at) = running.get(which % running.len().max(1)) else { return };
                self.report(*at, None, what);
            }
            Step::Echo { which, what } => {
                let deliveries = &self.run.deliveries;
                let Some((token, (at, attempt))) =
                    deliveries.iter().nth(which % deliveries.len().max(1))
                else {
                    return;
                };
                let (token, at, attempt) = (*token, *at, *attempt);
                if self.run.state.get(at).is_some() {
                    return self.report(at, Some(attempt), what);
                }
                // Its scope has closed.
                let Some(node) = self.run.paths.get(&token).cloned() else { return };
                let outcome = what.outcome();
                self.command(Command::Report(Report {
                    node,
                    attempt,
                    token,
                    worker: None,
                    outcome,
                }));
            }
            Step::Forge { which } => {
                let at = node(which);
                let known = self.run.state.get(at).map(|node| node.attempt);
                let attempt = known.unwrap_or(1);
                let path = match known {
                    Some(_) => self.run.state.path(self.run.plan, at),
                    None => "nowhere".into(),
                };
                let outcome = What::Completed.outcome();
                let token = Token(u128::MAX);
                self.command(Command::Report(Report {
                    node: path,
                    attempt,
                    token,
                    worker: None,
                    outcome,
                }));
            }
            Step::Far { which, worker, attempt, what } => {
                let at = open[which % open.len()];
                // The current attempt mostly, or one before it.
                let attempt = self.run.state.node(at).attempt.saturating_sub(attempt / 2);
                self.report_from_afar(at, worker, attempt, what);
            }
            Step::Signal { name, ok, message } => {
                let body = if ok { "{\"ok\":true}" } else { "{}" };
                let body = Json::parse(body).expect("JSON");
                let name = format!("s{name}").into();
                self.command(Command::Request(Request::Signal { name, body }, origin(message)));
            }
            Step::Cancel { message } => {
                self.command(Command::Request(Request::Cancel { reason: None }, origin(message)));
            }
            Step::Pause { now, message } => {
                self.command(Command::Request(
                    Request::Pause { now, reason: None },
                    origin(message),
                ));
            }
            Step::Resume { message } => {
                self.command(Command::Request(Request::Resume { reason: None }, origin(message)))
            }
            Step::CompleteWait { which, message } => {
                let waiting = self.run.state.get(node(which));
                let wait = waiting.map_or(1, |node| node.wait_seq);
                let body = Json::parse("{\"ok\":false}").expect("JSON");
                self.command(Command::Request(
                    Request::CompleteWait { wait, body },
                    origin(message),
                ));
            }
            Step::Reopen { message } => self.command(Command::Request(
                Request::Retry { reason: None, budget: None },
                origin(message),
            )),
            Step::TakeOver => self.take_over(),
            Step::Own => self.command(Command::TakeOver),
            Step::Recover => self.command(Command::Recover),
            Step::Park => self.command(Command::Park),
            Step::Admit => self.command(Command::Admit),
            Step::LoseOften { which } => self.lose_often(which),
            Step::Time { span, noticed } => {
                self.run.now = self.run.now.plus(millis(span));
                if noticed {
                    self.tick();
                }
            }
            Step::Slots(slots) => self.run.slots = slots,
            Step::Start { which, attempt } => {
                self.command(Command::Start { node: node(which), attempt });
            }
            Step::Evaluate { which, attempt } => {
                self.command(Command::Evaluate { node: node(which), attempt });
            }
            Step::Evaluates(at_once) => self.run.evaluates = at_once,
        }
    }

    fn report(&mut self, at: At, attempt: Option<u32>, what: What) {
        let path = self.run.state.path(self.run.plan, at);
        self.command(Command::Report(self.run.report(&path, attempt, what.outcome())));
    }

    fn report_from_afar(&mut self, at: At, worker: u128, attempt: u32, what: What) {
        let node = self.run.state.path(self.run.plan, at);
        let place = u128::from(at.scope.0) << 64 | u128::from(at.node.0) << 32;
        let token = Token((worker << 100) | place | u128::from(attempt));
        self.run.deliveries.insert(token, (at, attempt));
        let (worker, outcome) = (Some(WorkerId(Uuid::from_u128(worker))), what.outcome());
        self.command(Command::Report(Report { node, attempt, token, worker, outcome }));
    }

    fn lose_often(&mut self, which: usize) {
        for _ in 0..ABANDONED_MAX {
            let running = self.run.running();
            let Some(at) = running.get(which % running.len().max(1)) else { return };
            self.report(*at, None, What::Lost);
            self.run.now = self.run.now.plus(millis("5m"));
            self.tick();
        }
    }

    fn take_over(&mut self) {
        self.run.restart();
        self.command(Command::TakeOver);
        self.command(Command::Recover);
    }

    /// Notices the time; what was due must not be due any more, or its owner would spin.
    fn tick(&mut self) {
        self.command(Command::Tick);
        if self.run.state.is_awake() || self.run.state.status == Status::Ending {
            let due = self.run.state.next_due();
            assert!(due.is_none_or(|due| due > self.run.now), "a timer that does nothing");
        }
    }

    /// Does all that there is to do: resumes, starts, completes, signals, lets time pass.
    fn bring_to_an_end(&mut self) {
        (self.run.slots, self.run.evaluates) = (100, true);
        self.take_over();
        for _ in 0..300 {
            if self.run.state.status.is_end() {
                return;
            }
            let owned = self.run.state.is_awake() || self.run.state.status == Status::Ending;
            if !owned {
                self.take_over();
            }
            if self.run.state.status == Status::Scheduling {
                self.command(Command::Admit);
            }
            if !self.run.state.moves() {
                let limits = SpendingLimits { tokens: Some(1 << 30), money: Some(Money(1 << 60)) };
                let request = Request::Budget { limits, reason: None };
                self.command(Command::Request(request, Origin::default()));
                self.command(Command::Request(Request::Resume { reason: None }, Origin::default()));
            }
            let open: Vec<At> = self.run.state.nodes().map(|(at, _)| at).collect();
            for at in open {
                // Its scope may have closed meanwhile.
                let Some(node) = self.run.state.get(at) else { continue };
                let (attempt, wait) = (node.attempt, node.wait.clone());
                match (node.status, wait) {
                    (NodeStatus::Queued, _) if self.run.is_foreign(at) => {
                        self.report_from_afar(at, 9, attempt, What::Completed);
                    }
                    (NodeStatus::Queued, _) => self.command(Command::Start { node: at, attempt }),
                    (NodeStatus::Running, _) if node.token.is_some() => {
                        self.report(at, None, What::Completed);
                    }
                    (_, Some(Wait::Signal { name, .. })) => {
                        let body = Json::parse("{\"ok\":true}").expect("JSON");
                        let origin = Origin::default();
                        self.command(Command::Request(Request::Signal { name, body }, origin));
                    }
                    _ => {}
                }
            }
            let due = self.run.state.next_due();
            self.run.now = due.unwrap_or(self.run.now).max(self.run.now);
            self.tick();
        }
        panic!("it never ends: {:#?}", self.run.state);
    }
}

/// The first few numbers are messages that come again and again; the others come without an id.
fn origin(message: usize) -> Origin {
    let message = (message < 8).then(|| format!("m{message}").into());
    Origin { message, actor: None }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn execution_under_random_commands_keeps_the_laws_and_ends(
        flow in flows(),
        n in 0..4u32,
        deadline in prop::option::weighted(0.2, 1_000..100_000u64),
        slots in prop::sample::select(vec![0, 1, 100]),
        steps in prop::collection::vec(steps(), 0..60),
    ) {
        let plan = Arc::new(build(&flow).expect("edges go from earlier letters to later ones"));
        let input = format!("{{\"n\":{n}}}");
        let run = Run::start(&plan, &input, deadline.map(Millis), slots);
        let mut trial = Trial::new(&plan, run);
        for step in &steps {
            trial.step(step);
        }
        trial.bring_to_an_end();
        let ended = trial.run.state.seq;
        trial.run.now = trial.run.now.plus(millis("1d"));
        trial.tick();
        trial.take_over();
        assert_eq!(trial.run.state.seq, ended, "nothing comes after the end");
        if trial.run.state.status != Status::Completed {
            trial.command(Command::Request(Request::Retry { reason: None, budget: None }, Origin::default()));
            trial.bring_to_an_end();
        }
    }

    /// A log of which only the first event is known may be told anything too.
    #[test]
    fn execution_without_an_owner_keeps_the_laws_and_ends(
        flow in flows(),
        steps in prop::collection::vec(steps(), 0..20),
    ) {
        // What has a key goes into its line with its first frame.
        let flow = flow.lines().filter(|line| !line.starts_with("keyed")).collect::<Vec<_>>();
        let plan = build(&flow.join("\n")).expect("edges go from earlier letters to later ones");
        let plan = Arc::new(plan);
        let mut trial = Trial::new(&plan, Run::born(&plan, "{\"n\":1}", None));
        for step in &steps {
            trial.step(step);
        }
        trial.bring_to_an_end();
    }
}
