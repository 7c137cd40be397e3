//! Tasks for workers, and nudges between instances.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::ManualClock;
use waypost_ports::conformance::tasks::{self as conformance, TasksBackend, alive, still_clock};
use waypost_ports::nudge::{Nudge, Nudges};
use waypost_ports::tasks::{Offer, OfferId, SignOfLife, Tasks, WORKER_LEASE};
use waypost_postgres::{Options, PostgresStore};

use crate::support::{Database, two};

fn offer(number: i64, handler: &str) -> Offer {
    Offer {
        id: OfferId { execution: ExecutionNo(number), path: "each[1]/fetch\0".into(), attempt: 1 },
        handler: handler.into(),
        owner: InstanceId(Uuid::from_u128(7)),
        body: vec![0, 1, 255],
    }
}

fn sign(worker: u128) -> SignOfLife {
    SignOfLife {
        worker: WorkerId(Uuid::from_u128(worker)),
        name: "zoë's".into(),
        handlers: vec!["pdf".into(), "m\0il".into()],
        capacity: 8,
        running: 3,
        through: InstanceId(Uuid::from_u128(1)),
        leaving: false,
        hand: None,
        thorough: false,
    }
}

/// A database whose time passes when a case says so.
struct Timed {
    database: Database,
    clock: Arc<ManualClock>,
}

fn timed() -> Timed {
    Timed { database: Database::new(), clock: still_clock() }
}

impl TasksBackend for Timed {
    type Tasks = PostgresStore;

    fn open(&self) -> PostgresStore {
        self.database.open_with(Options { clock: Some(self.clock.clone()), ..Options::default() })
    }

    fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }
}

#[test]
fn holds_follow_the_tasks_that_workers_list() {
    conformance::holds_follow_the_tasks_that_workers_list(&timed());
}

#[test]
fn repeated_poll_does_not_renew_the_age_of_its_list() {
    conformance::repeated_poll_does_not_renew_the_age_of_its_list(&timed());
}

#[test]
fn tasks_are_taken_oldest_first_and_once() {
    let database = Database::new();
    let store = database.open();
    let handler = |name: &str| -> Vec<Arc<str>> { vec![name.into()] };
    let offers: Vec<Offer> = (1..=6)
        .zip(["mail", "pdf"].into_iter().cycle())
        .map(|(n, handler)| offer(n, handler))
        .collect();
    store.offer(&offers).unwrap();
    store.offer(&offers[..2]).unwrap();
    let depths = store.depths().unwrap();
    let waiting: Vec<_> = depths.iter().map(|depth| (&*depth.handler, depth.waiting)).collect();
    assert_eq!(waiting, [("mail", 3), ("pdf", 3)]);
    assert_eq!(store.take(&handler("nobody"), 5).unwrap(), []);
    assert_eq!(store.take(&handler("pdf"), 1).unwrap(), [offers[1].clone()]);
    store.withdraw(&[offers[3].id.clone(), offers[1].id.clone()]).unwrap();
    let both: Vec<Arc<str>> = vec!["pdf".into(), "mail".into(), "pdf".into()];
    let rest = [&offers[0], &offers[2], &offers[4], &offers[5]].map(Clone::clone);
    assert_eq!(store.take(&both, 10).unwrap(), rest);
    assert_eq!(store.take(&both, 10).unwrap(), []);
    assert_eq!(store.depths().unwrap(), []);
}

#[test]
fn a_task_is_given_to_one_of_many() {
    const TASKS: i64 = 200;
    let database = Database::new();
    let stores = two(&database);
    let offers: Vec<Offer> = (0..TASKS).map(|number| offer(number, "pdf")).collect();
    stores[0].offer(&offers).unwrap();
    let together = Barrier::new(4);
    let mut taken: Vec<i64> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|at| {
                let (store, together) = (&stores[at % 2], &together);
                scope.spawn(move || {
                    together.wait();
                    let mut mine = Vec::new();
                    while store.depths().unwrap().iter().any(|depth| depth.waiting > 0) {
                        mine.extend(store.take(&["pdf".into()], 7).unwrap());
                    }
                    mine
                })
            })
            .collect();
        takers
            .into_iter()
            .flat_map(|taker| taker.join().unwrap())
            .map(|o| o.id.execution.0)
            .collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, (0..TASKS).collect::<Vec<_>>());
}

#[test]
fn workers_live_and_hear_what_to_stop() {
    let database = Database::new();
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let options = Options { clock: Some(clock.clone()), ..Options::default() };
    let store = database.open_with(options);
    let (one, two, three) = (sign(1), sign(2), sign(3));
    assert_eq!(store.record_presence(&one).unwrap(), []);
    clock.advance(Millis(10));
    store.record_presence(&SignOfLife { running: 4, ..one.clone() }).unwrap();
    store.record_presence(&two).unwrap();
    let all = [one.worker, two.worker, three.worker];
    assert_eq!(alive(&store, &all), all[..2]);
    let cancels = [(one.worker, Token(u128::MAX)), (two.worker, Token(5))];
    assert_eq!(store.cancel(&cancels).unwrap(), [one.through], "it is to look, once");
    assert_eq!(store.cancel(&cancels[..1]).unwrap(), [one.through]);
    assert_eq!(store.record_presence(&one).unwrap(), [Token(u128::MAX)]);
    assert_eq!(store.record_presence(&one).unwrap(), [], "it has received of it");
    store.record_presence(&SignOfLife { leaving: true, ..two }).unwrap();
    assert_eq!(alive(&store, &all), all[..1]);
    clock.advance(WORKER_LEASE);
    assert_eq!(alive(&store, &all), []);
    assert_eq!(store.cancel(&cancels).unwrap(), [], "no worker is alive to receive it");
    let rows = store.workers().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0].sign, rows[0].alive), (&one, false));
    assert_eq!(rows[0].seen_at, Timestamp(1_000_010));
    assert!(rows[1].sign.leaving);
    clock.advance(Millis::from_secs(3_600));
    assert_eq!(store.workers().unwrap(), []);
}

#[test]
fn a_cluster_has_one_key() {
    let database = Database::new();
    let [one, other] = two(&database);
    let key = one.cluster_key().unwrap();
    assert_eq!(other.cluster_key().unwrap(), key);
    assert_ne!(key, [0; 32]);
    assert_ne!(Database::new().open().cluster_key().unwrap(), key);
}

/// The nudges that an instance receives, in order.
fn listen(nudges: &impl Nudges, instance: InstanceId) -> mpsc::Receiver<Nudge> {
    let (received, hears) = mpsc::channel();
    nudges.listen(instance, Arc::new(move |nudge| drop(received.send(nudge))));
    hears
}

#[test]
fn nudges_reach_whom_they_are_for() {
    let database = Database::new();
    let [one, two] = two(&database);
    let (me, you) = (InstanceId(Uuid::from_u128(1)), InstanceId(Uuid::from_u128(2)));
    let (mine, yours) = (one.nudges(), two.nudges());
    let (i_hear, you_hear) = (listen(&mine, me), listen(&yours, you));
    let next = |hears: &mpsc::Receiver<Nudge>| hears.recv_timeout(Duration::from_secs(20)).unwrap();
    let everything = |instance: InstanceId| {
        [Nudge::Mail(instance), Nudge::Cancelled(instance), Nudge::Claimable]
    };
    // A listener that begins polls everything once.
    for (hears, instance) in [(&i_hear, me), (&you_hear, you)] {
        assert_eq!([next(hears), next(hears), next(hears)], everything(instance));
    }
    for _ in 0..100 {
        mine.send(Nudge::Mail(you));
        mine.send(Nudge::Mail(me));
    }
    mine.send(Nudge::Offered("pdf".into()));
    assert_eq!(next(&you_hear), Nudge::Mail(you));
    let mut rest = next(&you_hear);
    // They may have gone out in two bundles.
    while rest == Nudge::Mail(you) {
        rest = next(&you_hear);
    }
    assert_eq!(rest, Nudge::Offered("pdf".into()));
    assert!(i_hear.try_recv().is_err(), "what one sends does not come back");
    // The connection is cut; it comes back by itself, and says that something may have been missed.
    database.intruder().kill("listener");
    for (hears, instance) in [(&you_hear, you), (&i_hear, me)] {
        assert_eq!([next(hears), next(hears), next(hears)], everything(instance));
    }
    yours.send(Nudge::Cancelled(me));
    assert_eq!(next(&i_hear), Nudge::Cancelled(me));
}
