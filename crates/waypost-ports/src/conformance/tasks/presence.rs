//! Workers: which are alive, for how long, and the tasks in hand.

use uuid::Uuid;
use waypost_core::id::{InstanceId, Token, WorkerId};
use waypost_core::time::Millis;

use super::{TasksBackend, handlers, sign, worker};
use crate::tasks::{Hand, Holds, SignOfLife, Tasks, WORKER_LEASE};

/// Which of these workers are alive, in this order.
pub fn alive<T: Tasks + ?Sized>(tasks: &T, workers: &[WorkerId]) -> Vec<WorkerId> {
    let asked: Vec<_> = workers.iter().map(|worker| (*worker, Token(0))).collect();
    let holds = tasks.who_holds(&asked).expect("it is answered");
    assert_eq!(holds.len(), asked.len(), "each is answered");
    let living = workers.iter().zip(holds).filter(|(_, holds)| *holds != Holds::Gone);
    living.map(|(worker, _)| *worker).collect()
}

fn with_hand(number: u128, tokens: &[u128], sent_ago: u64) -> SignOfLife {
    let tokens = tokens.iter().copied().map(Token).collect();
    SignOfLife { hand: Some(Hand { tokens, sent_ago: Millis(sent_ago) }), ..sign(number) }
}

pub fn a_sign_of_life_counts_for_a_while<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let alive = |of: &[u128]| {
        let workers: Vec<_> = of.iter().map(|number| worker(*number)).collect();
        let mut alive = alive(&tasks, &workers);
        alive.sort_unstable();
        alive
    };
    assert_eq!(alive(&[1, 2]), []);
    tasks.record_presence(&sign(1)).expect("it is answered");
    assert_eq!(alive(&[2, 1]), [worker(1)]);
    backend.pass(Millis(WORKER_LEASE.0 - 5_000));
    tasks.record_presence(&sign(2)).expect("it is answered");
    assert_eq!(alive(&[1, 2, 3]), [worker(1), worker(2)]);
    backend.pass(Millis(5_000));
    assert_eq!(alive(&[1, 2]), [worker(2)]);
    tasks.record_presence(&sign(1)).expect("it is answered");
    assert_eq!(alive(&[1, 2]), [worker(1), worker(2)], "a worker that comes back is alive again");
    assert_eq!(alive(&[]), []);
}

pub fn worker_that_leaves_is_not_alive<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    tasks.record_presence(&sign(1)).expect("it is answered");
    tasks.record_presence(&SignOfLife { leaving: true, ..sign(1) }).expect("it is answered");
    assert_eq!(alive(&tasks, &[worker(1)]), []);
    let rows = tasks.workers().expect("it is answered");
    assert_eq!(rows.iter().map(|row| row.alive).collect::<Vec<_>>(), [false]);
}

/// Checks the answers about attempts, each by its worker and token; ages within the tolerance.
fn expect_holds<B: TasksBackend>(backend: &B, asked: &[(u128, u128)], expected: &[Holds]) {
    let asked: Vec<_> = asked.iter().map(|(of, token)| (worker(*of), Token(*token))).collect();
    let found = backend.open().who_holds(&asked).expect("it is answered");
    assert_eq!(found.len(), expected.len(), "{found:?}");
    let close = |(found, expected): (&Holds, &Holds)| match (found, expected) {
        (Holds::No { sent_ago: found }, Holds::No { sent_ago }) => {
            found.0.abs_diff(sent_ago.0) <= backend.tolerance().0
        }
        (found, expected) => found == expected,
    };
    assert!(found.iter().zip(expected).all(close), "{found:?} instead of {expected:?}");
}

pub fn holds_follow_the_tasks_that_workers_list<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let no = |sent_ago| Holds::No { sent_ago: Millis(sent_ago) };
    let asked = [(1, 7), (2, 7), (1, u128::MAX), (3, 7), (1, 8), (1, 7), (9, 7), (2, 8)];
    tasks.record_presence(&with_hand(1, &[7, u128::MAX, 7], 0)).expect("it is answered");
    tasks.record_presence(&with_hand(2, &[], 0)).expect("it is answered");
    tasks.record_presence(&sign(3)).expect("it is answered");
    let first =
        [Holds::Yes, no(0), Holds::Yes, Holds::Unsaid, no(0), Holds::Yes, Holds::Gone, no(0)];
    expect_holds(backend, &asked, &first);
    // The last list counts, also an absent one.
    backend.pass(Millis(5_000));
    tasks.record_presence(&with_hand(1, &[8], 0)).expect("it is answered");
    tasks.record_presence(&sign(2)).expect("it is answered");
    expect_holds(backend, &asked[..2], &[no(0), Holds::Unsaid]);
    expect_holds(backend, &asked[3..5], &[Holds::Unsaid, Holds::Yes]);
    let rows = tasks.workers().expect("it is answered");
    assert!(rows.iter().all(|row| row.sign.hand.is_none()), "tokens are not listed");
    let many: Vec<u128> = (0..100_000).collect();
    tasks.record_presence(&with_hand(1, &many, 0)).expect("it is answered");
    expect_holds(backend, &[(1, 99_999), (1, 100_000)], &[Holds::Yes, no(0)]);
    backend.pass(WORKER_LEASE);
    expect_holds(backend, &[(1, 7), (2, 7)], &[Holds::Gone, Holds::Gone]);
    expect_holds(backend, &[], &[]);
}

pub fn repeated_poll_does_not_renew_the_age_of_its_list<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let no = |sent_ago| Holds::No { sent_ago: Millis(sent_ago) };
    tasks.record_presence(&with_hand(1, &[7], 0)).expect("it is answered");
    backend.pass(Millis(5_000));
    expect_holds(backend, &[(1, 8)], &[no(5_000)]);
    // The same poll is recorded again: its worker lives, and has sent nothing new.
    tasks.record_presence(&with_hand(1, &[7], 5_000)).expect("it is answered");
    backend.pass(Millis(12_000));
    expect_holds(backend, &[(1, 7), (1, 8)], &[Holds::Yes, no(17_000)]);
}

pub fn workers_are_listed_with_their_last_sign_of_life<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    tasks.record_presence(&sign(2)).expect("it is answered");
    tasks.record_presence(&sign(1)).expect("it is answered");
    let last = SignOfLife {
        name: "zoë \"'; --".into(),
        handlers: handlers(&["mail", "print"]),
        capacity: u32::from(u16::MAX),
        running: 0,
        through: InstanceId(Uuid::from_u128(1)),
        ..sign(1)
    };
    backend.pass(Millis(2_000));
    tasks.record_presence(&last).expect("it is answered");
    let rows = tasks.workers().expect("it is answered");
    let shown: Vec<_> = rows.iter().map(|row| (&row.sign, row.alive)).collect();
    assert_eq!(shown, [(&last, true), (&sign(2), true)]);
    let between = rows[0].seen_at.since(rows[1].seen_at);
    assert!(between.0.abs_diff(2_000) <= backend.tolerance().0, "{between}");
    backend.pass(WORKER_LEASE);
    let rows = tasks.workers().expect("it is answered");
    assert_eq!(rows.iter().map(|row| row.alive).collect::<Vec<_>>(), [false, false]);
}
