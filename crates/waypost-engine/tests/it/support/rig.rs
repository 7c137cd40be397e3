//! A driver in the hands of a test. Outputs wait until the test performs them, so that the test
//! chooses the order of everything; `settle` performs all there is.
//!
//! Each step checks what must hold at any time: one append in flight per execution, no more tasks
//! than slots, and no wish to be woken in the past (which would be a busy loop).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::command::{Outcome, Report};
use waypost_core::event::{Event, LOG_FORMAT, Origin, RunEvent};
use waypost_core::expr::Wanted;
use waypost_core::flow;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::time::{Now, Timestamp};
use waypost_engine::config::Config;
use waypost_engine::driver::{
    Answer, Committed, ControlRequest, Drivers, Input, Look, OfferOrder, Output, Start,
    StartRequest, StoreWork, TaskOrder, TaskReport, TaskWork, Ticket,
};
use waypost_engine::tokens::{self, TokenIssuer};
use waypost_engine::{Plans, StoreCalls, TreeCounts};
use waypost_ports::mirror::Context;
use waypost_ports::store::{About, Append, Appended, Heartbeat, LEASE, Share, Store};
use waypost_ports::tasks::{Holds, OfferId};

use super::World;

/// The token issuer of every driver in a test.
pub(crate) fn issuer() -> TokenIssuer {
    TokenIssuer::new(&[7; 32])
}

/// The token that a worker is given for an attempt.
pub(crate) fn token_of(world: &World, worker: u128, of: (ExecutionNo, &str, u32)) -> Token {
    let random = u64::try_from(worker).expect("workers of a test have small numbers");
    let (execution, path, attempt) = of;
    let created = world.events(execution).into_iter().next();
    let key = match created {
        Some(Event::Run(RunEvent::Created(created))) => created.key,
        _ => ExecutionId("exe_unknown".into()),
    };
    issuer().issue(&tokens::AttemptRef { execution: &key, path, attempt }, random)
}

pub(crate) struct Rig<'w> {
    pub(crate) world: &'w World,
    pub(crate) driver: Drivers,
    pub(crate) config: Config,
    pub(crate) instance: InstanceId,
    /// What the next step takes in.
    pub(crate) inputs: Vec<Input>,
    /// What waits for the store, in order.
    pub(crate) work: VecDeque<StoreWork>,
    /// Tasks that were handed out and have not reported.
    pub(crate) tasks: Vec<TaskOrder>,
    /// All tasks that were handed out and have not reported, also those that a test took.
    running: HashSet<Token>,
    pub(crate) cancelled: Vec<Token>,
    /// Offers to remote workers, in order.
    pub(crate) offers: Vec<OfferOrder>,
    pub(crate) withdrawn: Vec<OfferId>,
    pub(crate) cancelled_remote: Vec<(WorkerId, Token)>,
    /// Looks at workers that were not answered.
    pub(crate) looks: VecDeque<Look>,
    pub(crate) answers: HashMap<Ticket, Answer>,
    pub(crate) committed: Vec<Committed>,
    /// Contents that were asked for.
    pub(crate) fetches: Vec<(ExecutionNo, Wanted)>,
    /// What a mirror was given to keep, and to forget.
    pub(crate) kept: Vec<Context>,
    pub(crate) forgotten: Vec<ExecutionId>,
    /// By how much the earliest time that it may be, for all that is known, is behind the store's.
    pub(crate) behind: u64,
    /// How often the driver asked for its lease to be renewed.
    pub(crate) renewals: u32,
    tickets: u64,
    trees: Arc<TreeCounts>,
}

impl<'w> Rig<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self::with(world, |_| {})
    }

    /// A new instance over the world's store.
    pub(crate) fn with(world: &'w World, adjust: impl FnOnce(&mut Config)) -> Self {
        let mut config =
            Config { slots: 4, io_slots: 4, id_block_size: 100, drivers: 1, ..Config::default() };
        adjust(&mut config);
        let instance = world.new_instance();
        let driver = Drivers::new(&config, instance, instance.0.as_u128(), &issuer());
        let mut rig = Self {
            world,
            driver,
            config,
            instance,
            inputs: Vec::new(),
            work: VecDeque::new(),
            tasks: Vec::new(),
            running: HashSet::new(),
            cancelled: Vec::new(),
            offers: Vec::new(),
            withdrawn: Vec::new(),
            cancelled_remote: Vec::new(),
            looks: VecDeque::new(),
            answers: HashMap::new(),
            committed: Vec::new(),
            fetches: Vec::new(),
            kept: Vec::new(),
            forgotten: Vec::new(),
            behind: 0,
            renewals: 0,
            tickets: 0,
            trees: Arc::default(),
        };
        rig.reserve_numbers();
        rig
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// A submission, as it goes in.
    pub(crate) fn submission(&mut self, plan: &Arc<Plan>) -> Start {
        let input = Json::parse(r#"{"yes":true}"#).unwrap();
        let request = StartRequest::new(Arc::clone(plan), 1, input);
        Start { request, ticket: self.ticket(), await_end: None }
    }

    pub(crate) fn submit(&mut self, plan: &Arc<Plan>) -> Ticket {
        let start = self.submission(plan);
        let ticket = start.ticket;
        self.inputs.push(Input::Start(start));
        ticket
    }

    /// Submits, commits the first frame and gives the execution's number.
    pub(crate) fn start(&mut self, flow: &str) -> ExecutionNo {
        let plan = self.world.flow(flow);
        let ticket = self.submit(&plan);
        self.step();
        self.perform_appends();
        self.step();
        self.started(ticket)
    }

    pub(crate) fn started(&self, ticket: Ticket) -> ExecutionNo {
        match self.answers.get(&ticket) {
            Some(Answer::Started { execution, .. }) => *execution,
            other => panic!("not started: {other:?}"),
        }
    }

    pub(crate) fn request(&mut self, execution: ExecutionNo, body: Request) -> Ticket {
        self.ask(ControlRequest::new(execution, body))
    }

    /// The same, under an id that the sender chose.
    pub(crate) fn send(&mut self, execution: ExecutionNo, body: Request, message: &str) -> Ticket {
        let origin = Origin { message: Some(message.into()), actor: None };
        self.ask(ControlRequest { origin, ..ControlRequest::new(execution, body) })
    }

    fn ask(&mut self, request: ControlRequest) -> Ticket {
        let ticket = self.ticket();
        self.inputs.push(Input::Request { request, ticket });
        ticket
    }

    pub(crate) fn await_end(&mut self, execution: ExecutionNo) -> Ticket {
        let ticket = self.ticket();
        self.inputs.push(Input::AwaitEnd { execution, ticket });
        ticket
    }

    pub(crate) fn answer(&self, ticket: Ticket) -> Option<&Answer> {
        self.answers.get(&ticket)
    }

    fn least_now(&self) -> Timestamp {
        Timestamp(self.world.now().0 - i64::try_from(self.behind).unwrap())
    }

    /// One step of the driver at the world's time.
    pub(crate) fn step(&mut self) {
        let mut outputs = Vec::new();
        let now = Now { least: self.least_now(), most: self.world.now() };
        self.driver.step(now, &mut self.inputs, &mut outputs);
        for output in outputs {
            self.sort(output);
        }
        self.check_step();
    }

    fn sort(&mut self, output: Output) {
        match output {
            Output::Store(work) => self.work.push_back(work),
            Output::Tasks(TaskWork::Offer(order)) => self.offers.push(order),
            Output::Tasks(TaskWork::Withdraw(id)) => self.withdrawn.push(id),
            Output::Tasks(TaskWork::Cancel(worker, token)) => {
                self.cancelled_remote.push((worker, token));
            }
            Output::Tasks(TaskWork::Look(look)) => self.looks.push_back(look),
            Output::Run(order) => {
                self.running.insert(order.task.token);
                self.tasks.push(order);
            }
            Output::Cancel(token) => self.cancelled.push(token),
            Output::Fetch { execution, wanted } => self.fetches.push((execution, wanted)),
            Output::Answer(ticket, answer) => {
                let before = self.answers.insert(ticket, answer);
                assert!(before.is_none(), "{ticket:?} was answered twice");
            }
            Output::Renew => {
                self.renewals += 1;
                self.renew();
            }
            Output::Committed(committed) => self.committed.push(committed),
            Output::Forward { .. } => unreachable!("it is done in the same step"),
            Output::Keep(context) => self.kept.push(*context),
            Output::Forget(key) => self.forgotten.push(key),
        }
    }

    fn check_step(&self) {
        let mut in_flight: Vec<_> = self.appends().map(|append| append.header.execution).collect();
        let all = in_flight.len();
        in_flight.sort_unstable();
        in_flight.dedup();
        assert_eq!(in_flight.len(), all, "two appends of one execution are in flight");
        let (slots, busy) = (&self.config, self.driver.slots_busy());
        assert!(busy.work <= slots.slots && busy.io <= slots.io_slots, "too many: {busy:?}");
        let all = usize::try_from(slots.slots + slots.io_slots).unwrap();
        assert!(self.tasks.len() <= all, "{} tasks in {all} slots", self.tasks.len());
        let (now, wake) = (self.least_now(), self.driver.next_wake());
        assert!(wake > now, "a busy loop: it is {now} and the driver wants to wake at {wake}");
    }

    pub(crate) fn appends(&self) -> impl Iterator<Item = &Append> {
        self.work.iter().filter_map(|work| match work {
            StoreWork::Append(append) => Some(append),
            _ => None,
        })
    }

    /// Does one piece of work for the store; its answer is an input of the next step.
    pub(crate) fn perform(&mut self, work: StoreWork) {
        if let StoreWork::Append(append) = work {
            let appended = self.world.append(&append);
            return self.answer_append(&append, appended);
        }
        let performed = self.store_calls().perform(work);
        assert!(performed.again.is_empty(), "the store answers");
        self.inputs.extend(performed.inputs);
    }

    /// A claim that gave nothing: nothing was there, or the store did not answer.
    pub(crate) fn answer_claim(&mut self, answered: bool) {
        self.inputs.push(Input::Claimed {
            share: Share::ALL,
            loaded: Vec::new(),
            copied: 0,
            more: false,
            next_due: None,
            at: self.world.now(),
            answered,
        });
    }

    /// The store calls of this instance.
    pub(crate) fn store_calls(&self) -> StoreCalls {
        StoreCalls {
            about: waypost_ports::store::About::default(),
            running: Arc::default(),
            store: Arc::new(self.world.store.clone()),
            plans: Arc::new(Plans::new(Box::new(flow::compile))),
            config: self.config.clone(),
            instance: self.instance,
            issuer: issuer(),
            nudges: Arc::new(waypost_ports::nudge::Alone),
            trees: Arc::clone(&self.trees),
        }
    }

    fn reserve_numbers(&mut self) {
        let renewal = self.heartbeat(self.config.numbers_wanted());
        self.inputs.push(Input::Numbers(renewal));
    }

    /// Renews this instance's lease.
    pub(crate) fn renew(&self) {
        self.heartbeat(0);
    }

    fn heartbeat(&self, numbers: u32) -> std::ops::Range<i64> {
        let heartbeat = Heartbeat {
            instance: self.instance,
            numbers,
            fold: LOG_FORMAT,
            lease: Some(LEASE),
            about: About::default(),
        };
        self.world.store.heartbeat(&heartbeat).unwrap().numbers
    }

    /// Says goodbye, as a process that stops in good order does.
    pub(crate) fn leave(&self) {
        let heartbeat = Heartbeat {
            instance: self.instance,
            numbers: 0,
            fold: LOG_FORMAT,
            lease: None,
            about: About::default(),
        };
        self.world.store.heartbeat(&heartbeat).unwrap();
    }

    /// Performs the appends that wait and leaves everything else.
    pub(crate) fn perform_appends(&mut self) {
        for work in std::mem::take(&mut self.work) {
            match work {
                StoreWork::Append(_) => self.perform(work),
                other => self.work.push_back(other),
            }
        }
    }

    /// The same, and leaves those that change a control row, too.
    pub(crate) fn perform_appends_but_parks(&mut self) {
        for work in std::mem::take(&mut self.work) {
            match &work {
                StoreWork::Append(append) if append.side.control.is_none() => self.perform(work),
                _ => self.work.push_back(work),
            }
        }
    }

    /// Performs everything that waits for the store.
    pub(crate) fn perform_all(&mut self) {
        while let Some(work) = self.work.pop_front() {
            self.perform(work);
        }
    }

    /// Takes the only append that waits out of the queue.
    pub(crate) fn take_append(&mut self) -> Append {
        let at = self.work.iter().position(|work| matches!(work, StoreWork::Append(_)));
        match self.work.remove(at.expect("an append waits")) {
            Some(StoreWork::Append(append)) => append,
            _ => unreachable!("it was found there"),
        }
    }

    /// Answers an append without performing it.
    pub(crate) fn answer_append(&mut self, append: &Append, appended: Appended) {
        self.inputs.push(Input::Appended(vec![(append.header.execution, appended)]));
    }

    /// Runs a task's handler and reports.
    pub(crate) fn finish(&mut self, order: &TaskOrder) {
        let outcome = match self.cancelled.contains(&order.task.token) {
            true => Outcome::Cancelled,
            false => self.world.call(order, self.instance),
        };
        self.report(order, outcome);
    }

    pub(crate) fn report(&mut self, order: &TaskOrder, outcome: Outcome) {
        let task = &order.task;
        let report = Report {
            node: Arc::clone(&task.path),
            attempt: task.attempt,
            token: task.token,
            worker: None,
            outcome,
        };
        let execution = order.execution;
        self.tasks.retain(|other| other.task.token != task.token);
        self.running.remove(&task.token);
        self.inputs.push(Input::Report { execution, report, token_free: true });
    }

    /// What a remote worker says of an attempt, under the token that it was given.
    pub(crate) fn say(
        &mut self,
        worker: u128,
        (execution, node, attempt): (ExecutionNo, &str, u32),
        outcome: Outcome,
    ) -> Ticket {
        let token = token_of(self.world, worker, (execution, node, attempt));
        let (key, node, worker) = (None, node.into(), WorkerId(Uuid::from_u128(worker)));
        self.say_as(TaskReport { execution, key, node, attempt, token, worker, outcome })
    }

    pub(crate) fn say_as(&mut self, report: TaskReport) -> Ticket {
        let ticket = self.ticket();
        self.inputs.push(Input::TaskReport { report, ticket, only_here: false });
        ticket
    }

    /// Answers the only look at the workers.
    pub(crate) fn see(&mut self, alive: Option<&[u128]>, serving: &[&str]) {
        assert_eq!(self.looks.len(), 1, "one look at a time");
        let Look { share, held: asked, .. } = self.looks.remove(0).expect("there is one");
        let holds = |(worker, _): &(WorkerId, Token), alive: &[u128]| {
            if alive.contains(&worker.0.as_u128()) { Holds::Unsaid } else { Holds::Gone }
        };
        let seen = alive.map(|alive| asked.iter().map(|one| holds(one, alive)).collect());
        let serving = serving.iter().map(|handler| Arc::from(*handler)).collect();
        self.inputs.push(Input::WorkersSeen { share, asked, seen, serving });
        self.step();
    }

    /// Answers the only look at the workers: the same of all that is asked about.
    pub(crate) fn see_all(&mut self, holds: Holds) {
        assert_eq!(self.looks.len(), 1, "one look at a time");
        let Look { share, held: asked, .. } = self.looks.remove(0).expect("there is one");
        let seen = Some(vec![holds; asked.len()]);
        self.inputs.push(Input::WorkersSeen { share, asked, seen, serving: Vec::new() });
        self.step();
    }

    /// Takes the task of a node.
    pub(crate) fn take_task(&mut self, node: &str) -> TaskOrder {
        let at = self.tasks.iter().position(|order| &*order.task.path == node);
        self.tasks.remove(at.unwrap_or_else(|| panic!("{node} does not run")))
    }

    pub(crate) fn running(&self) -> Vec<&str> {
        self.tasks.iter().map(|order| &*order.task.path).collect()
    }

    /// Runs every task that waits.
    pub(crate) fn finish_all(&mut self) {
        for order in std::mem::take(&mut self.tasks) {
            self.finish(&order);
        }
    }

    /// Does everything there is to do without time passing.
    pub(crate) fn settle(&mut self) {
        self.step();
        while !self.work.is_empty() || !self.tasks.is_empty() || !self.inputs.is_empty() {
            self.perform_all();
            self.finish_all();
            self.step();
        }
    }

    /// The same, but tasks are left to the test.
    pub(crate) fn settle_store(&mut self) {
        self.step();
        while !self.work.is_empty() || !self.inputs.is_empty() {
            self.perform_all();
            self.step();
        }
    }

    /// Lets time pass until everything has ended, renewing the lease meanwhile.
    pub(crate) fn run_to_end(&mut self) {
        for _ in 0..2_000 {
            self.settle();
            let Some(open) = self.world.first_open() else {
                let busy = self.driver.slots_busy();
                let busy = usize::try_from(busy.work + busy.io).unwrap();
                assert_eq!(busy, self.running.len(), "only attempts that run have a slot");
                return;
            };
            let wake = self.driver.next_wake();
            assert_ne!(wake, Timestamp(i64::MAX), "nothing will ever wake {open}");
            self.world.clock.set(wake);
            self.renew();
        }
        let world = self.world;
        if let Some(open) = world.first_open() {
            panic!("{open} does not end: {:?} {:?}", world.names(open), world.control(open));
        }
    }
}
