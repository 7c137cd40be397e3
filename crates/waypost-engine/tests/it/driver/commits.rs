//! One append in flight, decisions gathered while it is, and nothing said or done before it lands.

use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::event::Event;
use waypost_core::frame::decode;
use waypost_core::id::ExecutionId;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Input};
use waypost_ports::store::{Appended, Idempotency, Store, TakenName};

use crate::support::{Rig, World};

fn signal(name: &str) -> Request {
    Request::Signal { name: name.into(), body: waypost_core::json::Json::null() }
}

#[test]
fn a_chain_ends_and_each_task_costs_one_commit() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; b needs a; c needs b");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(world.frames(execution), 4);
    assert_eq!(rig.driver.live(), 0);
    world.check();
}

#[test]
fn commands_during_an_append_are_decided_as_one_frame() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; b; c; j needs a, b, c");
    let [a, b, c] = ["a", "b", "c"].map(|node| rig.take_task(node));
    rig.finish(&a);
    rig.step();
    let first = rig.take_append();
    rig.finish(&b);
    rig.step();
    rig.finish(&c);
    let ticket = rig.request(execution, signal("early"));
    rig.step();
    assert_eq!(rig.appends().count(), 0, "nothing is appended while a frame is in flight");
    assert!(rig.answer(ticket).is_none());

    let appended = world.append(&first);
    rig.answer_append(&first, appended);
    rig.step();
    let second = rig.take_append();
    let names: Vec<_> = decode(&second.body).unwrap().iter().map(Event::name).collect();
    let expected =
        ["NodeCompleted", "NodeCompleted", "NodeScheduled", "NodeStarted", "SignalReceived"];
    assert_eq!(names, expected);
    assert_eq!(second.header.parent, Some(first.header.as_parent()));
    assert!(rig.running().is_empty() && rig.answer(ticket).is_none(), "not before the commit");

    let appended = world.append(&second);
    rig.answer_append(&second, appended);
    rig.step();
    assert_eq!(rig.running(), ["j"]);
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { status: Status::Running, .. })));
    rig.run_to_end();
    world.check();
}

#[test]
fn neither_replies_nor_effects_precede_the_first_commit() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let ticket = rig.submit(&world.flow("a"));
    rig.step();
    rig.step();
    assert!(rig.answer(ticket).is_none() && rig.running().is_empty() && rig.committed.is_empty());
    rig.perform_appends();
    rig.step();
    rig.started(ticket);
    assert_eq!((rig.running(), rig.committed.len()), (vec!["a"], 1));
}

#[test]
fn a_frame_whose_reply_was_lost_is_committed_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; b needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let append = rig.take_append();
    world.append(&append);
    let again = world.append(&append);
    assert!(matches!(again, Appended::Committed { .. }));
    rig.answer_append(&append, again);
    rig.step();
    assert_eq!(rig.running(), ["b"]);
    rig.run_to_end();
    assert_eq!(world.calls(execution, "a"), 1);
    world.check();
}

#[test]
fn a_fenced_frame_has_no_effects_and_its_execution_is_forgotten() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 2);
    rig.start("a; other; b needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let append = rig.take_append();
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    assert_eq!(rig.running(), ["other"], "b never runs");
    let other = rig.take_task("other");
    assert!(rig.cancelled.contains(&other.task.token), "the attempt that still runs is cancelled");
    assert_eq!(rig.driver.live(), 0);
    rig.finish(&other);
    rig.step();
    assert!(rig.driver.is_quiet(), "the slot of b came back");
}

#[test]
fn the_slot_of_a_fenced_start_is_not_lost() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    for _ in 0..3 {
        rig.start("a; b needs a");
        rig.settle_store();
        let a = rig.take_task("a");
        rig.finish(&a);
        rig.step();
        let append = rig.take_append();
        rig.answer_append(&append, Appended::Fenced);
        rig.step();
        rig.work.clear();
    }
    rig.start("last");
    assert_eq!(rig.running(), ["last"]);
}

#[test]
fn a_request_in_a_fenced_frame_is_answered() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let ticket = rig.request(execution, signal("s"));
    rig.step();
    let append = rig.take_append();
    let waiting = rig.request(execution, Request::Pause { now: false, reason: None });
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    for ticket in [ticket, waiting] {
        assert!(matches!(rig.answer(ticket), Some(Answer::Moved)), "{:?}", rig.answer(ticket));
    }
}

/// A claim read an execution that was in memory, and was answered after its end: the execution came
/// into memory again, until the log refused its take-over. The end was not looked up for a caller
/// that asked for it meanwhile.
#[test]
fn bug_end_awaited_during_a_fenced_take_over_was_never_answered() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let history = world.store.load(execution).unwrap().unwrap();
    let claimed = waypost_engine::fold(history, &world.plans, &world.store).unwrap();
    rig.run_to_end();
    rig.inputs.push(Input::Reloaded(Box::new(claimed)));
    rig.step();
    assert_eq!(rig.driver.live(), 1, "its take-over is in flight");
    let ticket = rig.await_end(execution);
    rig.settle_store();
    assert_eq!(rig.driver.live(), 0);
    let answer = rig.answer(ticket);
    assert!(matches!(answer, Some(Answer::Ended(_))), "{answer:?}");
    world.check();
}

#[test]
fn second_submission_under_one_key_returns_the_first() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let plan = world.flow("w = signal(go); a needs w");
    let key = ExecutionId("order-17".into());
    let idempotency = Idempotency { key: "k".into(), digest: [1; 32] };
    let mut first = rig.submission(&plan);
    (first.request.key, first.request.idempotency) = (Some(key.clone()), Some(idempotency.clone()));
    let ticket = first.ticket;
    rig.inputs.push(Input::Start(first));
    rig.settle_store();
    let existing = rig.started(ticket);

    for (digest, expected) in
        [([1; 32], TakenName::SameSubmission), ([2; 32], TakenName::IdempotencyKey)]
    {
        let mut again = rig.submission(&plan);
        again.request.key = Some(key.clone());
        again.request.idempotency = Some(Idempotency { digest, ..idempotency.clone() });
        again.await_end = Some(rig.ticket());
        let (ticket, end) = (again.ticket, again.await_end.unwrap());
        rig.inputs.push(Input::Start(again));
        rig.settle_store();
        for ticket in [ticket, end] {
            match rig.answer(ticket) {
                Some(Answer::Exists { existing: of, taken }) => {
                    assert_eq!((*of, *taken), (existing, expected));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(world.executions(), [existing]);
}

#[test]
fn the_slot_of_a_duplicate_submission_is_not_lost() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let plan = world.flow("a");
    for round in 0..3 {
        let mut start = rig.submission(&plan);
        start.request.key = Some(ExecutionId("one".into()));
        rig.inputs.push(Input::Start(start));
        rig.settle();
        assert!(rig.driver.is_quiet(), "round {round}");
    }
    let other = rig.start("b");
    assert_eq!(rig.running(), ["b"]);
    rig.settle();
    assert_eq!(world.status(other), Status::Completed);
}

#[test]
fn a_poisoned_submission_is_refused_with_the_reason() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let mut start = rig.submission(&world.flow("a"));
    start.await_end = Some(rig.ticket());
    let (ticket, end) = (start.ticket, start.await_end.unwrap());
    rig.inputs.push(Input::Start(start));
    rig.step();
    let append = rig.take_append();
    rig.answer_append(&append, Appended::Poisoned { reason: "too big".to_owned() });
    rig.settle_store();
    for ticket in [ticket, end] {
        let answer = rig.answer(ticket);
        assert!(matches!(answer, Some(Answer::Poisoned(why)) if why == "too big"), "{answer:?}");
    }
    rig.start("b");
    assert_eq!(rig.running(), ["b"], "its slot came back");
}

#[test]
fn poisoned_frame_quarantines_its_execution_only() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 2);
    let poisoned = rig.start("a; b needs a");
    let other = rig.start("c; d needs c");
    let a = rig.take_task("a");
    rig.finish(&a);
    let ticket = rig.request(poisoned, signal("s"));
    rig.step();
    let append = rig.take_append();
    rig.answer_append(&append, Appended::Poisoned { reason: "bad bytes".to_owned() });
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Poisoned(_))));
    let control = world.control(poisoned).unwrap();
    assert_eq!((control.owner, control.held.as_deref()), (None, Some("bad bytes")));
    assert_eq!(world.status(other), Status::Completed);
    assert!(rig.driver.is_quiet());
    world.check();

    // A person looked at it: it goes on from its last good frame.
    rig.request(poisoned, Request::Resume { reason: None });
    rig.run_to_end();
    assert_eq!(world.status(poisoned), Status::Completed);
    assert_eq!(world.calls(poisoned, "a"), 2, "the report that could not be kept was lost");
}

#[test]
fn a_burst_beyond_the_limit_of_a_frame_takes_several() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.frame_commands_max = 3);
    let execution = rig.start("a; b needs a");
    let tickets: Vec<_> = (0..8).map(|_| rig.request(execution, signal("s"))).collect();
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.settle();
    for ticket in tickets {
        assert!(matches!(rig.answer(ticket), Some(Answer::Done { .. } | Answer::Ended(_))));
    }
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn frame_with_payloads_at_the_limit_leaves_further_letters_to_the_next() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.frame_bytes_max = 1_000);
    let execution = rig.start("a; b needs a");
    let large = |number: usize| Request::Signal {
        name: format!("s{number}").into(),
        body: serde_json::from_str(&format!("{:?}", "x".repeat(600))).unwrap(),
    };
    let tickets: Vec<_> = (0..5).map(|number| rig.request(execution, large(number))).collect();
    rig.settle();
    for ticket in tickets {
        assert!(matches!(rig.answer(ticket), Some(Answer::Done { .. })));
    }
    let signals = |events: &[Event]| {
        let is_signal = |event: &&Event| event.name() == "SignalReceived";
        events.iter().filter(is_signal).count()
    };
    let per_frame: Vec<_> =
        rig.committed.iter().map(|frame| signals(&frame.events)).filter(|n| *n > 0).collect();
    assert_eq!(per_frame, [2, 2, 1], "a frame ends with the letter that reaches the limit");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn frames_in_flight_at_the_limit_hold_back_further_decisions() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.in_flight_bytes_max = 1);
    let executions = [rig.start("a"), rig.start("a"), rig.start("a")];
    for _ in executions {
        let a = rig.take_task("a");
        rig.finish(&a);
    }
    for left in [2, 1, 0] {
        rig.step();
        let append = rig.take_append();
        assert_eq!(rig.appends().count(), 0, "one frame reaches the limit; {left} wait");
        let appended = world.append(&append);
        rig.answer_append(&append, appended);
    }
    rig.run_to_end();
    for execution in executions {
        assert_eq!(world.status(execution), Status::Completed);
    }
    world.check();
}

#[test]
fn a_take_over_with_more_mail_than_a_frame_holds_still_recovers() {
    let world = World::new();
    let execution = {
        let mut first = Rig::new(&world);
        let execution = first.start("p = pass; q = signal(go) needs p; b = pass needs q");
        // Killed after p's start is durable and before it is evaluated.
        execution
    };
    world.outlive_leases();
    let mut rig = Rig::with(&world, |config| config.frame_commands_max = 3);
    for number in 0..7 {
        let mail = waypost_ports::store::Mail {
            execution,
            message: format!("m{number}").into(),
            actor: None,
            body: signal("noise").into(),
            blobs: Vec::new(),
        };
        world.store.deliver(&[mail]).unwrap();
    }
    rig.settle();
    assert_eq!(world.status(execution), Status::Waiting, "{:?}", world.names(execution));
    rig.request(execution, signal("go"));
    rig.run_to_end();
    world.check();
}

#[test]
fn observer_receives_committed_events_in_order_and_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; w = signal(s, within 10ms) needs a error continue; b needs w");
    rig.run_to_end();
    let observed: Vec<_> =
        rig.committed.iter().flat_map(|committed| committed.events.iter().cloned()).collect();
    assert_eq!(observed, world.events(execution));
    let mut next = 1;
    for committed in &rig.committed {
        assert_eq!(committed.first_seq, next);
        next += u64::try_from(committed.events.len()).unwrap();
        assert_eq!(Arc::strong_count(&committed.events), 1);
    }
}
