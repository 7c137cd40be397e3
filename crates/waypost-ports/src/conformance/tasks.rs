//! What every implementation of `Tasks` promises: offers in order, each to one taker; workers that
//! are alive for as long as they send signs of life; cancellations that are delivered once. Nothing
//! here is durable, so nothing is required after a restart but the cluster's key.

mod presence;

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};

use crate::clock::ManualClock;
use crate::tasks::{Depth, Offer, OfferId, SignOfLife, Tasks};

pub use presence::*;

/// Implemented by a backend's test binary: an empty place for tasks.
pub trait TasksBackend {
    /// The implementation under test.
    type Tasks: Tasks;

    /// Opens it. Called again for the same data.
    fn open(&self) -> Self::Tasks;

    /// Lets this much time pass for the tasks; a backend with a server's time moves its rows back
    /// instead.
    fn pass(&self, span: Millis);

    /// By how much a measured span may differ from the real one.
    fn tolerance(&self) -> Millis {
        Millis(0)
    }
}

/// A clock for backends that take one: time passes only when a case advances it.
pub fn still_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(1_000_000_000_000)))
}

/// Makes one test for each case, from a function that makes a
/// [`TasksBackend`](crate::conformance::tasks::TasksBackend).
#[macro_export]
macro_rules! tasks_conformance_tests {
    ($make:path) => {
        $crate::tasks_conformance_tests! { @cases $make;
            offers_are_taken_in_order_and_once,
            offers_of_several_handlers_are_taken_oldest_first,
            take_skips_tasks_of_other_handlers,
            an_offer_that_is_out_stays_as_it_is,
            an_offer_can_be_made_again_after_it_was_taken,
            attempts_and_paths_are_different_offers,
            withdrawn_task_is_not_taken,
            bodies_and_owners_are_kept_exactly,
            concurrent_takers_share_the_tasks,
            a_sign_of_life_counts_for_a_while,
            worker_that_leaves_is_not_alive,
            holds_follow_the_tasks_that_workers_list,
            repeated_poll_does_not_renew_the_age_of_its_list,
            workers_are_listed_with_their_last_sign_of_life,
            cancellation_is_delivered_once,
            cancellation_for_an_unknown_worker_is_dropped,
            depths_say_how_much_waits_and_how_long,
            the_key_of_the_cluster_stays,
            text_is_only_text,
        }
    };
    (@cases $make:path; $($case:ident),* $(,)?) => {
        mod tasks {
            #[expect(unused_imports, reason = "a path that is absolute needs none of them")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::conformance::tasks::$case(&$make());
                }
            )*
        }
    };
}

const NOTHING: [i64; 0] = [];

fn id(number: i64) -> OfferId {
    OfferId { execution: ExecutionNo(number), path: "a".into(), attempt: 1 }
}

fn offer(number: i64, handler: &str) -> Offer {
    let owner = InstanceId(Uuid::from_u128(7));
    Offer { id: id(number), handler: handler.into(), owner, body: vec![1, 2, 3] }
}

fn worker(number: u128) -> WorkerId {
    WorkerId(Uuid::from_u128(number))
}

fn sign(number: u128) -> SignOfLife {
    SignOfLife {
        worker: worker(number),
        name: format!("worker {number}").into(),
        handlers: vec!["mail".into()],
        capacity: 4,
        running: 1,
        through: InstanceId(Uuid::from_u128(9)),
        leaving: false,
        hand: None,
        thorough: false,
    }
}

fn handlers(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn take(tasks: &impl Tasks, names: &[&str], limit: usize) -> Vec<i64> {
    let taken = tasks.take(&handlers(names), limit).expect("it is answered");
    taken.into_iter().map(|offer| offer.id.execution.0).collect()
}

fn put(tasks: &impl Tasks, offers: &[Offer]) {
    tasks.offer(offers).expect("it is answered");
}

pub fn offers_are_taken_in_order_and_once<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    put(&tasks, &[offer(1, "mail"), offer(2, "mail")]);
    put(&tasks, &[offer(3, "mail")]);
    assert_eq!(take(&tasks, &["mail"], 2), [1, 2]);
    assert_eq!(take(&tasks, &["mail"], 10), [3]);
    assert_eq!(take(&tasks, &["mail"], 10), NOTHING);
}

pub fn offers_of_several_handlers_are_taken_oldest_first<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    for (number, handler) in [(1, "mail"), (2, "print"), (3, "mail"), (4, "print")] {
        put(&tasks, &[offer(number, handler)]);
        backend.pass(Millis(2));
    }
    assert_eq!(take(&tasks, &["print", "mail"], 3), [1, 2, 3]);
    assert_eq!(take(&tasks, &["print", "print"], 3), [4]);
}

pub fn take_skips_tasks_of_other_handlers<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    put(&tasks, &[offer(1, "mail")]);
    assert_eq!(take(&tasks, &["print"], 10), NOTHING);
    assert_eq!(take(&tasks, &["mai", "mail2", "MAIL", ""], 10), NOTHING);
    assert_eq!(take(&tasks, &[], 10), NOTHING);
    assert_eq!(take(&tasks, &["mail"], 0), NOTHING);
    assert_eq!(take(&tasks, &["mail"], 10), [1]);
}

pub fn an_offer_that_is_out_stays_as_it_is<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    put(&tasks, &[offer(1, "mail"), offer(2, "mail"), offer(1, "mail")]);
    let again = Offer { body: vec![9], ..offer(1, "mail") };
    put(&tasks, &[again]);
    let taken = tasks.take(&handlers(&["mail"]), 10).expect("it is answered");
    assert_eq!(taken, [offer(1, "mail"), offer(2, "mail")]);
}

pub fn an_offer_can_be_made_again_after_it_was_taken<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    for _ in 0..3 {
        put(&tasks, &[offer(1, "mail")]);
        assert_eq!(take(&tasks, &["mail"], 10), [1]);
    }
    put(&tasks, &[offer(1, "mail")]);
    tasks.withdraw(&[id(1)]).expect("it is answered");
    put(&tasks, &[offer(1, "mail")]);
    assert_eq!(take(&tasks, &["mail"], 10), [1]);
}

pub fn attempts_and_paths_are_different_offers<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let other = |path: &str, attempt| Offer {
        id: OfferId { path: path.into(), attempt, ..id(1) },
        ..offer(1, "mail")
    };
    put(&tasks, &[other("a", 1), other("a", 2), other("b", 1), other("a[1]/b", 1)]);
    let withdrawn = OfferId { attempt: 2, ..id(1) };
    tasks.withdraw(&[withdrawn]).expect("it is answered");
    let taken = tasks.take(&handlers(&["mail"]), 10).expect("it is answered");
    let taken: Vec<_> = taken.iter().map(|offer| (&*offer.id.path, offer.id.attempt)).collect();
    assert_eq!(taken, [("a", 1), ("b", 1), ("a[1]/b", 1)]);
}

pub fn withdrawn_task_is_not_taken<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    put(&tasks, &[offer(1, "mail"), offer(2, "mail"), offer(3, "print")]);
    tasks.withdraw(&[id(1), id(3), id(99)]).expect("it is answered");
    assert_eq!(take(&tasks, &["mail", "print"], 10), [2]);
    tasks.withdraw(&[id(2)]).expect("what was taken stays taken");
    tasks.withdraw(&[]).expect("it is answered");
}

pub fn bodies_and_owners_are_kept_exactly<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let odd = Offer {
        owner: InstanceId(Uuid::from_u128(u128::MAX)),
        body: (0..=255).collect(),
        ..offer(i64::MAX, "a.b-c_9")
    };
    let large = Offer { body: vec![b'x'; 1024 * 1024], ..offer(2, "a.b-c_9") };
    let empty = Offer { body: Vec::new(), ..offer(3, "a.b-c_9") };
    let offers = [odd, large, empty];
    put(&tasks, &offers);
    let taken = backend.open().take(&handlers(&["a.b-c_9"]), 10).expect("it is answered");
    assert_eq!(taken, offers);
}

pub fn concurrent_takers_share_the_tasks<B: TasksBackend>(backend: &B)
where
    B::Tasks: 'static,
{
    const TASKS: i64 = 200;
    let offers: Vec<Offer> = (0..TASKS).map(|number| offer(number, "mail")).collect();
    put(&backend.open(), &offers);
    let takers: Vec<_> = (0..4).map(|_| backend.open()).collect();
    let mut all: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = takers
            .iter()
            .map(|tasks| {
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        let taken = take(tasks, &["mail"], 7);
                        if taken.is_empty() {
                            return mine;
                        }
                        mine.extend(taken);
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a taker")).collect()
    });
    // A taker that skips a task which another one is taking may stop early. No task is taken twice,
    // and none is lost.
    all.extend(take(&backend.open(), &["mail"], usize::MAX >> 16));
    all.sort_unstable();
    assert_eq!(all, (0..TASKS).collect::<Vec<_>>());
}

pub fn cancellation_is_delivered_once<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    let received = |number| {
        let mut received = tasks.record_presence(&sign(number)).expect("it is answered");
        received.sort_unstable();
        received
    };
    assert_eq!((received(1), received(2)), (vec![], vec![]));
    let cancels = [(worker(1), Token(1)), (worker(1), Token(u128::MAX)), (worker(2), Token(3))];
    let through = tasks.cancel(&cancels).expect("it is answered");
    assert_eq!(through, [sign(1).through], "the instance that both talk to");
    tasks.cancel(&cancels[..1]).expect("it is answered");
    assert_eq!(received(1), [Token(1), Token(u128::MAX)]);
    assert_eq!(received(1), []);
    assert_eq!(received(2), [Token(3)]);
    tasks.cancel(&cancels[..1]).expect("it is answered");
    assert_eq!(received(1), [Token(1)], "cancelled again, received again");
}

pub fn cancellation_for_an_unknown_worker_is_dropped<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    assert_eq!(tasks.cancel(&[(worker(1), Token(1))]).expect("it is answered"), []);
    assert_eq!(tasks.record_presence(&sign(2)).expect("it is answered"), []);
}

pub fn depths_say_how_much_waits_and_how_long<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    assert_eq!(tasks.depths().expect("it is answered"), []);
    put(&tasks, &[offer(1, "print"), offer(2, "mail")]);
    backend.pass(Millis(1_500));
    put(&tasks, &[offer(3, "mail")]);
    let depths = || {
        let mut depths = tasks.depths().expect("it is answered");
        depths.retain(|depth| depth.waiting > 0);
        depths.sort_by(|a, b| a.handler.cmp(&b.handler));
        depths
    };
    let close = |found: &[Depth], expected: &[(&str, u64, u64)]| {
        let shown: Vec<_> = found.iter().map(|depth| (&*depth.handler, depth.waiting)).collect();
        let named: Vec<_> = expected.iter().map(|(name, count, _)| (*name, *count)).collect();
        assert_eq!(shown, named);
        for (depth, (_, _, ms)) in found.iter().zip(expected) {
            assert!(depth.oldest.0.abs_diff(*ms) <= backend.tolerance().0, "{depth:?}");
        }
    };
    close(&depths(), &[("mail", 2, 1_500), ("print", 1, 1_500)]);
    assert_eq!(take(&tasks, &["mail"], 1), [2]);
    close(&depths(), &[("mail", 1, 0), ("print", 1, 1_500)]);
}

pub fn the_key_of_the_cluster_stays<B: TasksBackend>(backend: &B) {
    let key = backend.open().cluster_key().expect("it is answered");
    assert_ne!(key, [0; 32]);
    assert_eq!(backend.open().cluster_key().expect("it is answered"), key);
}

pub fn text_is_only_text<B: TasksBackend>(backend: &B) {
    let tasks = backend.open();
    for (number, text) in (1..).zip(["'; -- \"x\"", "a:b{c}*", "\u{202e}%s%n", "zoë 🌍"]) {
        let hostile =
            Offer { id: OfferId { path: text.into(), ..id(number) }, ..offer(number, text) };
        put(&tasks, std::slice::from_ref(&hostile));
        assert_eq!(tasks.take(&handlers(&[text]), 10).expect("it is answered"), [hostile]);
    }
}
