//! A signal that many wait for: delivered in bounded frames, each of which may be the last of its owner.

use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent, WAITS_LOG_FORMAT};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::TAKERS_MAX;
use waypost_core::status::Status;
use waypost_engine::driver::Input;

use crate::support::{Rig, World};

/// More than two frames take.
const ITEMS: usize = 3_500;
const FLOW: &str = "m = map(3500, at 3500, none) {w = signal(go)}";

fn go() -> Request {
    Request::Signal { name: "go".into(), body: Json::null() }
}

fn taken(world: &World, execution: ExecutionNo) -> usize {
    let is_it = |event: &Event| matches!(event, Event::Node(NodeEvent::Resumed { .. }));
    world.events(execution).iter().filter(|event| is_it(event)).count()
}

#[test]
fn one_signal_for_many_items_is_delivered_over_a_crash() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start(FLOW);
    rig.settle();
    assert_eq!(world.status(execution), Status::Waiting, "all items wait");
    rig.send(execution, go(), "go");
    while taken(&world, execution) == 0 {
        rig.step();
        let work = rig.work.pop_front().expect("the signal leads to a frame");
        rig.perform(work);
    }
    // The frame has two decisions: the signal, and the recovery of the parked execution.
    assert_eq!(taken(&world, execution), 2 * TAKERS_MAX, "of all {ITEMS}");
    drop(rig);
    world.outlive_leases();
    let mut rig = Rig::new(&world);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(taken(&world, execution), ITEMS, "each item took it once");
    world.check();
}

/// The older instance could not read that a signal takes several frames.
#[test]
fn one_signal_for_many_items_takes_one_frame_while_an_older_instance_is_alive() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start(FLOW);
    rig.settle();
    rig.inputs.push(Input::Readable(WAITS_LOG_FORMAT - 1));
    rig.send(execution, go(), "go");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    let newest = world.events(execution).iter().map(Event::requires).max();
    assert!(newest < Some(WAITS_LOG_FORMAT), "{newest:?}");
    world.check();
}
