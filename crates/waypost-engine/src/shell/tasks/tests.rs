use tokio::sync::{Semaphore, oneshot};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::clock::ManualClock;
use waypost_ports::memory::MemoryTasks;
use waypost_ports::nudge::Alone;
use waypost_ports::tasks::Tasks;

use super::*;
use crate::config::Config;
use crate::links::{CallbackLinks, Links};
use crate::sealed::Seal;
use crate::shell::remote_tasks::tests::Unseen;
use crate::tokens::TokenIssuer;

const WORKER: WorkerId = WorkerId(Uuid::from_u128(1));

fn thread(tasks: impl Tasks + 'static) -> TasksThread {
    let (key, instance) = ([7; 32], InstanceId(Uuid::from_u128(2)));
    let clock = Arc::new(ManualClock::at(Timestamp(0)));
    TasksThread {
        shared: Shared::new(instance, &Config::default(), clock),
        remote_tasks: RemoteTasks {
            tasks: Arc::new(tasks),
            nudges: Arc::new(Alone),
            issuer: TokenIssuer::new(&key),
            seal: Seal::new(&key),
            callbacks: CallbackLinks { links: Links::new(&key), public_url: None },
            instance,
        },
    }
}

fn poll(leaving: bool) -> WorkerPoll {
    WorkerPoll {
        worker: WORKER,
        name: "one".into(),
        handlers: vec!["far".into()],
        capacity: 1,
        running: 1,
        max: 0,
        leaving,
        tasks: None,
        public_key: None,
        key: None,
    }
}

fn waiting(leaving: bool, reply: Reply) -> Waiting {
    let poll = poll(leaving);
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let now = Instant::now();
    Waiting {
        poll,
        reply,
        asked_at: now,
        until: now,
        hear_at: now,
        without: Vec::new(),
        _permit: permit,
    }
}

#[test]
fn cancellation_for_a_closed_poll_is_delivered_with_the_next() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let thread = thread(tasks.clone());
    let poll = |leaving: bool, listens: bool| {
        let (reply, mut answer) = oneshot::channel();
        if !listens {
            answer.close();
        }
        thread.answer_polls(&mut vec![waiting(leaving, reply)], &mut CancelReads::default());
        answer.try_recv().ok().map(|given| given.ok().unwrap().polled.cancel)
    };
    assert_eq!(poll(false, true), None, "it waits");
    tasks.cancel(&[(WORKER, Token(5))]).unwrap();
    // Its caller went away after it was seen to be there.
    assert_eq!(poll(false, false), None);
    assert_eq!(poll(false, true), Some(vec![Token(5)]));
    assert_eq!(poll(false, true), None, "it was delivered");
    tasks.cancel(&[(WORKER, Token(6))]).unwrap();
    assert_eq!(poll(true, false), None);
    assert_eq!(poll(false, true), None, "a leaving worker has nothing left to cancel");
}

/// Its caller went away after it was answered, and before it read that.
#[test]
fn poll_answer_dropped_unread_returns_tasks_and_cancellations() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let thread = thread(tasks.clone());
    let id = OfferId { execution: ExecutionNo(1), path: "a".into(), attempt: 1 };
    let owner = thread.remote_tasks.instance;
    let offer = Offer { id: id.clone(), handler: "far".into(), owner, body: vec![1] };
    let answered = |leaving: bool| {
        let (reply, answer) = PollAnswer::to(&poll(leaving), &thread.shared);
        let polled = Polled { cancel: vec![Token(5)], ..Polled::default() };
        assert!(reply.send(Ok(Given { polled, offers: vec![offer.clone()] })).is_ok());
        answer
    };
    // The tasks and cancellations that remain when the thread has done its work.
    let left = || {
        let mut work = Vec::new();
        thread.shared.task_orders.take(&mut work, Instant::now());
        thread.carry_out(&mut sort(work.drain(..)));
        let taken = tasks.take(&["far".into()], 9).unwrap();
        (taken, thread.remote_tasks.record_presence(&poll(false), Millis(0), false).unwrap())
    };
    assert_eq!(left(), (vec![], vec![]), "its worker is known");
    drop(answered(false));
    assert_eq!(left(), (vec![offer.clone()], vec![Token(5)]));
    drop(answered(true));
    assert_eq!(
        left(),
        (vec![offer.clone()], vec![]),
        "a leaving worker has nothing left to cancel"
    );
    drop(answered(false));
    thread.shared.task_orders.push(TasksOrder::Perform(TaskWork::Withdraw(id)));
    assert_eq!(left(), (vec![], vec![Token(5)]), "it must not begin any more");
    let mut read = answered(false);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(read.wait()).unwrap().unwrap().polled.cancel, [Token(5)]);
    drop(read);
    assert_eq!(left(), (vec![], vec![]), "it was read");
}

#[test]
fn cancel_notification_reads_cancellations_from_the_store() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let thread = thread(Unseen(tasks.clone()));
    let poll = |cancel_reads: &mut CancelReads| {
        let (reply, mut answer) = oneshot::channel();
        thread.answer_polls(&mut vec![waiting(false, reply)], cancel_reads);
        answer.try_recv().ok().map(|given| given.ok().unwrap().polled.cancel)
    };
    let mut cancel_reads = CancelReads::default();
    assert_eq!(poll(&mut cancel_reads), None);
    tasks.cancel(&[(WORKER, Token(5))]).unwrap();
    assert_eq!(poll(&mut cancel_reads), None);
    cancel_reads.notified(Instant::now());
    assert_eq!(poll(&mut cancel_reads), Some(vec![Token(5)]));
}
