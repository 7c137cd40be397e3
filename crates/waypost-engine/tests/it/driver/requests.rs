//! Requests to executions that are live, parked, ending, ended or unknown: each is answered, once,
//! and never with a guess.

use waypost_core::command::{Refusal, Request};
use waypost_core::id::{ExecutionNo, NodeIx};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::driver::{Answer, Input, Outgoing, StoreWork};
use waypost_ports::store::{Appended, Mail, Share, Store};

use crate::support::world::START;
use crate::support::{Rig, World};

const CANCEL: Request = Request::Cancel { reason: None };

#[test]
fn a_live_execution_answers_when_the_request_is_durable() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let ticket = rig.request(execution, CANCEL);
    rig.step();
    assert!(rig.answer(ticket).is_none());
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { status: Status::Ending, .. })));
    assert_eq!(world.status(execution), Status::Cancelled);
    world.check();
}

#[test]
fn a_parked_execution_gets_mail() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go)");
    rig.settle();
    let ticket = rig.request(execution, CANCEL);
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Accepted(_))));
    assert_eq!(world.status(execution), Status::Cancelled, "claimed at once, not at the next poll");
    world.check();
}

#[test]
fn an_ended_and_an_unknown_execution_refuse() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = pass");
    rig.settle();
    let ended = rig.request(execution, CANCEL);
    let unknown = rig.request(ExecutionNo(4711), CANCEL);
    rig.settle();
    let refusal = rig.answer(ended);
    let expected = Refusal::Ended(Status::Completed);
    assert!(matches!(refusal, Some(Answer::Refused(why)) if *why == expected), "{refusal:?}");
    assert!(matches!(rig.answer(unknown), Some(Answer::Unknown)));
}

/// The cancellation arrives while the frame that ends the execution is on its way to the store.
#[test]
fn request_during_the_append_of_the_end_is_answered_with_the_end() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let ticket = rig.request(execution, CANCEL);
    rig.step();
    rig.settle();
    match rig.answer(ticket) {
        Some(Answer::Ended(end)) => assert_eq!(end.status, Status::Completed),
        other => panic!("the caller hears {other:?}"),
    }
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn a_refused_request_writes_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let frames = world.frames(execution);
    let ticket = rig.request(execution, Request::Resume { reason: None });
    rig.step();
    assert!(matches!(rig.answer(ticket), Some(Answer::Refused(Refusal::NotPaused))));
    assert_eq!((world.frames(execution), rig.appends().count()), (frames, 0));
}

#[test]
fn caller_that_awaits_an_end_is_answered_after_a_park() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(1m); o = output(7) needs d");
    let first = rig.await_end(execution);
    rig.settle();
    assert_eq!(rig.driver.live(), 0);
    let second = rig.await_end(execution);
    rig.run_to_end();
    for ticket in [first, second] {
        match rig.answer(ticket) {
            Some(Answer::Ended(end)) => {
                assert_eq!(end.output, Some(Json::parse("7").unwrap()));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn caller_that_awaits_a_past_end_is_answered() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("o = output(7)");
    rig.settle();
    let ticket = rig.await_end(execution);
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Ended(_))), "{:?}", rig.answer(ticket));
}

#[test]
fn a_user_pause_holds_and_a_resumption_releases() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; b needs a");
    let a = rig.take_task("a");
    let ticket = rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle_store();
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { status: Status::Running, .. })));
    rig.finish(&a);
    rig.settle();
    assert_eq!((world.status(execution), world.calls(execution, "b")), (Status::Paused, 0));
    let control = world.control(execution).unwrap();
    assert_eq!((control.owner, control.held.as_deref()), (None, Some("paused by a user")));

    // A signal is kept and does not wake it; a resumption does.
    rig.request(execution, Request::Signal { name: "s".into(), body: Json::null() });
    rig.settle();
    assert_eq!(rig.driver.live(), 0);
    rig.request(execution, Request::Resume { reason: None });
    rig.settle_store();
    let control = world.control(execution).unwrap();
    assert_eq!(control.held, None, "it is no longer held");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// The sender repeats a message that was consumed long ago; its execution has nothing to append
/// for hours.
#[test]
fn a_message_that_keeps_coming_back_is_deleted_with_the_next_frame() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let mail = waypost_ports::store::Mail {
        execution,
        message: "m".into(),
        actor: None,
        body: Request::Signal { name: "s".into(), body: Json::null() }.into(),
        blobs: Vec::new(),
    };
    world.store.deliver(std::slice::from_ref(&mail)).unwrap();
    rig.inputs.push(Input::Mail(vec![mail.clone()]));
    rig.settle_store();
    world.store.deliver(std::slice::from_ref(&mail)).unwrap();
    for _ in 0..50 {
        rig.inputs.push(Input::Mail(vec![mail.clone()]));
        rig.step();
    }
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    assert_eq!(rig.take_append().side.consumed.len(), 1);
}

/// The request found the execution parked; before its mail was delivered, a claim that knew nothing
/// of it brought the execution back.
#[test]
fn mail_to_an_execution_that_was_claimed_meanwhile_is_read_at_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let parked = rig.start("d = delay(3s); w = signal(go, within 1500ms) needs d; a needs w");
    rig.settle();
    world.pass(3_000);
    rig.step();
    let work = std::mem::take(&mut rig.work);
    let ticket = rig.request(parked, Request::Signal { name: "go".into(), body: Json::null() });
    rig.step();
    work.into_iter().for_each(|work| rig.perform(work));
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Accepted(_))));
    assert_eq!(world.status(parked), Status::Completed, "without waiting for a poll");
    world.check();
}

/// A broken invariant of the core concerns one execution.
#[test]
fn decide_panic_quarantines_the_execution_and_answers_callers() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let broken = rig.start("w = signal(go)");
    rig.settle();
    let request = waypost_ports::store::ClaimRequest {
        instance: rig.instance,
        fold: waypost_core::event::LOG_FORMAT,
        limit: 1,
        share: Share::ALL,
        only: Some(vec![broken]),
        held: None,
        suspects: true,
        ahead: Millis(0),
    };
    let mail = waypost_ports::store::Mail {
        execution: broken,
        message: "m".into(),
        actor: None,
        body: Request::Signal { name: "go".into(), body: Json::null() }.into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail]).unwrap();
    let history = world.store.claim(&request).unwrap().claimed.remove(0);
    let mut loaded = waypost_engine::fold(history, &world.plans, &world.store).unwrap();
    // A plan that is not the execution's: the state has no entry for its second node.
    loaded.plan = world.flow("w = signal(go); x = pass needs w");
    rig.inputs.push(Input::Claimed {
        share: Share::ALL,
        loaded: vec![loaded],
        copied: 0,
        more: false,
        next_due: None,
        at: world.now(),
        answered: true,
    });
    let ticket = rig.request(broken, CANCEL);
    let other = rig.start("a");
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Moved)), "{:?}", rig.answer(ticket));
    let held = world.control(broken).unwrap().held.unwrap();
    assert!(held.contains("decide panicked"), "{held}");
    assert_eq!(world.status(other), Status::Completed);
    assert!(rig.driver.is_quiet());
}

/// Both arrive together; the frame that the first one leads to does not go in.
#[test]
fn duplicate_is_refused_only_after_the_first_is_durable() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let pause = Request::Pause { now: false, reason: None };
    let (first, second) =
        (rig.send(execution, pause.clone(), "m"), rig.send(execution, pause, "m"));
    rig.step();
    assert!(rig.answer(first).is_none() && rig.answer(second).is_none());
    let append = rig.take_append();
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    for ticket in [first, second] {
        assert!(matches!(rig.answer(ticket), Some(Answer::Moved)), "{:?}", rig.answer(ticket));
    }
}

/// The first one found the execution parked, the second one in memory, with the mail unread.
#[test]
fn a_message_in_the_inbox_and_in_the_mailbox_is_consumed_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go); v = signal(go) needs w");
    rig.settle();
    let go = Request::Signal { name: "go".into(), body: Json::null() };
    let first = rig.send(execution, go.clone(), "m");
    rig.step();
    let second = rig.send(execution, go, "m");
    rig.settle();
    assert!(matches!(rig.answer(first), Some(Answer::Accepted(_))));
    let refused = rig.answer(second);
    assert!(matches!(refused, Some(Answer::Refused(Refusal::Duplicate))), "{refused:?}");
    let signals = world.names(execution).iter().filter(|name| **name == "SignalReceived").count();
    assert_eq!((signals, world.status(execution)), (1, Status::Waiting));
    world.check();
}

#[test]
fn requested_retry_does_not_wait() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("flaky retry 3");
    for attempt in [1, 2] {
        let flaky = rig.take_task("flaky");
        assert_eq!(flaky.task.attempt, attempt);
        rig.finish(&flaky);
        rig.settle_store();
        let wait = world.state(execution).node(NodeIx(0)).wait_seq;
        let ticket = rig.request(execution, Request::CompleteWait { wait, body: Json::null() });
        rig.settle_store();
        // The second wait is long enough for it to have been parked.
        let answer = rig.answer(ticket);
        assert!(matches!(answer, Some(Answer::Done { .. } | Answer::Accepted(_))), "{answer:?}");
    }
    rig.settle();
    assert_eq!((world.status(execution), world.now()), (Status::Completed, START));
    world.check();
}

/// Many send at once, and what they send goes into inboxes in one call.
#[test]
fn requests_that_go_together_are_each_answered_for_themselves() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let waits = rig.start("w = signal(go); v = signal(on) needs w");
    let ended = rig.start("a = pass");
    rig.settle();
    rig.send(waits, signal("other"), "before");
    rig.settle();
    let mut work = Vec::new();
    let addressed = [(waits, "one"), (waits, "one"), (waits, "before"), (ended, "two")];
    for (execution, message) in addressed.into_iter().chain([(ExecutionNo(4711), "three")]) {
        let (message, actor, body) = (message.into(), None, signal("go"));
        let mail = Mail { execution, message, actor, body: body.into(), blobs: Vec::new() };
        work.push(StoreWork::Deliver(Outgoing { mail, chosen: true, ticket: rig.ticket() }));
    }
    let performed = rig.store_calls().perform_all(work);
    assert!(performed.again.is_empty());
    let answers: Vec<String> = performed
        .inputs
        .iter()
        .map(|input| match input {
            Input::Delivered { answer, .. } => format!("{answer:?}"),
            other => panic!("{other:?}"),
        })
        .collect();
    // What was known comes first, then what was delivered, in its order.
    let expected =
        ["Refused(Duplicate)", "Accepted", "Refused(Duplicate)", "Refused(Ended", "Unknown"];
    assert_eq!(answers.len(), expected.len());
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.starts_with(expected), "{answers:?}");
    }
    rig.inputs.extend(performed.inputs);
    rig.settle();
    assert!(world.control(waits).is_some(), "one signal was one signal");
    rig.request(waits, signal("on"));
    rig.settle();
    assert_eq!(world.status(waits), Status::Completed);
    world.check();
}

fn signal(name: &str) -> Request {
    Request::Signal { name: name.into(), body: Json::null() }
}
