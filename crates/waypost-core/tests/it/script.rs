//! The language of the tables: given a flow, when a command, then what must be so.
//!
//! ```text
//!   check("a merge after a branch", "c = if(input.n > 1); x needs c:true; y needs c:false; m needs x, y", "
//!       start {"n": 2}  ->  x RUNNING, y SKIPPED, m PENDING
//!       complete x 1    ->  m RUNNING, runs m
//!   ")
//! ```
//!
//! Commands: `start [input] [slots n] [within span]`, `born`, `started-by trigger`, `hold` (evaluate by hand from here on),
//! `evaluate node`, `start-queued node`, `slots n`, `complete|fail|lose|stopped|mark|block node[@attempt] …`,
//! `forge node`, `far worker start|complete|fail|… node[@attempt] …` (a report from elsewhere), `unofferable node`,
//! `cancel-item path [#message]`, `tune path hold|release|concurrency… [#message]`, `signal name [body] [#message]`, `end-wait node|seq [body] [#message]`, `decide node|seq approve|reject who [form] [#message]` (`who!`: by a link), `cancel|pause|pause-now|resume|reopen [#message]`,
//! `hand-over` (the process stops in order), `take-over` (with recovery, by another instance), `own` and `recover` (its halves), `park`,
//! `budget tokens [money] [#message]`, `launch node`, `launch-again node`, `launch-fails node …`, `child node STATUS …` (its child ended), `reject`, `force-cancel`,
//! `lose-4 node` (its attempt is lost four times and made again: the next loss quarantines the execution), `admit`, `wait span` (time passes and is noticed), `later span` (it passes).
//!
//! What must be so: see `Line::expect`. A command that is refused fails its line unless the line
//! says `refused`.

use serde_json::Value;
use uuid::Uuid;
use waypost_core::breaker::{BreakerCause, BreakerHold};
use waypost_core::budget::{Money, SpendingLimits};
use waypost_core::callback::{Callback, CallbackOutcome, OperationRef};
use waypost_core::child::{Callee, ChildEnd, Launch, NewChild, SentSignal, SignalTo};
use waypost_core::command::{
    ApprovalDecision, ApprovalVerdict, Command, Effect, Mark, Outcome, Refusal, Report, Request,
    Tuning,
};
use waypost_core::event::{Event, NodeEvent, Origin, PauseReason};
use waypost_core::failure::Failure;
use waypost_core::flow::{millis, plan, split};
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::limits::ABANDONED_MAX;
use waypost_core::path::{At, ScopeNo};
use waypost_core::plan::Plan;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_core::why::why;

use super::run::{Arrows, Run};

/// One case of a table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) given: &'static str,
    pub(crate) then: &'static str,
}

/// A case, in a shape that reads well in a list.
pub(crate) const fn case(name: &'static str, given: &'static str, then: &'static str) -> Case {
    Case { name, given, then }
}

/// Runs a table; every case that fails is named. Returns the arrows that were taken.
pub(crate) fn check(cases: &[Case]) -> Arrows {
    let (mut arrows, mut faults) = (Arrows::default(), Vec::new());
    for case in cases {
        match run(case) {
            Ok(taken) => {
                arrows.execution.extend(taken.execution);
                arrows.node.extend(taken.node);
            }
            Err(fault) => faults.push(format!("{}: {fault}", case.name)),
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    arrows
}

/// Carries out one command.
pub(crate) fn drive(run: &mut Run<'_>, command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let mut line = Line { run, refusal: None };
    line.command(&words);
    assert_eq!(line.refusal.map(|refusal| refusal.to_string()), None, "{command}");
}

fn run(case: &Case) -> Result<Arrows, String> {
    let plan = plan(case.given);
    let mut run: Option<Run<'_>> = None;
    for text in case.then.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = text.split_once("->").unwrap_or((text, ""));
        let words: Vec<&str> =
            split(command, &[' ']).into_iter().filter(|word| !word.is_empty()).collect();
        let mut line = Line { run: first_or(&mut run, &plan, &words), refusal: None };
        line.command(&words);
        let expectations = split(expected, &[',']);
        for expectation in expectations.iter().filter(|text| !text.is_empty()) {
            line.expect(expectation).map_err(|found| {
                format!("`{text}`: expected {expectation:?}, found {found}; {}", line.summary())
            })?;
        }
        if let Some(refusal) = line.refusal {
            return Err(format!("`{text}`: refused: {refusal}"));
        }
    }
    Ok(run.map(|run| run.arrows).unwrap_or_default())
}

fn first_or<'r, 'p>(
    run: &'r mut Option<Run<'p>>,
    plan: &'p Plan,
    words: &[&str],
) -> &'r mut Run<'p> {
    run.get_or_insert_with(|| {
        let after = |word: &str| {
            let at = words.iter().position(|found| *found == word);
            at.and_then(|at| words.get(at + 1).copied())
        };
        let input = words.get(1).filter(|text| text.starts_with('{')).unwrap_or(&"{}");
        let deadline = after("within").map(millis);
        match words[0] {
            "born" => Run::born(plan, input, deadline),
            "started-by" => Run::fired(plan, words[1]),
            "start" => {
                let slots = after("slots").map_or(100, |text| text.parse().expect("slots"));
                Run::start(plan, input, deadline, slots)
            }
            other => panic!("a script begins with start or born, not {other}"),
        }
    })
}

/// One line at work.
struct Line<'r, 'p> {
    run: &'r mut Run<'p>,
    refusal: Option<Refusal>,
}

impl Line<'_, '_> {
    fn command(&mut self, words: &[&str]) {
        let node = |text: &str| self.run.at(text.split('@').next().unwrap_or(text));
        let command = match *words {
            ["start" | "born" | "started-by", ..] => return,
            ["hold"] => return self.run.evaluates = false,
            ["slots", count] => return self.run.slots = count.parse().expect("slots"),
            ["later", span] => return self.run.now = self.run.now.plus(millis(span)),
            ["wait", span] => {
                self.run.now = self.run.now.plus(millis(span));
                Command::Tick
            }
            ["evaluate", id] => Command::Evaluate { node: node(id), attempt: self.attempt_of(id) },
            ["start-queued", id] => Command::Start { node: node(id), attempt: self.attempt_of(id) },
            ["own"] => {
                self.run.restart();
                Command::TakeOver
            }
            ["recover"] => Command::Recover,
            ["take-over"] => {
                self.run.restart();
                self.send(Command::TakeOver);
                let owned = std::mem::take(&mut self.run.last);
                self.send(Command::Recover);
                self.run.last.events.splice(0..0, owned.events);
                return;
            }
            ["hand-over"] => Command::HandOver,
            ["park"] => Command::Park,
            ["admit"] => Command::Admit,
            ["lose-4", id] => {
                for _ in 1..ABANDONED_MAX {
                    self.send(Command::Report(self.report("lose", id, &[])));
                    self.run.now = self.run.now.plus(millis("5m"));
                    self.send(Command::Tick);
                }
                return;
            }
            ["signal", name, ref rest @ ..] => {
                let body = rest.first().filter(|text| !text.starts_with('#')).unwrap_or(&"null");
                let body = Json::parse(body).expect("a body");
                Command::Request(Request::Signal { name: name.into(), body }, origin(words))
            }
            [verb @ ("callback" | "callback-failed"), node, operation, ref rest @ ..] => {
                let body = rest.first().filter(|text| !text.starts_with('#')).unwrap_or(&"null");
                let outcome = match verb {
                    "callback" => CallbackOutcome::Completed,
                    _ => CallbackOutcome::Failed,
                };
                let of = OperationRef { node: node.into(), operation: operation.into() };
                let body = Json::parse(body).expect("a body");
                let request = Request::Callback(Box::new(Callback { of, outcome, body }));
                Command::Request(request, origin(words))
            }
            ["settled", of, delivered, failed, ..] => {
                let wait = of.parse().unwrap_or_else(|_| self.run.node(of).wait_seq);
                let count = |text: &str| text.parse().expect("a count");
                let (delivered, failed) = (count(delivered), count(failed));
                let request = Request::MessageSettled { wait, delivered, failed };
                Command::Request(request, origin(words))
            }
            ["end-wait", of, ref rest @ ..] => {
                let wait = of.parse().unwrap_or_else(|_| self.run.node(of).wait_seq);
                let body = rest.first().filter(|text| !text.starts_with('#')).unwrap_or(&"null");
                let body = Json::parse(body).expect("a body");
                Command::Request(Request::CompleteWait { wait, body }, origin(words))
            }
            ["decide", of, verdict, approver, ref rest @ ..] => {
                let wait = of.parse().unwrap_or_else(|_| self.run.node(of).wait_seq);
                let verdict = match verdict {
                    "approve" => ApprovalVerdict::Approved,
                    _ => ApprovalVerdict::Rejected,
                };
                let form = rest.first().filter(|text| !text.starts_with('#')).unwrap_or(&"null");
                let decision = Box::new(ApprovalDecision {
                    verdict,
                    approver: approver.trim_end_matches('!').into(),
                    link: approver.ends_with('!'),
                    comment: None,
                    form: Json::parse(form).expect("a form"),
                });
                Command::Request(Request::Decide { wait, decision }, origin(words))
            }
            ["cancel-item", path, ..] => {
                let request = Request::CancelItem { node: path.into(), reason: None };
                Command::Request(request, origin(words))
            }
            ["tune", path, ref rest @ ..] => {
                let request =
                    Request::Tune { node: path.into(), tuning: tuning(rest), reason: None };
                Command::Request(request, origin(words))
            }
            ["budget", tokens, ref rest @ ..] => {
                let money = rest.first().filter(|text| !text.starts_with('#'));
                let limits = SpendingLimits {
                    tokens: tokens.parse().ok(),
                    money: money.map(|text| Money::parse(text).expect("money")),
                };
                Command::Request(Request::Budget { limits, reason: None }, origin(words))
            }
            ["launch", id] => {
                let launch = launch(self.run.decided());
                Command::Launch { node: node(id), attempt: self.attempt_of(id), launch }
            }
            ["launch-again", id] => Command::Launch {
                node: node(id),
                attempt: self.attempt_of(id),
                launch: Ok(Launch::Again),
            },
            ["launch-fails", id, ref rest @ ..] => {
                let launch = Err(failure(rest));
                Command::Launch { node: node(id), attempt: self.attempt_of(id), launch }
            }
            ["signal-to", id] => {
                let number = ExecutionNo(100);
                let to = SignalTo::Execution { number, id: ExecutionId("exe_other".into()) };
                self.sent_signal(id, to, "go")
            }
            ["publish", id, name] => {
                self.sent_signal(id, SignalTo::Waiting { keep: Millis(1_000) }, name)
            }
            ["child", id, status, ref rest @ ..] => self.child_end(id, status, rest),
            ["force-cancel", ..] => {
                Command::Request(Request::ForceCancel { reason: None }, origin(words))
            }
            ["reject"] => Command::Reject { holding: 3 },
            ["cancel", ..] => Command::Request(Request::Cancel { reason: None }, origin(words)),
            ["pause", ..] => {
                Command::Request(Request::Pause { now: false, reason: None }, origin(words))
            }
            ["pause-now", ..] => {
                Command::Request(Request::Pause { now: true, reason: None }, origin(words))
            }
            ["resume", ..] => Command::Request(Request::Resume { reason: None }, origin(words)),
            ["reopen", "budget", tokens, ..] => {
                let tokens = Some(tokens.parse().expect("a count of tokens"));
                let budget = Some(SpendingLimits { tokens, money: None });
                Command::Request(Request::Retry { reason: None, budget }, origin(words))
            }
            ["reopen", ..] => {
                Command::Request(Request::Retry { reason: None, budget: None }, origin(words))
            }
            ["unofferable", id] => {
                let failure = Failure::permanent("expression", "no such name");
                Command::Unofferable { node: node(id), attempt: self.attempt_of(id), failure }
            }
            ["far", worker, verb, id, ref rest @ ..] => {
                Command::Report(self.report_from_afar(worker, verb, id, rest))
            }
            [verb, id, ref rest @ ..] => Command::Report(self.report(verb, id, rest)),
            _ => panic!("{words:?} is not a command"),
        };
        self.send(command);
    }

    fn send(&mut self, command: Command) {
        self.refusal = self.run.command(command).err();
    }

    fn sent_signal(&self, id: &str, to: SignalTo, name: &str) -> Command {
        let (name, body) = (name.into(), Json::null());
        let launch = Ok(Launch::Signal(Box::new(SentSignal { to, name, body })));
        let node = self.run.state.find(self.run.plan, id).expect("a node");
        Command::Launch { node, attempt: self.attempt_of(id), launch }
    }

    /// The end of the child that a node has: `child n COMPLETED [output] [generation g] [of number]`.
    fn child_end(&self, id: &str, status: &str, rest: &[&str]) -> Command {
        let after = |word: &str| {
            let at = rest.iter().position(|found| *found == word);
            at.and_then(|at| rest.get(at + 1)?.parse::<u32>().ok())
        };
        let known = self.run.state.find(self.run.plan, id).and_then(|at| {
            let child = self.run.state.get(at)?.child.as_ref()?;
            Some(child.execution)
        });
        let number = after("of").map(|number| ExecutionNo(number.into())).or(known);
        let output = rest.first().and_then(|text| Json::parse(text).ok());
        let status = Status::parse(status).expect("a status");
        let failure = (status == Status::Failed).then(|| failure(&["broken"]));
        Command::ChildEnded(Box::new(ChildEnd {
            node: id.into(),
            child: number.unwrap_or(ExecutionNo(0)),
            generation: after("generation").unwrap_or(1),
            status,
            output: output.filter(|_| status == Status::Completed),
            failure,
        }))
    }

    fn attempt_of(&self, text: &str) -> u32 {
        match text.split_once('@') {
            Some((_, attempt)) => attempt.parse().expect("an attempt"),
            None => self.run.node(text).attempt,
        }
    }

    fn report(&self, verb: &str, who: &str, rest: &[&str]) -> Report {
        let (id, attempt) = match who.split_once('@') {
            Some((id, attempt)) => (id, Some(attempt.parse().expect("an attempt"))),
            None => (who, None),
        };
        if verb == "forge" {
            let (outcome, token) = (Outcome::Completed(Json::null()), Token(u128::MAX));
            return Report { token, ..self.run.report(id, attempt, outcome) };
        }
        let outcome = match verb {
            "block" => self.blocked(rest),
            verb => outcome(verb, rest),
        };
        if self.run.state.find(self.run.plan, id).is_none() {
            return Report { node: id.into(), attempt: 1, token: Token(0), worker: None, outcome };
        }
        self.run.report(id, attempt, outcome)
    }

    /// `block a 5s`: the breaker is open, for so long from now.
    fn blocked(&self, rest: &[&str]) -> Outcome {
        let until = self.run.now.plus(rest.first().map_or(Millis(0), |span| millis(span)));
        let (failures, period, last) = (3, Millis::from_secs(60), Some("http: 503".into()));
        let cause = BreakerCause::Open { until, failures, period, last };
        Outcome::Blocked(Box::new(BreakerHold { key: "k".into(), until, spread: Millis(1), cause }))
    }

    /// What a remote worker says, under a token of its own for each attempt.
    fn report_from_afar(&mut self, worker: &str, verb: &str, who: &str, rest: &[&str]) -> Report {
        let number: u128 = worker.parse().expect("workers have numbers");
        let (id, attempt) = (who.split('@').next().unwrap_or(who), self.attempt_of(who));
        let at = self.run.at(id);
        let token = Token((number << 64) | u128::from(at.node.0) << 32 | u128::from(attempt));
        self.run.deliveries.insert(token, (at, attempt));
        let worker = Some(WorkerId(Uuid::from_u128(number)));
        Report { node: id.into(), attempt, token, worker, outcome: outcome(verb, rest) }
    }

    /// Checks one expectation; `Err` says what was found instead.
    fn expect(&mut self, text: &str) -> Result<(), String> {
        let run = &*self.run;
        let words: Vec<&str> =
            split(text, &[' ']).into_iter().filter(|word| !word.is_empty()).collect();
        let same = |found: String, expected: &str| {
            if found == expected { Ok(()) } else { Err(found) }
        };
        match *words.as_slice() {
            // `refused stale`: the refusal says so.
            ["refused", ref part @ ..] => match self.refusal.take() {
                Some(refusal) if refusal.to_string().contains(&part.join(" ")) => Ok(()),
                Some(refusal) => Err(refusal.to_string()),
                None => Err("it was done".into()),
            },
            // `nothing`: neither events nor effects.
            ["nothing"] => match (&run.last.events[..], &run.last.effects[..]) {
                ([], []) => Ok(()),
                (events, effects) => Err(format!("{events:?} {effects:?}")),
            },
            // `runs a b`, `offers a`, `stops a`: exactly these effects, in this order.
            [verb @ ("runs" | "offers" | "stops" | "evaluates" | "launches"), ref ids @ ..] => {
                same(self.effects(verb), &ids.join(" "))
            }
            // `births 2`, `sends 1`, `reopens 1`: how many executions begin, get a message, begin again.
            ["births", number] => same(run.last.births.len().to_string(), number),
            ["sends", number] => same(run.last.sent.len().to_string(), number),
            // `publishes paid[7]`: the names of signals by key.
            ["publishes", ref names @ ..] => {
                let found: Vec<_> = run.last.published.iter().map(|it| &*it.name).collect();
                same(found.join(" "), &names.join(" "))
            }
            ["reopens", number] => same(run.last.reopened.len().to_string(), number),
            // `logs RunEnding NodeCancelled …`: exactly these events.
            ["logs", ref names @ ..] => {
                let found: Vec<_> = run.last.events.iter().map(Event::name).collect();
                same(found.join(" "), &names.join(" "))
            }
            // `reminds escalation reminder`: which of the two, in order.
            ["reminds", ref kinds @ ..] => {
                let kind = |event: &Event| match event {
                    Event::Node(NodeEvent::Reminded { escalated: true, .. }) => Some("escalation"),
                    Event::Node(NodeEvent::Reminded { .. }) => Some("reminder"),
                    _ => None,
                };
                let found: Vec<_> = run.last.events.iter().filter_map(kind).collect();
                same(found.join(" "), &kinds.join(" "))
            }
            // `execution RUNNING`, or one of the finer stands.
            ["execution", status] => same(run.state.phase().name().into(), status),
            ["paused", "waits"] => {
                same(format!("{:?}", run.state.paused), &some(PauseReason::Waits))
            }
            ["paused", "no"] => same(format!("{:?}", run.state.paused), "None"),
            // `output {…}`: of the execution.
            ["output", json] => {
                let end = run.state.end.as_ref().and_then(|end| end.output.as_ref());
                same_json(end, json)
            }
            // `failure timeout`: of the execution.
            ["failure", kind] => {
                let end = run.state.end.as_ref().and_then(|end| end.failure.as_ref());
                same(end.map_or("none".into(), |failure| failure.kind.to_string()), kind)
            }
            // `a is at 2`: which remote worker makes its attempt.
            [id, "is", "at", worker] => {
                let found = run.node(id).remote.map(|worker| worker.0.as_u128().to_string());
                same(found.unwrap_or_else(|| "nobody".into()), worker)
            }
            ["generation", number] => same(run.state.generation.to_string(), number),
            ["early", number] => same(run.state.early.len().to_string(), number),
            ["variables", json] => {
                let all =
                    serde_json::to_value(&**run.state.variables(ScopeNo::ROOT)).expect("JSON");
                same_json(Some(&Json::from_value(&all)), json)
            }
            // `due 5s`: the next thing that time does, from now.
            ["due", span] => {
                let due = run.state.next_due().map(|due| due.since(run.now));
                same(format!("{due:?}"), &format!("{:?}", due_in(span)))
            }
            // `spent 12`, `reserved 30`, `lost 15 of 1`: tokens, and of how many attempts; `cost 0.1`.
            ["spent", tokens] => same(run.state.spending.used.tokens().to_string(), tokens),
            ["cost", money] => same(run.state.spending.cost.to_string(), money),
            ["reserved", tokens] => same(run.state.spending.reserved.tokens.to_string(), tokens),
            ["lost", tokens, "of", attempts] => {
                let spending = &run.state.spending;
                let found = format!("{} of {}", spending.lost.tokens, spending.lost_attempts);
                same(found, &format!("{tokens} of {attempts}"))
            }
            // `why budget`: the first reason has this word in it.
            ["why", word] => {
                let reasons = why(run.plan, &run.state, None);
                let found = reasons.first().map(|reason| reason.what.clone()).unwrap_or_default();
                if found.contains(word) { Ok(()) } else { Err(found) }
            }
            [id, "gives", json] => same_json(run.node(id).output.as_ref(), json),
            [id, "failed", kind] => {
                let failure = run.node(id).failure.as_ref();
                same(failure.map_or("none".into(), |failure| failure.kind.to_string()), kind)
            }
            [id, "attempt", number] => same(run.node(id).attempt.to_string(), number),
            [id, "lost", number] => same(run.node(id).abandoned.to_string(), number),
            [id, "marked", json] => same_json(run.node(id).checkpoint.as_ref(), json),
            // `a+b RUNNING`: their status.
            [ids, status] => ids.split('+').try_for_each(|id| {
                let found = run.node(id).status.name();
                if found == status { Ok(()) } else { Err(format!("{id} {found}")) }
            }),
            _ => panic!("{text:?} is not an expectation"),
        }
    }

    fn effects(&self, verb: &str) -> String {
        let id = |at: &At| self.run.state.path(self.run.plan, *at).to_string();
        let named = |effect: &Effect| match (verb, effect) {
            ("runs", Effect::Run { node, .. })
            | ("offers", Effect::Offer { node, .. })
            | ("evaluates", Effect::Evaluate { node, .. })
            | ("launches", Effect::Launch { node, .. }) => Some(id(node)),
            ("stops", Effect::Cancel { token, .. }) => {
                let known = self.run.deliveries.get(token);
                Some(known.map_or("?".into(), |(node, _)| id(node)))
            }
            _ => None,
        };
        self.run.last.effects.iter().filter_map(named).collect::<Vec<_>>().join(" ")
    }

    fn summary(&self) -> String {
        let nodes = self.run.plan.nodes.iter().zip(&self.run.state.root.nodes);
        let nodes: Vec<_> =
            nodes.map(|(node, state)| format!("{} {}", node.id, state.status)).collect();
        format!("execution {}, {}", self.run.state.phase().name(), nodes.join(", "))
    }
}

/// What a node starts.
pub(crate) fn launch(number: u128) -> Result<Launch, Failure> {
    Ok(Launch::New(Box::new(new_child(number))))
}

/// The end of a node's child.
pub(crate) fn ended(run: &Run<'_>, id: &str) -> Command {
    let child = run.node(id).child.as_ref().expect("it has a child").execution;
    Command::ChildEnded(Box::new(ChildEnd {
        node: id.into(),
        child,
        generation: 1,
        status: Status::Completed,
        output: None,
        failure: None,
    }))
}

/// What a worker reports.
pub(crate) fn report_on(run: &Run<'_>, id: &str, verb: &str) -> Report {
    run.report(id, None, outcome(verb, &[]))
}

/// A child that no other has.
fn new_child(number: u128) -> NewChild {
    NewChild {
        execution: ExecutionNo(100 + i64::try_from(number).expect("few decisions")),
        key: ExecutionId(format!("exe_child_{number}").into()),
        callee: Callee {
            workflow: "child".into(),
            version: 1,
            definition: DefinitionHash::of(b"child"),
            input: Json::null(),
            timeout: None,
            requires: 1,
        },
    }
}

fn outcome(verb: &str, rest: &[&str]) -> Outcome {
    let json = || Json::parse(rest.first().unwrap_or(&"null")).expect("JSON");
    match verb {
        "start" => Outcome::Started,
        "complete" => Outcome::Completed(json()),
        "mark" => {
            let number = rest.get(1).map_or(0, |number| number.parse().expect("a number"));
            Outcome::Checkpoint(Mark { data: json(), number })
        }
        "fail" => Outcome::Failed(failure(rest)),
        "lose" => Outcome::Lost(Failure::transient("panic", "it panicked")),
        "give-back" => Outcome::Lost(Failure::handed_over("the worker was stopped in order")),
        "give-up" => Outcome::Lost(failure(rest)),
        "stopped" => Outcome::Cancelled,
        other => panic!("{other:?} is not a command"),
    }
}

fn some(reason: PauseReason) -> String {
    format!("{:?}", Some(reason))
}

fn due_in(span: &str) -> Option<waypost_core::time::Millis> {
    (span != "never").then(|| millis(span))
}

fn same_json(found: Option<&Json>, expected: &str) -> Result<(), String> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let found = found.map_or("null", Json::text);
    if parse(found) == parse(expected) { Ok(()) } else { Err(found.to_owned()) }
}

/// `fail a`, `fail a timeout`, `fail a http retry`, `fail a http retry after 3s`, `fail a connection
/// retry unsent`.
fn failure(words: &[&str]) -> Failure {
    let kind = words.first().map_or("broken", |kind| kind);
    let message = "it failed";
    let mut failure = match words.get(1) {
        Some(&"retry") => Failure::transient(kind.to_owned(), message),
        _ => Failure::permanent(kind.to_owned(), message),
    };
    failure.retry_after = words.get(3).map(|span| millis(span));
    failure.unsent = words.get(2) == Some(&"unsent");
    let status = words.iter().find_map(|word| word.strip_prefix("status="));
    failure.status = status.map(|status| status.parse().expect("a status"));
    let details = words.iter().find(|word| word.starts_with('{'));
    failure.details = details.map(|text| Json::parse(text).expect("details"));
    failure
}

fn tuning(words: &[&str]) -> Tuning {
    let held = words.contains(&"hold").then_some(true);
    Tuning {
        held: held.or(words.contains(&"release").then_some(false)),
        concurrency: words.iter().find_map(|word| word.parse().ok()),
    }
}

fn origin(words: &[&str]) -> Origin {
    let message = words.iter().find_map(|word| word.strip_prefix('#'));
    Origin { message: message.map(Into::into), actor: None }
}
