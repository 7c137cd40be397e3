//! Requests to maps: held, tuned and with items cancelled, in memory, parked and paused.

use waypost_core::command::{Request, Tuning};
use waypost_core::event::{LOG_FORMAT, STEERED_LOG_FORMAT};
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Input};

use crate::support::{Rig, World};

const PAUSE: Request = Request::Pause { now: false, reason: None };
const RESUME: Request = Request::Resume { reason: None };

fn hold(held: bool) -> Request {
    let tuning = Tuning { held: Some(held), concurrency: None };
    Request::Tune { node: "m".into(), tuning, reason: None }
}

fn cancel(item: &str) -> Request {
    Request::CancelItem { node: item.into(), reason: None }
}

fn ask(rig: &mut Rig<'_>, execution: ExecutionNo, request: Request) -> Answer {
    let ticket = rig.request(execution, request);
    rig.settle_store();
    rig.answer(ticket).cloned().expect("it is answered")
}

/// The older instance may own the execution, or take it over: it reads neither the mail nor the event.
#[test]
fn request_to_a_map_is_refused_while_an_older_instance_is_alive() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let live = rig.start("m = map(4, at 1, tolerate 4) {a}");
    let parked = rig.start("m = map(4, at 1, tolerate 4) {w = signal(go)}");
    rig.settle_store();
    rig.inputs.push(Input::Readable(STEERED_LOG_FORMAT - 1));
    for (execution, request) in
        [(live, hold(true)), (live, cancel("m[0]")), (parked, hold(true)), (parked, cancel("m[0]"))]
    {
        let frames = world.frames(execution);
        let answer = ask(&mut rig, execution, request);
        let (needs, readable) = (STEERED_LOG_FORMAT, STEERED_LOG_FORMAT - 1);
        assert!(
            matches!(answer, Answer::ClusterTooOld { needs: n, readable: r } if (n, r) == (needs, readable)),
            "{answer:?}"
        );
        assert_eq!(world.frames(execution), frames);
    }
    rig.inputs.push(Input::Readable(LOG_FORMAT));
    assert!(matches!(ask(&mut rig, live, hold(true)), Answer::Done { .. }));
    world.check();
}

#[test]
fn held_map_parks_and_goes_on_when_it_is_released() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("m = map(3, at 1) {a}");
    rig.settle_store();
    assert!(matches!(ask(&mut rig, execution, hold(true)), Answer::Done { .. }));
    rig.settle();
    assert_eq!(world.calls(execution, "m[0]/a"), 1);
    assert_eq!(world.status(execution), Status::Waiting, "nothing is left to do");
    assert_eq!(world.control(execution).and_then(|row| row.owner), None);
    // Bug: it was said to wait for nothing.
    world.check();
    rig.send(execution, hold(false), "release");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// People pause first and look then: the execution wakes for these requests, and is released again.
#[test]
fn paused_execution_takes_requests_to_its_maps() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("m = map(3, at 1, tolerate 1) {w = signal(go); a needs w}");
    rig.settle();
    rig.request(execution, PAUSE);
    rig.settle();
    assert_eq!(world.state(execution).shown_status(), Status::Paused);
    for (request, message) in [(hold(true), "hold"), (cancel("m[0]"), "cancel")] {
        rig.send(execution, request, message);
        rig.settle();
        let state = world.state(execution);
        assert!(state.messages.contains(message), "{message} was not taken");
        assert_eq!(state.shown_status(), Status::Paused);
    }
    rig.request(execution, RESUME);
    rig.settle();
    let names = world.names(execution);
    let opened = names.iter().filter(|name| **name == "ItemsOpened").count();
    assert_eq!(opened, 1, "the map is held: {names:?}");
    rig.send(execution, hold(false), "release");
    rig.settle();
    let opened = world.names(execution).iter().filter(|name| **name == "ItemsOpened").count();
    assert_eq!(opened, 2);
    world.check();
}
