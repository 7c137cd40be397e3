//! Signals beyond those that an execution keeps: as requests, and in its inbox.

use waypost_core::command::{Refusal, Request};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::EARLY_SIGNALS_BYTES_MAX;
use waypost_core::status::Status;
use waypost_engine::Receipt;
use waypost_engine::driver::{Answer, Input, StoreWork, TaskOrder};
use waypost_ports::outbox::AwaitedResult;
use waypost_ports::store::{Mail, MailDelivery, Store};

use super::receipts::receipt;
use crate::support::{Rig, World};

/// So many signals of this size are kept, and not one more.
const FILLING: usize = 8;

fn large(name: &str) -> Request {
    let text = "x".repeat(EARLY_SIGNALS_BYTES_MAX / FILLING - 2);
    Request::Signal { name: name.into(), body: Json::from_value(&text.into()) }
}

fn mail(execution: ExecutionNo, message: &str, request: Request) -> Mail {
    let (message, body) = (message.into(), request.into());
    Mail { execution, message, actor: None, body, blobs: Vec::new() }
}

/// Puts mail into the inbox and has it read.
fn deliver(rig: &mut Rig<'_>, mail: Mail) {
    rig.world.store.deliver(&[mail]).unwrap();
    rig.inputs.push(Input::Nudge);
}

/// An execution that keeps as many signals as it may, and is paused.
fn paused(rig: &mut Rig<'_>, flow: &str) -> ExecutionNo {
    let execution = rig.start(flow);
    rig.settle();
    for number in 0..FILLING {
        rig.send(execution, large("spam"), &format!("m{number}"));
        rig.settle();
    }
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    assert!(rig.world.control(execution).unwrap().held.is_some());
    assert_eq!(rig.world.state(execution).early.len(), FILLING);
    execution
}

fn resume(rig: &mut Rig<'_>, execution: ExecutionNo) {
    rig.request(execution, Request::Resume { reason: None });
    rig.settle();
}

#[test]
fn bug_signal_to_a_paused_execution_was_dropped_before_the_resume_that_takes_it() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = paused(&mut rig, "w = signal(go)");
    deliver(
        &mut rig,
        mail(execution, "go", Request::Signal { name: "go".into(), body: Json::null() }),
    );
    resume(&mut rig, execution);
    let names = world.names(execution);
    assert_eq!(world.status(execution), Status::Completed, "{names:?}");
    assert_eq!(world.names(execution).iter().filter(|name| **name == "MessageIgnored").count(), 0);
    world.check();
}

#[test]
fn bug_result_of_a_message_was_dropped_behind_many_signals() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = paused(&mut rig, "n = notify(hello); w = signal(go)");
    let state = world.state(execution);
    let seq = state.nodes().map(|(_, node)| node.wait_seq).find(|seq| *seq > 0).unwrap();
    let result = AwaitedResult { execution, seq, mark: 7, delivered: 1, failed: 0 };
    deliver(&mut rig, result.mail());
    resume(&mut rig, execution);
    let names = world.names(execution);
    assert!(names.contains(&"NodeCompleted"), "{names:?}");
    world.check();
}

/// A request may be repeated; mail is consumed, or it would be read for ever.
#[test]
fn signal_beyond_the_limit_leaves_no_trace_as_a_request_and_one_event_as_mail() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; v = signal(spam) needs a; w = signal(go)");
    let a = rig.take_task("a");
    for number in 0..FILLING {
        rig.send(execution, large("spam"), &format!("m{number}"));
        rig.settle_store();
    }
    let events = world.names(execution).len();
    for _ in 0..2 {
        let ticket = rig.send(execution, large("spam"), "more");
        rig.settle_store();
        let answer = rig.answer(ticket);
        assert!(matches!(answer, Some(Answer::Refused(Refusal::SignalsTooLarge(_)))), "{answer:?}");
    }
    assert_eq!(world.names(execution).len(), events);
    deliver(&mut rig, mail(execution, "mailed", large("spam")));
    rig.inputs.push(Input::Mail(vec![mail(execution, "mailed", large("spam"))]));
    rig.settle_store();
    assert_eq!(world.names(execution).last(), Some(&"MessageIgnored"));
    // A wait takes one of them: there is room for the request.
    rig.finish(&a);
    rig.settle_store();
    let ticket = rig.send(execution, large("spam"), "more");
    rig.settle();
    assert!(!matches!(rig.answer(ticket), Some(Answer::Refused(_))), "{:?}", rig.answer(ticket));
    assert!(world.state(execution).messages.contains("more"));
    world.check();
}

/// An execution that keeps as many signals as it may, and takes one of them when its task `a` is done.
fn full(rig: &mut Rig<'_>) -> (ExecutionNo, TaskOrder) {
    let execution = rig.start("a; v = signal(spam) needs a; w = signal(go)");
    let a = rig.take_task("a");
    for number in 0..FILLING {
        rig.send(execution, large("spam"), &format!("m{number}"));
    }
    rig.settle_store();
    (execution, a)
}

/// Puts a signal into the inbox and has the driver ask for it.
fn deliver_spam(rig: &mut Rig<'_>, execution: ExecutionNo) -> Vec<MailDelivery> {
    rig.inputs.push(Input::MailWaits);
    rig.world.store.deliver(&[mail(execution, "m", large("spam"))]).unwrap()
}

fn count(world: &World, execution: ExecutionNo, event: &str) -> usize {
    world.names(execution).iter().filter(|name| **name == event).count()
}

#[test]
fn bug_signal_refused_as_mail_could_not_be_repeated() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let (execution, a) = full(&mut rig);
    for refusals in 1..=2 {
        let delivered = deliver_spam(&mut rig, execution);
        assert!(matches!(delivered[..], [MailDelivery::Accepted { .. }]), "{delivered:?}");
        assert_eq!(receipt(&world, execution, "m"), Receipt::Open);
        rig.settle_store();
        assert_eq!(count(&world, execution, "MessageIgnored"), refusals);
        assert_eq!(receipt(&world, execution, "m"), Receipt::Refused);
    }
    rig.finish(&a);
    rig.settle_store();
    let kept = count(&world, execution, "SignalReceived");
    deliver_spam(&mut rig, execution);
    rig.settle_store();
    assert_eq!(receipt(&world, execution, "m"), Receipt::Taken);
    // From now on, a repeat is a duplicate.
    deliver_spam(&mut rig, execution);
    rig.settle_store();
    assert_eq!(count(&world, execution, "SignalReceived"), kept + 1);
    assert_eq!(count(&world, execution, "MessageIgnored"), 2);
    world.check();
}

/// A read of the inbox that began before a refusal was committed brings the refused signal once more.
/// Its sender has the answer: the signal is not taken, even if there is room for it by then.
#[test]
fn signal_refused_as_mail_is_not_taken_from_an_older_read_and_its_repeat_is() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let (execution, a) = full(&mut rig);
    deliver_spam(&mut rig, execution);
    rig.step();
    rig.perform_all();
    rig.step();
    let refusal = rig.take_append();
    // Two more reads: one comes while the refusal is in flight, the other one after it.
    let read_mail = |rig: &mut Rig<'_>| {
        rig.inputs.push(Input::MailWaits);
        rig.step();
        rig.perform_all();
        let spam = |input: &Input| matches!(input, Input::Mail(mail) if mail.len() == 1);
        assert!(rig.inputs.iter().any(spam));
    };
    read_mail(&mut rig);
    rig.step();
    read_mail(&mut rig);
    let late = std::mem::take(&mut rig.inputs);
    rig.perform(StoreWork::Append(refusal));
    rig.step();
    rig.finish(&a);
    rig.settle_store();
    assert_eq!(world.state(execution).early.len(), FILLING - 1, "there is room for it");
    let delivered = deliver_spam(&mut rig, execution);
    assert!(matches!(delivered[..], [MailDelivery::Accepted { .. }]), "{delivered:?}");
    rig.inputs.extend(late);
    rig.step();
    assert_eq!(rig.appends().count(), 0, "it is decided again");
    assert_eq!(receipt(&world, execution, "m"), Receipt::Open);
    rig.settle_store();
    assert_eq!(count(&world, execution, "MessageIgnored"), 1);
    assert_eq!(receipt(&world, execution, "m"), Receipt::Taken);
    world.check();
}

/// Of a request and mail with one id that one frame refuses, the mail leaves the inbox.
#[test]
fn signal_refused_as_mail_and_as_request_at_once_leaves_the_inbox() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let (execution, _) = full(&mut rig);
    let spam = mail(execution, "m", large("spam"));
    world.store.deliver(std::slice::from_ref(&spam)).unwrap();
    rig.inputs.push(Input::Mail(vec![spam]));
    let ticket = rig.send(execution, large("spam"), "m");
    rig.settle_store();
    let answer = rig.answer(ticket);
    assert!(matches!(answer, Some(Answer::Refused(Refusal::SignalsTooLarge(_)))), "{answer:?}");
    assert_eq!(count(&world, execution, "MessageIgnored"), 1);
    assert_eq!(receipt(&world, execution, "m"), Receipt::Refused);
    world.check();
}
