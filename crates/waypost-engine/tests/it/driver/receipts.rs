//! The receipt of a signal while it is in an inbox: that it is kept only where it will be in
//! the log.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::Receipt;
use waypost_engine::driver::Input;
use waypost_ports::store::{Mail, MailDelivery, Store};

use crate::support::{Rig, World};

fn signal(execution: ExecutionNo, message: &str) -> Mail {
    let body = Request::Signal { name: "s".into(), body: Json::null() };
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

pub(crate) fn receipt(world: &World, execution: ExecutionNo, message: &str) -> Receipt {
    let mail = world.store.load(execution).unwrap().unwrap().mail;
    let in_inbox = mail.iter().any(|mail| *mail.message == *message);
    Receipt::of(message, &world.state(execution), world.control(execution).as_ref(), in_inbox)
}

/// A held execution, in the inbox of which a request to cancel waits, if so asked for.
fn held(rig: &mut Rig<'_>, cancel: bool) -> ExecutionNo {
    let execution = rig.start("w = signal(go)");
    rig.settle();
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    assert!(rig.world.control(execution).unwrap().held.is_some());
    if cancel {
        let body = Request::Cancel { reason: None };
        let mail = Mail {
            execution,
            message: "c".into(),
            actor: None,
            body: body.into(),
            blobs: Vec::new(),
        };
        rig.world.store.deliver(&[mail]).unwrap();
    }
    execution
}

#[test]
fn signal_kept_for_a_held_execution_is_in_the_log_before_the_cancel_that_ends_it() {
    for cancel_first in [true, false] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        let execution = held(&mut rig, cancel_first);
        for expected in [MailDelivery::Accepted { owner: None }, MailDelivery::Duplicate] {
            let delivered = world.store.deliver(&[signal(execution, "m")]).unwrap();
            assert_eq!(
                (delivered, receipt(&world, execution, "m")),
                (vec![expected], Receipt::Kept)
            );
        }
        if !cancel_first {
            rig.request(execution, Request::Cancel { reason: None });
        }
        rig.inputs.push(Input::Nudge);
        rig.settle();
        let names = world.names(execution);
        assert!(names.contains(&"SignalReceived"), "{names:?}");
        assert_eq!(world.status(execution), Status::Cancelled);
        assert_eq!(receipt(&world, execution, "m"), Receipt::Taken);
        world.check();
    }
}

#[test]
fn signal_after_the_claim_that_cancels_is_open_and_then_refused() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = held(&mut rig, true);
    rig.inputs.push(Input::Nudge);
    rig.step();
    // The claim has read the inbox, and the row still says that the execution is held.
    rig.perform_all();
    let control = world.control(execution).unwrap();
    assert!(control.owner.is_some() && control.held.is_some(), "{control:?}");
    for expected in [MailDelivery::Accepted { owner: control.owner }, MailDelivery::Duplicate] {
        let delivered = world.store.deliver(&[signal(execution, "m")]).unwrap();
        assert_eq!((delivered, receipt(&world, execution, "m")), (vec![expected], Receipt::Open));
    }
    rig.settle();
    assert!(!world.names(execution).contains(&"SignalReceived"));
    assert_eq!(receipt(&world, execution, "m"), Receipt::Ended(Status::Cancelled));
    world.check();
}

/// What is ending takes no signals, held or not.
#[test]
fn bug_signal_to_a_paused_ending_execution_was_reported_as_kept() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    rig.request(execution, Request::Cancel { reason: None });
    rig.settle_store();
    assert_eq!(world.status(execution), Status::Ending);
    world.store.hold(execution, rig.instance, "the store refuses its next frame").unwrap();
    let delivered = world.store.deliver(&[signal(execution, "m")]).unwrap();
    let expected = vec![MailDelivery::Accepted { owner: None }];
    assert_eq!((delivered, receipt(&world, execution, "m")), (expected, Receipt::Open));
}

/// What the control row alone holds acts on each signal when it goes on, and may end before the next.
#[test]
fn bug_signal_to_an_execution_held_by_its_row_was_reported_as_kept() {
    let world = World::new();
    let rig = &mut Rig::new(&world);
    let execution = rig.start("a");
    world.store.hold(execution, rig.instance, "the store refuses its next frame").unwrap();
    let delivered = world.store.deliver(&[signal(execution, "m")]).unwrap();
    let expected = vec![MailDelivery::Accepted { owner: None }];
    assert_eq!((delivered, receipt(&world, execution, "m")), (expected, Receipt::Open));
}
