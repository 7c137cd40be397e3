use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use waypost_core::id::InstanceId;
use waypost_core::time::Timestamp;
use waypost_ports::clock::ManualClock;
use waypost_ports::memory::MemoryTasks;
use waypost_ports::nudge::Alone;
use waypost_ports::tasks::Tasks;

use super::*;
use crate::sealed::Seal;
use crate::tokens::Mint;

const WORKER: WorkerId = WorkerId(Uuid::from_u128(1));

fn thread(tasks: &MemoryTasks) -> TasksThread {
    let key = [7; 32];
    TasksThread {
        desk: Desk {
            tasks: Arc::new(tasks.clone()),
            nudges: Arc::new(Alone),
            mint: Mint::new(&key),
            seal: Seal::new(&key),
            instance: InstanceId(Uuid::from_u128(2)),
        },
        work: Arc::new(Inbox::new()),
        engine: Arc::new(Inbox::new()),
        store: Arc::new(Inbox::new()),
        metrics: Arc::new(EngineMetrics::new(1)),
        _gone: CancellationToken::new().drop_guard(),
    }
}

fn waiting(leaving: bool, reply: Reply) -> Waiting {
    let poll = WorkerPoll {
        worker: WORKER,
        name: "one".into(),
        handlers: vec!["far".into()],
        capacity: 1,
        running: 1,
        max: 0,
        leaving,
        tasks: None,
    };
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let now = Instant::now();
    Waiting { poll, reply, asked_at: now, until: now, hear_at: now, _permit: permit }
}

#[test]
fn what_is_to_be_stopped_waits_for_somebody_who_hears_it() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let thread = thread(&tasks);
    let hear = |leaving: bool, listens: bool| {
        let (reply, mut answer) = oneshot::channel();
        if !listens {
            answer.close();
        }
        thread.hear(&mut vec![waiting(leaving, reply)]);
        answer.try_recv().ok().map(|polled| polled.unwrap().cancel)
    };
    assert_eq!(hear(false, true), None, "it waits");
    tasks.cancel(&[(WORKER, Token(5))]).unwrap();
    // Its caller went away after it was seen to be there.
    assert_eq!(hear(false, false), None);
    assert_eq!(hear(false, true), Some(vec![Token(5)]));
    assert_eq!(hear(false, true), None, "it was heard");
    tasks.cancel(&[(WORKER, Token(6))]).unwrap();
    assert_eq!(hear(true, false), None);
    assert_eq!(hear(false, true), None, "who leaves has nothing left to stop");
}
