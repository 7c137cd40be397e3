//! Remote workers: they poll through any process, run the tasks they are given, die, fall silent
//! and come back, and report: late, twice, something else, and under tokens that are not theirs.
//!
//! A worker keeps a report until it is answered, and repeats it to another process. This module
//! checks the answers: a committed report is in the log, and stays committed when it is repeated; a
//! forged one is rejected.

mod checking;
mod polling;
mod saying;

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::command::{Mark, Outcome};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{Token, WorkerId};
use waypost_core::json::Json;
use waypost_engine::driver::{Look, TaskWork};
use waypost_engine::links::{CallbackLinks, Links};
use waypost_engine::sealed::Seal;
use waypost_engine::tokens::TokenIssuer;
use waypost_engine::{RemoteTask, RemoteTasks, WorkerPoll};
use waypost_ports::memory::MemoryTasks;
use waypost_ports::nudge::Alone;
use waypost_ports::tasks::WORKER_LEASE;

pub(super) use saying::WorkerMessage;

use super::blobs::AGAIN_MS;
use super::tasks::{outcome_of, starts};
use super::{Simulation, WorldEvent};
use crate::clock::{MachineClock, TrueTime};
use crate::fault::Fault;
use crate::process::{CLUSTER_KEY, Life};
use crate::program::Script;
use crate::random::Random;

/// Something that happens around remote workers.
pub enum FarEvent {
    /// An order of a driver reaches the store of tasks.
    Perform(Life, TaskWork),
    /// A worker polls.
    Poll(usize),
    /// A poll arrives that its worker has given up.
    LatePoll(WorkerPoll),
    /// A worker calls the outside world.
    Call(WorkerId, Token),
    /// Its attempt ends.
    End(WorkerId, Token, Outcome),
    /// It reports that.
    Say(WorkerMessage),
    /// It has waited for an answer for long.
    Patience(u64),
}

/// The remote workers, and where tasks wait for them.
pub(super) struct Far {
    tasks: MemoryTasks,
    random: Random,
    workers: Vec<SimWorker>,
    /// Numbers workers, and their reports.
    births: u128,
    sayings: u64,
    /// Reports without an answer.
    open: BTreeMap<u64, WorkerMessage>,
    /// The ends that were answered as committed.
    committed: BTreeMap<Token, Outcome>,
    /// The last report on every attempt, in case it is lost.
    ends: BTreeMap<Token, WorkerMessage>,
    /// Attempts that their workers reported as lost or cancelled.
    given_up: std::collections::BTreeSet<Token>,
    /// Do frames require the log format of the instance that wrote them?
    pub(super) upgraded: bool,
}

/// One worker. After its death another one takes its place.
struct SimWorker {
    id: WorkerId,
    tasks: BTreeMap<Token, Begun>,
    /// Until when it is not there.
    dead_until: u64,
    /// Until when it reaches no process.
    silent_until: u64,
}

/// A task in its hands.
#[derive(Clone)]
struct Begun {
    task: RemoteTask,
    /// Has it called the outside world?
    called: bool,
    /// Has it ended, and waits for the answer to its report?
    ended: bool,
}

impl Far {
    pub(super) fn new(seed: &Random, truth: &TrueTime) -> Self {
        let clock = Arc::new(MachineClock::new(truth.clone(), 0, 0));
        let mut random = seed.split("far");
        let upgraded = random.percent(50);
        Self {
            tasks: MemoryTasks::new(clock, CLUSTER_KEY),
            random,
            workers: Vec::new(),
            births: 0,
            sayings: 0,
            open: BTreeMap::new(),
            committed: BTreeMap::new(),
            ends: BTreeMap::new(),
            given_up: std::collections::BTreeSet::new(),
            upgraded,
        }
    }

    /// Ends every death and silence.
    pub(super) fn end_faults(&mut self) {
        for worker in &mut self.workers {
            (worker.dead_until, worker.silent_until) = (0, 0);
        }
    }

    /// Are there remote workers?
    pub(super) fn is_there(&self) -> bool {
        !self.workers.is_empty()
    }

    fn birth(&mut self) -> WorkerId {
        self.births += 1;
        WorkerId(Uuid::from_u128(0xfa << 96 | self.births))
    }

    fn worker(&mut self, id: WorkerId) -> Option<&mut SimWorker> {
        self.workers.iter_mut().find(|worker| worker.id == id)
    }

    /// Notes that a task has ended. It is in its worker's hands until its report was answered.
    fn end(&mut self, id: WorkerId, token: Token) -> Option<RemoteTask> {
        let begun = self.worker(id)?.tasks.get_mut(&token).filter(|begun| !begun.ended)?;
        begun.ended = true;
        Some(begun.task.clone())
    }

    /// A worker has nothing more to do with a task.
    fn drop_task(&mut self, id: WorkerId, token: Token) {
        if let Some(worker) = self.worker(id) {
            worker.tasks.remove(&token);
        }
    }
}

impl Simulation {
    /// Workers, where there is something for them to do.
    pub(super) fn build_far(&mut self) {
        let programs = self.people.programs();
        let wanted = programs.iter().any(|program| program.all().iter().any(|node| node.remote));
        let count = if wanted { self.far.random.between(1, 2) } else { 0 };
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let id = self.far.birth();
            let tasks = BTreeMap::new();
            self.far.workers.push(SimWorker { id, tasks, dead_until: 0, silent_until: 0 });
            let soon = self.far.random.below(2_000);
            self.after(soon, WorldEvent::Far(FarEvent::Poll(at)));
        }
    }

    fn far_perform(&mut self, life: Life, work: TaskWork) {
        match work {
            TaskWork::Offer(order) => {
                if self.reaches_tasks(life) && !self.store.strikes(Fault::OfferLost) {
                    drop(
                        self.remote_tasks(life).map(|remote_tasks| remote_tasks.offer(vec![order])),
                    );
                }
            }
            TaskWork::Withdraw(id) => {
                if self.reaches_tasks(life) {
                    drop(
                        self.remote_tasks(life)
                            .map(|remote_tasks| remote_tasks.tasks.withdraw(&[id])),
                    );
                }
            }
            TaskWork::Cancel(worker, token) => {
                if self.reaches_tasks(life) {
                    drop(
                        self.remote_tasks(life)
                            .map(|remote_tasks| remote_tasks.cancel(&[(worker, token)])),
                    );
                }
            }
            TaskWork::Look(look) => self.far_look(life, look),
        }
    }

    pub(super) fn far(&mut self, event: FarEvent) {
        match event {
            FarEvent::Perform(life, work) => self.far_perform(life, work),
            FarEvent::Poll(at) => self.far_poll(at),
            FarEvent::LatePoll(poll) => self.far_heard_late(&poll),
            FarEvent::Call(worker, token) => self.far_call(worker, token),
            FarEvent::End(worker, token, outcome) => self.far_end(worker, token, outcome),
            FarEvent::Say(said) => self.far_say(said),
            FarEvent::Patience(number) => {
                if let Some(said) = self.far.open.remove(&number) {
                    self.far_say(said);
                }
            }
        }
    }

    fn reaches_tasks(&self, life: Life) -> bool {
        self.happens(life) && !self.store.strikes(Fault::TasksFail)
    }

    fn remote_tasks(&self, life: Life) -> Option<RemoteTasks> {
        Some(RemoteTasks {
            tasks: Arc::new(self.far.tasks.clone()),
            nudges: Arc::new(Alone),
            issuer: TokenIssuer::new(&CLUSTER_KEY),
            seal: Seal::new(&CLUSTER_KEY),
            callbacks: CallbackLinks { links: Links::new(&CLUSTER_KEY), public_url: None },
            instance: self.instance_of(life)?,
        })
    }

    fn far_look(&mut self, life: Life, look: Look) {
        let Some(remote_tasks) = self.remote_tasks(life) else { return };
        let seen = match self.store.strikes(Fault::TasksFail) {
            true => waypost_engine::driver::Input::WorkersSeen {
                share: look.share,
                asked: look.held,
                seen: None,
                serving: Vec::new(),
            },
            false => remote_tasks.look(look),
        };
        self.reply(life, vec![seen]);
    }

    fn far_begin(&mut self, id: WorkerId, task: RemoteTask) {
        let (token, number) = (task.token, u64::try_from(task.number.0).unwrap_or(0));
        self.note("take", &[number], || {
            format!("{} takes x{number} {} #{}", short(id), task.node, task.attempt)
        });
        self.forge(&task);
        let once = task.at_most_once;
        let silent = !once && self.store.strikes(Fault::NoStart);
        let said = WorkerMessage::of(id, &task, Outcome::Started);
        if let Some(worker) = self.far.worker(id) {
            worker.tasks.insert(token, Begun { task, called: false, ended: false });
        }
        if !silent {
            // The response may have been lost.
            if self.store.strikes(Fault::DoubleReport) {
                let later = self.far.random.below(5_000);
                self.after(later, WorldEvent::Far(FarEvent::Say(said.clone())));
            }
            self.far_say(said);
        }
        // An attempt that may run only once starts when its start was answered as committed.
        if !once {
            let soon = self.far.random.below(50);
            self.after(soon, WorldEvent::Far(FarEvent::Call(id, token)));
        }
    }

    fn far_cancel(&mut self, id: WorkerId, token: Token) {
        if self.store.strikes(Fault::DeafWorker) {
            return;
        }
        if let Some(task) = self.far.end(id, token) {
            self.far_say(WorkerMessage::of(id, &task, Outcome::Cancelled));
        }
    }

    /// A worker runs its task: meanwhile it may die, record marks, and be cancelled.
    fn far_call(&mut self, id: WorkerId, token: Token) {
        let begun = self.far.worker(id).and_then(|worker| worker.tasks.get_mut(&token));
        let Some(Begun { task, called: called @ false, ended: false }) = begun else { return };
        *called = true;
        let task = task.clone();
        if self.far_forgets(id, token) {
            return;
        }
        if self.store.strikes(Fault::FarDeath) {
            return self.far_dies(id);
        }
        let input = task.input.to_value().ok();
        let field = |name| input.as_ref().and_then(|input| input.get(name)?.as_str());
        let (url, link) = (field("url"), field("callback"));
        let path = url.and_then(|url| url.strip_prefix(super::people::SINK_URL));
        let Some(script) = path.and_then(Script::parse) else {
            return self.fail("config", format!("{} calls {url:?}", task.node));
        };
        self.note("call", &[u64::try_from(task.number.0).unwrap_or(0)], || {
            format!("{} x{} {} #{} {script}", short(id), task.number.0, task.node, task.attempt)
        });
        let (execution, key) = (task.execution.to_string(), &task.idempotency_key);
        let reply = self.sink.call(&execution, &task.node, key, script);
        if let Some(token) = link.filter(|_| starts(reply.as_ref())) {
            self.start_operation(task.number, token);
        }
        if self.store.strikes(Fault::Checkpoints) {
            // Each by a way of its own, and one may be slower than the other.
            for number in 1..=2 {
                let data = serde_json::json!({ "mark": self.far.random.below(1_000) });
                let mark = Mark { data: Json::from_value(&data), number };
                self.far_say(WorkerMessage::of(id, &task, Outcome::Checkpoint(mark)));
            }
        }
        if self.store.strikes(Fault::EffectWithoutReply) {
            return self.far_dies(id);
        }
        let timeout = task.timeout.map_or(60_000, |timeout| timeout.0);
        let (outcome, later) = match reply {
            Some(reply) if self.store.strikes(Fault::LateReport) => {
                let most = timeout.saturating_sub(100).clamp(1, 40_000);
                (outcome_of(&reply), self.far.random.below(most))
            }
            Some(reply) => (outcome_of(&reply), self.far.random.below(100)),
            None => {
                let message = "the attempt took too long";
                (Outcome::Failed(Failure::transient(kind::TIMEOUT, message)), timeout)
            }
        };
        self.after(later, WorldEvent::Far(FarEvent::End(id, token, outcome)));
    }

    fn far_end(&mut self, id: WorkerId, token: Token, outcome: Outcome) {
        if self.far_forgets(id, token) {
            return;
        }
        let Some(outcome) = self.keep_outcome(None, &outcome) else {
            return self.after(AGAIN_MS, WorldEvent::Far(FarEvent::End(id, token, outcome)));
        };
        let Some(task) = self.far.end(id, token) else { return };
        let outcome = match self.store.strikes(Fault::WorkerDeath) {
            true => Outcome::Lost(Failure::transient(kind::PANIC, "the worker died")),
            false => outcome,
        };
        self.far_say(WorkerMessage::of(id, &task, outcome.clone()));
        if self.store.strikes(Fault::DoubleReport) {
            let later = self.far.random.below(20_000);
            let again = WorkerMessage::of(id, &task, outcome);
            self.after(later, WorldEvent::Far(FarEvent::Say(again)));
        }
    }

    fn far_dies(&mut self, id: WorkerId) {
        let until = self.ms() + self.far.random.below(2 * WORKER_LEASE.0);
        let next = self.far.birth();
        self.note("far death", &[], || format!("{} until {until}", short(id)));
        if let Some(worker) = self.far.worker(id) {
            let (tasks, silent_until) = (BTreeMap::new(), worker.silent_until);
            *worker = SimWorker { id: next, tasks, dead_until: until, silent_until };
        }
    }

    /// Something may go wrong with remote workers, and with where their tasks wait.
    pub(super) fn shake_far(&mut self) {
        if self.far.workers.is_empty() {
            return;
        }
        if self.store.strikes(Fault::TasksLost) {
            self.note("tasks lost", &[], String::new);
            self.far.tasks.lose_everything();
        }
        let at = self.far.random.index(self.far.workers.len());
        if self.store.strikes(Fault::FarSilence) {
            let until = self.ms() + self.far.random.between(1_000, 3 * WORKER_LEASE.0);
            let id = self.far.workers[at].id;
            self.note("silence", &[until], || format!("{} until {until}", short(id)));
            self.far.workers[at].silent_until = until;
        }
        if self.store.strikes(Fault::FarDeath) {
            self.far_dies(self.far.workers[at].id);
        }
    }
}

fn short(id: WorkerId) -> String {
    format!("w{}", id.0.as_u128() & 0xffff)
}
