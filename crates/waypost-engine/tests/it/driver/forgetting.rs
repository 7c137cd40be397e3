//! Remote workers that live and have forgotten what they began; and those that have not, whatever is
//! heard of them.

use waypost_core::command::Outcome;
use waypost_core::failure::kind;
use waypost_core::id::{ExecutionNo, NodeIx};
use waypost_core::json::Json;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Millis;
use waypost_engine::driver::FORGOTTEN;
use waypost_ports::store::Store;
use waypost_ports::tasks::{Holds, WORKER_LEASE};

use crate::support::{Rig, World};

/// How often workers are looked at.
const LOOK_MS: u64 = 5_000;

/// It has not got it, and said so this long ago.
pub(super) fn no(sent_ago: u64) -> Holds {
    Holds::No { sent_ago: Millis(sent_ago) }
}

/// An execution whose attempt has begun remotely.
pub(super) fn begun(rig: &mut Rig<'_>) -> ExecutionNo {
    let execution = rig.start("a = worker");
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    execution
}

/// The next look, and what is seen.
fn look(rig: &mut Rig<'_>, holds: Holds) {
    rig.world.clock.advance(Millis(LOOK_MS));
    rig.renew();
    rig.settle_store();
    rig.see_all(holds);
    rig.settle_store();
}

/// How often the attempt was given up after a start and these looks.
fn lost_after(looks: &[Holds]) -> u32 {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    looks.iter().for_each(|holds| look(&mut rig, *holds));
    world.check();
    world.state(execution).node(NodeIx(0)).abandoned
}

#[test]
fn an_attempt_that_its_worker_has_forgotten_is_made_again() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    rig.offers.clear();
    for _ in 0..WORKER_LEASE.0 / LOOK_MS {
        look(&mut rig, no(0));
        assert_eq!(world.state(execution).running, 1, "not yet for a whole lease");
    }
    look(&mut rig, no(0));
    let state = world.state(execution);
    let node = state.node(NodeIx(0));
    assert_eq!((node.status, node.attempt), (NodeStatus::Queued, 2));
    assert_eq!((node.abandoned, node.tries), (1, 0));
    let failure = node.failure.as_ref().unwrap();
    assert_eq!((&*failure.kind, &*failure.message), (kind::ABANDONED, FORGOTTEN));
    assert_eq!(rig.offers.len(), 1, "others may take it");
    rig.say(2, (execution, "a", 2), Outcome::Completed(Json::null()));
    rig.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn worker_that_may_have_an_attempt_keeps_it() {
    let forgotten = [no(0); 4];
    assert_eq!(lost_after(&forgotten), 1);
    let seen = |at: usize, holds| {
        let mut looks = [no(0); 7];
        looks[at] = holds;
        lost_after(&looks)
    };
    for holds in [Holds::Yes, Holds::Unsaid, Holds::Gone] {
        assert_eq!(seen(3, holds), 0, "in a row, without {holds:?} in between");
        assert_eq!(seen(2, holds), 1, "a lease after {holds:?}");
    }
    // A waiting poll is recorded again and again, and was sent once.
    let same: Vec<Holds> = (0..20).map(|at| no(at * LOOK_MS)).collect();
    assert_eq!(lost_after(&same), 0);
    // Said at the start, or before it: by then it had nothing.
    let before: Vec<Holds> = (1..20).map(|at| no(at * LOOK_MS)).collect();
    assert_eq!(lost_after(&before), 0);
    // Two of which the second is not a lease younger.
    assert_eq!(lost_after(&[no(0), no(0), no(0), no(1)]), 0);
    assert_eq!(lost_after(&[no(1), no(0), no(0), no(1)]), 1);
}

#[test]
fn unanswered_look_abandons_no_attempt() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    look(&mut rig, no(0));
    for _ in 0..2 {
        world.clock.advance(Millis(LOOK_MS));
        rig.renew();
        rig.settle_store();
        rig.see(None, &[]);
    }
    assert_eq!(world.state(execution).running, 1);
    look(&mut rig, no(0));
    assert_eq!(world.state(execution).running, 0);
}

/// The answer to a look may take long, and then it is not known when its list was sent.
#[test]
fn list_answered_late_counts_once_against_an_attempt() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    let wait = |rig: &mut Rig<'_>, ms| {
        world.clock.advance(Millis(ms));
        rig.renew();
        rig.settle_store();
    };
    wait(&mut rig, LOOK_MS);
    // Sent 10 s after the look was requested, read another 10 s later.
    wait(&mut rig, 20_000);
    rig.see_all(no(10_000));
    wait(&mut rig, LOOK_MS);
    rig.see_all(no(15_000));
    rig.settle_store();
    assert_eq!(world.state(execution).running, 1);
    world.check();
}

/// A worker that has reported the end does not list the attempt either.
#[test]
fn an_end_in_the_inbox_is_read_before_its_attempt_is_given_up() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    let mut other = Rig::new(&world);
    other.say(1, (execution, "a", 1), Outcome::Completed(Json::null()));
    other.settle_store();
    assert_eq!(world.store.load(execution).unwrap().unwrap().mail.len(), 1);
    // The inbox is slow: what is asked of it waits.
    for _ in 0..8 {
        world.clock.advance(Millis(LOOK_MS));
        rig.renew();
        rig.step();
        rig.see_all(no(0));
        rig.perform_appends();
        rig.step();
    }
    assert_eq!(world.state(execution).running, 1);
    rig.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn a_new_owner_begins_to_count_anew() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = begun(&mut first);
    (0..3).for_each(|_| look(&mut first, no(0)));
    first.leave();
    drop(first);
    let mut second = Rig::new(&world);
    world.clock.advance(Millis(1_000));
    second.settle_store();
    look(&mut second, no(LOOK_MS));
    (0..3).for_each(|_| look(&mut second, no(0)));
    assert_eq!(world.state(execution).running, 1, "what was said before it came does not count");
    look(&mut second, no(0));
    assert_eq!(world.state(execution).running, 0);
    world.check();
}
