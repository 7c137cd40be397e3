//! Reports that go straight to the owner of their execution, and what may happen to them on the way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::unbounded_channel;
use uuid::Uuid;
use waypost_core::command::{Outcome, Refusal, Request};
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{Engine, EngineError, RemoteTask, Reported, TaskReport};
use waypost_ports::mirror::{Context, Health, Mirror, Presence};
use waypost_ports::relay::{OnMail, Relay, RelayAnswer, Relayed};
use waypost_ports::store::{Mail, StoreError};

use super::remote::{LONG, done, one, report};
use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

/// What a switchboard does with mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Habit {
    #[default]
    Carries,
    /// Nothing arrives.
    Loses,
    /// It arrives, and its sender gets no answer.
    LosesAnswers,
    /// It arrives twice.
    Doubles,
    /// It arrives when the test says so; its sender does not wait for that.
    Delays,
    /// It arrives when the test opens the gate, and its sender waits for that.
    Waits,
}

/// The relay and the mirror between the engines of a lab.
#[derive(Default)]
struct Switchboard {
    habit: Mutex<Habit>,
    listeners: Mutex<HashMap<InstanceId, OnMail>>,
    owners: Mutex<HashMap<ExecutionId, InstanceId>>,
    delayed: Mutex<Vec<(InstanceId, Mail)>>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Switchboard {
    /// Hands mail to an instance and waits for its answer. `None` without a listener.
    fn hand_over(&self, to: InstanceId, mail: Mail) -> Option<Relayed> {
        let hear = self.listeners.lock().get(&to).cloned()?;
        let (answer, answered) = sync_channel(1);
        hear(mail, RelayAnswer::new(move |relayed| answer.send(relayed).unwrap()));
        answered.recv().ok()
    }
}

impl Relay for Switchboard {
    fn send(&self, to: InstanceId, mail: Mail) -> Result<Relayed, StoreError> {
        let habit = *self.habit.lock();
        let answer = match habit {
            Habit::Loses => None,
            Habit::Carries => self.hand_over(to, mail),
            Habit::LosesAnswers => {
                self.hand_over(to, mail);
                return Err(StoreError::Unavailable("the answer is lost".to_owned()));
            }
            Habit::Doubles => {
                let first = self.hand_over(to, mail.clone());
                assert_eq!(self.hand_over(to, mail), first, "answered as the first time");
                first
            }
            Habit::Delays => {
                self.delayed.lock().push((to, mail));
                None
            }
            Habit::Waits => {
                self.opened.wait_while(&mut self.open.lock(), |open| !*open);
                self.hand_over(to, mail)
            }
        };
        Ok(answer.unwrap_or(Relayed::Unknown))
    }

    fn listen(&self, instance: InstanceId, hear: OnMail) {
        self.listeners.lock().insert(instance, hear);
    }
}

impl Mirror for Switchboard {
    fn alive(&self, _: &Presence) {}

    fn owned(&self, instance: InstanceId, executions: &[ExecutionId]) {
        self.owners.lock().extend(executions.iter().map(|key| (key.clone(), instance)));
    }

    fn released(&self, _: InstanceId, executions: &[ExecutionId]) {
        self.owners.lock().retain(|key, _| !executions.contains(key));
    }

    fn owner(&self, execution: &ExecutionId) -> Option<InstanceId> {
        self.owners.lock().get(execution).copied()
    }

    fn keep(&self, _: Vec<Context>) {}

    fn forget(&self, _: &[ExecutionId]) {}

    fn contexts(&self, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>> {
        vec![None; executions.len()]
    }

    fn health(&self) -> Health {
        Health::Up
    }
}

/// Two engines over one store: one owns, the other is talked to.
struct Pair {
    lab: Lab,
    board: Arc<Switchboard>,
    owner: Engine,
    other: Engine,
}

impl Pair {
    fn new(habit: Habit) -> Self {
        let lab = Lab::new();
        let board = Arc::new(Switchboard::default());
        *board.habit.lock() = habit;
        let [owner, other] = [(), ()].map(|()| engine(&lab, &board));
        Self { lab, board, owner, other }
    }

    /// A task of the owner's in the hands of a worker of the other.
    async fn task(&self) -> RemoteTask {
        self.lab.start(&self.owner, "a = worker").await;
        one(&self.other).await
    }

    async fn say(&self, task: &RemoteTask, outcome: Outcome) -> Reported {
        self.other.report(report(task, outcome)).await.unwrap()
    }

    /// How often the other was answered so.
    fn relayed(&self, outcome: &str) -> u64 {
        self.other.metrics().reports_relayed_total.get(outcome)
    }

    fn mail(&self) -> Vec<Mail> {
        self.lab.store.inner.with(|tables, _| tables.mail())
    }

    /// Lets the owner look into its inbox, and waits for what follows.
    async fn collects(&self, execution: ExecutionNo, event: &str) {
        self.lab.pass(&self.owner, 1_000);
        self.lab.event(execution, event).await;
    }

    async fn end(self) {
        self.owner.stop(LONG).await;
        self.other.stop(LONG).await;
    }
}

fn engine(lab: &Lab, board: &Arc<Switchboard>) -> Engine {
    lab.engine_with(|parts| {
        parts.relay = Some(Arc::clone(board) as Arc<dyn Relay>);
        parts.mirror = Arc::clone(board) as Arc<dyn Mirror>;
        parts.config.contexts = true;
    })
}

#[tokio::test]
async fn a_report_goes_straight_to_the_owner_and_leaves_no_mail() {
    let pair = Pair::new(Habit::Carries);
    // Whatever went through the inbox would not be answered.
    let away = Fault::Fails(StoreError::Unavailable("away".to_owned()));
    pair.lab.store.break_calls(&[Call::Deliver], &away);
    let task = pair.task().await;
    for outcome in [Outcome::Started, Outcome::Checkpoint(Json::null().into()), done()] {
        assert_eq!(pair.say(&task, outcome).await, Reported::Committed);
    }
    assert_eq!(pair.relayed("committed"), 3);
    assert_eq!(pair.lab.count("NodeCompleted"), 1);
    let end = pair.owner.ended(task.number).await.unwrap();
    assert_eq!(end.status, Status::Completed);
    pair.end().await;
}

#[tokio::test]
async fn report_at_the_owner_is_not_relayed() {
    let pair = Pair::new(Habit::Loses);
    let task = pair.task().await;
    let reported = pair.owner.report(report(&task, Outcome::Started)).await.unwrap();
    assert_eq!(reported, Reported::Committed);
    assert_eq!(pair.owner.metrics().reports_relayed_total.get("unanswered"), 0);
    pair.end().await;
}

#[tokio::test]
async fn a_relay_that_loses_everything_leaves_it_to_the_inbox() {
    let pair = Pair::new(Habit::Loses);
    let task = pair.task().await;
    for (outcome, event) in [(Outcome::Started, "NodeStarted"), (done(), "NodeCompleted")] {
        assert_eq!(pair.say(&task, outcome).await, Reported::Accepted);
        assert_eq!(pair.mail().len(), 1);
        pair.collects(task.number, event).await;
    }
    assert_eq!((pair.relayed("committed"), pair.relayed("unanswered")), (0, 2));
    pair.end().await;
}

#[tokio::test]
async fn report_relayed_twice_is_recorded_once() {
    for habit in [Habit::Doubles, Habit::LosesAnswers] {
        let pair = Pair::new(habit);
        let task = pair.task().await;
        // Where the answer was lost, the log says that it was taken.
        for outcome in [Outcome::Started, done()] {
            assert_eq!(pair.say(&task, outcome).await, Reported::Committed, "{habit:?}");
        }
        assert_eq!(pair.mail(), [], "{habit:?}");
        let counts = ["NodeStarted", "NodeCompleted", "RunCompleted"].map(|e| pair.lab.count(e));
        assert_eq!(counts, [1; 3], "{habit:?}");
        pair.end().await;
    }
}

#[tokio::test]
async fn relayed_report_after_its_mail_changes_nothing() {
    let pair = Pair::new(Habit::Delays);
    // The first of two tasks, so that the execution goes on.
    pair.lab.start(&pair.owner, "a = worker; b = worker needs a").await;
    let task = one(&pair.other).await;
    for (outcome, event) in [(Outcome::Started, "NodeStarted"), (done(), "NodeCompleted")] {
        assert_eq!(pair.say(&task, outcome).await, Reported::Accepted);
        let (to, late) = pair.board.delayed.lock().pop().unwrap();
        assert_eq!(pair.mail(), std::slice::from_ref(&late), "the same message by both ways");
        pair.collects(task.number, event).await;
        // Once more while the execution goes on: known, and so committed.
        let board = Arc::clone(&pair.board);
        let again = tokio::task::spawn_blocking(move || board.hand_over(to, late));
        assert_eq!(again.await.unwrap(), Some(Relayed::Committed));
    }
    let counts = ["NodeStarted", "NodeCompleted"].map(|event| pair.lab.count(event));
    assert_eq!(counts, [1; 2]);
    pair.end().await;
}

/// An instance that does not own it refuses at once, and does not put it into the inbox in its turn.
#[tokio::test]
async fn where_the_mirror_is_wrong_the_inbox_takes_it() {
    let pair = Pair::new(Habit::Carries);
    let [idle, stopped] = [(), ()].map(|()| engine(&pair.lab, &pair.board));
    stopped.stop(LONG).await;
    let gone = InstanceId(Uuid::from_u128(1));
    for (shown, outcome) in [
        (Some(idle.instance()), Some("refused")),
        (Some(stopped.instance()), Some("refused")),
        (Some(gone), Some("unanswered")),
        (Some(pair.other.instance()), None),
        (None, None),
    ] {
        let task = pair.task().await;
        let before = outcome.map(|outcome| pair.relayed(outcome));
        pair.board.owners.lock().remove(&task.execution);
        pair.board.owners.lock().extend(shown.map(|shown| (task.execution.clone(), shown)));
        assert_eq!(pair.say(&task, Outcome::Started).await, Reported::Accepted, "{outcome:?}");
        let after = outcome.map(|outcome| pair.relayed(outcome));
        assert_eq!(after, before.map(|before| before + 1), "{outcome:?}");
        assert_eq!(pair.mail().len(), 1, "{outcome:?}");
        pair.collects(task.number, "NodeStarted").await;
    }
    assert_eq!(pair.relayed("committed"), 0);
    idle.stop(LONG).await;
    pair.end().await;
}

#[tokio::test]
async fn stopping_owner_refuses_relayed_reports() {
    let pair = Pair::new(Habit::Carries);
    let task = pair.task().await;
    pair.owner.stop(LONG).await;
    // It has no owner any more; the next one finds the report in the inbox.
    let reported = pair.say(&task, Outcome::Started).await;
    assert!(matches!(reported, Reported::Accepted | Reported::Committed));
    assert_eq!(pair.relayed("committed"), 0);
    pair.lab.pass(&pair.other, 1_000);
    pair.lab.event(task.number, "NodeStarted").await;
    assert_eq!(pair.say(&task, done()).await, Reported::Committed, "it is owned here now");
    pair.end().await;
}

#[tokio::test]
async fn nothing_is_answered_before_it_is_committed() {
    let pair = Pair::new(Habit::Carries);
    let task = pair.task().await;
    let away = Fault::Fails(StoreError::Unavailable("away".to_owned()));
    pair.lab.store.break_calls(&[Call::Append], &away);
    let (answered, mut answers) = unbounded_channel();
    let saying = async {
        answered.send(pair.say(&task, Outcome::Started).await).unwrap();
    };
    let failing = async {
        pair.lab.store.failures(3).await;
        assert!(answers.try_recv().is_err(), "three tries to commit it have failed");
        assert_eq!((pair.relayed("committed"), pair.lab.count("NodeStarted")), (0, 0));
        pair.lab.store.heal();
    };
    tokio::join!(saying, failing);
    assert_eq!(answers.recv().await, Some(Reported::Committed));
    assert_eq!((pair.relayed("committed"), pair.lab.count("NodeStarted")), (1, 1));
    pair.end().await;
}

/// Each that is on its way has a thread that waits, so there is an end to them.
#[tokio::test]
async fn report_without_a_relay_place_goes_through_the_inbox() {
    let pair = Pair::new(Habit::Waits);
    let task = pair.task().await;
    let mut reports: FuturesUnordered<_> =
        (0..133).map(|_| pair.say(&task, Outcome::Started)).collect();
    for _ in 0..5 {
        assert_eq!(reports.next().await, Some(Reported::Accepted));
    }
    assert_eq!(pair.mail().len(), 1, "the same message");
    *pair.board.open.lock() = true;
    pair.board.opened.notify_all();
    while let Some(reported) = reports.next().await {
        assert_eq!(reported, Reported::Committed);
    }
    drop(reports);
    assert_eq!((pair.relayed("committed"), pair.lab.count("NodeStarted")), (128, 1));
    pair.end().await;
}

#[tokio::test]
async fn relayed_report_with_a_foreign_token_is_refused_with_the_reason() {
    let pair = Pair::new(Habit::Carries);
    let task = pair.task().await;
    let stranger = TaskReport { token: Token(1), ..report(&task, done()) };
    let stranger = pair.other.report(stranger).await;
    assert!(matches!(stranger, Err(EngineError::Refused(Refusal::ForeignToken { .. }))));
    assert_eq!((pair.relayed("refused"), pair.mail().len()), (1, 0));
    pair.end().await;
}

#[tokio::test]
async fn mail_that_is_no_report_is_refused() {
    let pair = Pair::new(Habit::Carries);
    let task = pair.task().await;
    let body = Request::Cancel { reason: None };
    let mail = Mail {
        execution: task.number,
        message: "m1".into(),
        actor: None,
        body: body.into(),
        blobs: Vec::new(),
    };
    let relayed = pair.board.hand_over(pair.owner.instance(), mail);
    assert!(matches!(relayed, Some(Relayed::Refused(_))), "{relayed:?}");
    assert_eq!(pair.mail(), []);
    pair.end().await;
}
