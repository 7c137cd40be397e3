//! Cancellations of remote attempts: one may be lost, so it is repeated until the attempt has stopped.

use waypost_core::command::{Outcome, Request};
use waypost_core::status::Status;
use waypost_ports::tasks::Holds;

use super::forgetting::{begun, no};
use super::remote::{is_done, pass, worker};
use crate::support::rig::token_of;
use crate::support::{Rig, World};

#[test]
fn remote_cancellation_is_repeated_until_the_attempt_ends() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    rig.request(execution, Request::Cancel { reason: None });
    rig.settle_store();
    let cancelled = (worker(1), token_of(&world, 1, (execution, "a", 1)));
    assert_eq!(rig.cancelled_remote, [cancelled]);
    pass(&mut rig, 5_000);
    assert_eq!(rig.cancelled_remote, [cancelled, cancelled]);
    assert_eq!(world.status(execution), Status::Ending);
    rig.see(Some(&[1]), &[]);
    let stopped = rig.say(1, (execution, "a", 1), Outcome::Cancelled);
    rig.settle_store();
    assert!(is_done(&rig, stopped));
    assert_eq!(world.status(execution), Status::Cancelled);
    pass(&mut rig, 5_000);
    assert_eq!(rig.cancelled_remote, [cancelled, cancelled], "its worker has reported the end");
    world.check();
}

/// The execution does not wait for it any longer than the grace time; the handler may still run.
#[test]
fn remote_cancellation_is_repeated_after_the_execution_ended() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    rig.request(execution, Request::Cancel { reason: None });
    rig.settle_store();
    let cancelled = (worker(1), token_of(&world, 1, (execution, "a", 1)));
    for _ in 0..3 {
        pass(&mut rig, 5_000);
        rig.settle_store();
        rig.see_all(Holds::Yes);
    }
    assert_eq!(world.status(execution), Status::Cancelled);
    let times = rig.cancelled_remote.len();
    pass(&mut rig, 5_000);
    assert_eq!(rig.cancelled_remote, vec![cancelled; times + 1]);
    world.check();
}

/// An attempt that does not count any more may still run: its cancellation is repeated until its worker
/// does not list it, though not for ever.
#[test]
fn remote_cancellation_for_a_pause_is_repeated_until_confirmed() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = begun(&mut rig);
    rig.request(execution, Request::Pause { now: true, reason: None });
    rig.settle_store();
    assert_eq!(world.status(execution), Status::Paused);
    let cancelled = (worker(1), token_of(&world, 1, (execution, "a", 1)));
    let cancels_after = |rig: &mut Rig<'_>, holds: Option<Holds>| {
        pass(rig, 5_000);
        let cancels = std::mem::take(&mut rig.cancelled_remote);
        if let Some(holds) = holds {
            rig.see_all(holds);
        }
        assert!(rig.looks.is_empty());
        cancels
    };
    assert_eq!(std::mem::take(&mut rig.cancelled_remote), [cancelled]);
    assert_eq!(cancels_after(&mut rig, Some(Holds::Yes)), [cancelled]);
    assert_eq!(
        cancels_after(&mut rig, Some(no(10_000))),
        [cancelled],
        "listed before the cancellation"
    );
    assert_eq!(cancels_after(&mut rig, Some(no(100))), [cancelled]);
    assert_eq!(cancels_after(&mut rig, None), []);
    rig.request(execution, Request::Resume { reason: None });
    rig.settle_store();
    rig.say(1, (execution, "a", 2), Outcome::Started);
    rig.settle_store();
    rig.request(execution, Request::Pause { now: true, reason: None });
    rig.settle_store();
    let cancelled = (worker(1), token_of(&world, 1, (execution, "a", 2)));
    assert_eq!(std::mem::take(&mut rig.cancelled_remote), [cancelled]);
    for _ in 1..12 {
        assert_eq!(cancels_after(&mut rig, Some(Holds::Unsaid)), [cancelled]);
    }
    assert_eq!(cancels_after(&mut rig, None), [], "it has had a minute");
    world.check();
}
