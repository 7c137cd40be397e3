//! Bugs that the simulator and the cluster tests found, each as the shortest story that shows it.

use std::sync::Arc;

use waypost_core::command::{Outcome, Refusal, Request};
use waypost_core::event::LOG_FORMAT;
use waypost_core::flow;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::config::Config;
use waypost_engine::driver::{Answer, Input, Outgoing, StoreWork, Ticket};
use waypost_engine::{Plans, StoreCalls};
use waypost_ports::store::{LEASE, Mail, MailDelivery, Store};

use crate::support::rig::issuer;
use crate::support::{Rig, World};

/// Takes the claim that waits for the store.
fn take_claim(rig: &mut Rig<'_>) -> StoreWork {
    let is_claim = |work: &StoreWork| matches!(work, StoreWork::Claim { .. });
    let at = rig.work.iter().position(is_claim).expect("a claim waits");
    rig.work.remove(at).unwrap()
}

/// The store made this instance the owner and its answer was lost. No other instance claims what a
/// living one owns, and this one does not know of it.
#[test]
fn a_claim_whose_reply_is_lost_is_made_good_by_a_reconciliation() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(5s); a needs d");
    rig.settle();
    assert_eq!(world.status(execution), Status::Waiting);
    world.pass(6_000);
    rig.renew();
    rig.step();
    let claim = take_claim(&mut rig);
    rig.perform(claim);
    rig.inputs.clear();
    rig.answer_claim(false);
    rig.settle();
    assert_eq!(world.control(execution).unwrap().owner, Some(rig.instance));
    world.pass(rig.config.poll_every.0);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// A failover lost a claim before its owner took the execution over. The log named an owner and the row
/// named none: when that owner died, no instance went on with it.
#[test]
fn bug_a_take_over_under_a_claim_that_was_lost_left_a_row_without_owner() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go); a needs w");
    rig.settle();
    let mail = Mail {
        execution,
        message: "m1".into(),
        actor: None,
        body: signal("go").into(),
        blobs: Vec::new(),
    };
    let before = world.store.with(|tables, _| tables.clone());
    world.store.deliver(&[mail]).unwrap();
    world.pass(rig.config.poll_every.0);
    rig.renew();
    rig.step();
    let claim = take_claim(&mut rig);
    rig.perform(claim);
    world.store.with(|tables, _| *tables = before);
    rig.settle_store();
    assert_eq!(world.control(execution).unwrap().owner, Some(rig.instance));
    drop(rig);
    world.pass(LEASE.0 + 1);
    Rig::new(&world).run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
}

/// A claim was done after the commit that parked the execution, and answered before it.
#[test]
fn a_claim_that_overtakes_the_answer_to_a_park_is_not_forgotten() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(3s); a needs d");
    rig.step();
    let evaluated = rig.take_append();
    let parked = world.append(&evaluated);
    assert_eq!(world.status(execution), Status::Waiting);
    world.pass(4_000);
    rig.renew();
    rig.step();
    let claim = take_claim(&mut rig);
    rig.perform(claim);
    rig.step();
    rig.answer_append(&evaluated, parked);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// A store that lost its latest commits does not know which numbers it gave away.
#[test]
fn a_number_that_is_given_out_twice_is_used_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let first = rig.start("w = signal(go, within 1s); a needs w");
    rig.inputs.push(Input::Numbers(first.0..first.0 + 2));
    let plan = world.flow("a");
    let ticket = rig.submit(&plan);
    rig.settle();
    assert_ne!(rig.started(ticket), first);
    assert_eq!(world.status(rig.started(ticket)), Status::Completed);
    world.check();
}

/// After two thirds of a lease that was not renewed nothing begins: another owner may be about to start it.
#[test]
fn nothing_begins_in_the_last_third_of_a_lease() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let renewed = |world: &World| Input::Renewed { until: world.now().plus(LEASE) };
    rig.inputs.push(renewed(&world));
    let execution = rig.start("a; b needs a");
    let a = rig.take_task("a");
    world.pass(LEASE.0 * 2 / 3);
    rig.finish(&a);
    rig.settle_store();
    assert!(rig.running().is_empty(), "b may not begin");
    rig.inputs.push(renewed(&world));
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// By a clock of this machine the lease is over, whatever the store's time is thought to be.
#[test]
fn nothing_begins_once_the_lease_cannot_be_trusted() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    let execution = rig.start("a; b needs a");
    let a = rig.take_task("a");
    rig.inputs.push(Input::Lapsed);
    rig.finish(&a);
    rig.settle_store();
    assert!(rig.running().is_empty(), "b may not begin");
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Its start was committed when the lease was nearly over, so it was kept back; then it was given
/// up; then the lease was renewed.
#[test]
fn an_attempt_that_was_given_up_while_it_was_kept_back_is_not_made() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    let execution = rig.start("a; b needs a timeout 100ms error continue");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let started = rig.take_append();
    let committed = world.append(&started);
    world.pass(LEASE.0 * 2 / 3 + 1);
    rig.answer_append(&started, committed);
    rig.step();
    assert!(rig.running().is_empty());
    world.pass(10_000);
    rig.step();
    assert_eq!(rig.appends().count(), 1, "the attempt is given up for its silence");
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.step();
    assert!(rig.running().is_empty(), "what is about to be given up does not begin");
    rig.settle();
    assert!(rig.driver.is_quiet(), "its slot is free again");
    assert_eq!(world.calls(execution, "b"), 0);
    world.check();
}

/// A join of the first source fires before the others have settled; a retry must not see more of
/// them than the first attempt saw, since it goes out under the same idempotency key.
#[test]
fn retry_sends_the_same_config_as_the_first_attempt() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let flow =
        "a = pass; b; flaky = task(${{ nodes.b.status }}) needs a, b join 1 cancel-rest retry 3";
    let execution = rig.start(flow);
    rig.settle_store();
    let first = rig.take_task("flaky");
    assert_eq!(first.task.config.text(), "\"RUNNING\"");
    let b = rig.take_task("b");
    rig.finish(&b);
    rig.finish(&first);
    rig.settle_store();
    world.pass(2_000);
    rig.settle_store();
    let second = rig.take_task("flaky");
    assert_eq!(second.task.attempt, 2);
    assert_eq!(second.task.config.text(), first.task.config.text());
    rig.finish(&second);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

fn signal(name: &str) -> Request {
    Request::Signal { name: name.into(), body: Json::null() }
}

/// A recovery that has nothing to record, in one round with something that has: what was to follow
/// the recovery was dropped.
#[test]
fn effects_of_a_decision_without_events_are_not_lost() {
    let world = World::new();
    let mut first = Rig::with(&world, |config| config.frame_commands_max = 1);
    let execution = first.start("w = signal(go); b = pass needs w; e = pass");
    first.step();
    first.perform_appends();
    assert_eq!(world.names(execution).last(), Some(&"NodeWaiting"), "e is not evaluated yet");
    drop(first);
    let mail = Mail {
        execution,
        message: "m1".into(),
        actor: None,
        body: signal("go").into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail]).unwrap();
    world.outlive_leases();
    // Take-over and mail share a frame; the recovery is decided together with what follows it.
    let mut second = Rig::with(&world, |config| config.frame_commands_max = 2);
    second.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// An offer is an effect without an event, too: a node whose slot was gone again when its turn came
/// was never offered another.
#[test]
fn a_node_whose_slot_is_gone_again_is_offered_another() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.start("a");
    let execution = rig.start("b; w = signal(go)");
    rig.settle_store();
    rig.request(execution, signal("other"));
    rig.step();
    let in_flight = rig.take_append();
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step(); // the slot is promised to b, whose execution has a frame in flight
    world.pass(LEASE.0 * 2 / 3); // and now nothing may begin
    rig.request(execution, signal("another"));
    let committed = world.append(&in_flight);
    rig.answer_append(&in_flight, committed);
    rig.settle_store();
    assert!(rig.running().is_empty());
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.settle_store();
    assert_eq!(rig.running(), ["b"]);
    world.check();
}

/// The store lost its latest commits, and with them that the execution was claimed: its row is as
/// old as the log, and the take-over that follows must bring it along.
#[test]
fn a_take_over_without_a_claim_brings_the_control_row_along() {
    let world = World::new();
    let execution = Rig::new(&world).start("a");
    let history = world.store.load(execution).unwrap().unwrap();
    let loaded = waypost_engine::fold(history, &world.plans, &world.store).unwrap();
    let mut again = Rig::new(&world);
    again.inputs.push(Input::Reloaded(Box::new(loaded)));
    again.settle_store();
    let control = world.control(execution).unwrap();
    assert_eq!((control.owner, control.epoch), (Some(again.instance), 2));
    world.check();
}

/// A lease whose renewal does not reach into the driver's time (its clock was set back, or the
/// answer came late) was asked for again at once, and so on, a commit each time.
#[test]
fn a_renewal_that_does_not_help_is_not_asked_for_again_and_again() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let until = world.now().plus(LEASE);
    rig.inputs.push(Input::Renewed { until });
    rig.step();
    world.outlive_leases();
    let plan = world.flow("a");
    rig.submit(&plan);
    rig.step();
    rig.perform_appends();
    rig.step();
    assert_eq!(rig.renewals, 1, "the attempt waits for a lease");
    for _ in 0..5 {
        rig.inputs.push(Input::Renewed { until });
        rig.step();
    }
    assert_eq!(rig.renewals, 1);
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.settle();
    assert!(world.first_open().is_none());
}

/// An engine that stops has nothing to wait for in attempts that it will not make.
#[test]
fn drain_drops_attempts_that_wait_for_the_lease() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.start("a; b needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let started = rig.take_append();
    let committed = world.append(&started);
    world.pass(LEASE.0 * 2 / 3 + 1);
    rig.answer_append(&started, committed);
    rig.step();
    assert!(!rig.driver.is_quiet(), "b is kept back");
    rig.inputs.push(Input::Drain);
    rig.step();
    assert!(rig.driver.is_quiet());
    rig.inputs.push(Input::Renewed { until: world.now().plus(LEASE) });
    rig.step();
    assert!(rig.running().is_empty());
}

/// A signal was put into the inbox, its execution took it and ended, and only then the sender looked
/// whom to wake: the answer was that the execution had ended without it.
#[test]
fn mail_with_which_an_execution_ended_is_not_answered_as_too_late() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go)");
    rig.settle();
    let mail = |message: &str| Mail {
        execution,
        message: message.into(),
        actor: None,
        body: signal("go").into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail("m1")]).unwrap();
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    let answer = |message: &str| {
        let outgoing = Outgoing { mail: mail(message), chosen: false, ticket: Ticket(1) };
        let performed = rig.store_calls().delivered(outgoing, &MailDelivery::Ended);
        match performed.inputs.into_iter().next() {
            Some(Input::Delivered { answer, .. }) => answer,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(answer("m1"), Answer::Accepted(_)));
    assert!(matches!(answer("m2"), Answer::Refused(Refusal::Ended(Status::Completed))));
}

/// The store failed over while both versions had claimed an execution, the newer one wrote, and the
/// older one, which owns it by its row, read it again.
#[test]
fn older_version_quarantines_an_execution_of_a_newer_one() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.log_format_min = LOG_FORMAT);
    let execution = rig.start("a");
    let plans = Arc::new(Plans::new(Box::new(flow::compile)));
    let older = Config { fold: LOG_FORMAT - 1, ..Config::default() };
    let store_calls = StoreCalls {
        about: waypost_ports::store::About::default(),
        running: Arc::default(),
        store: Arc::new(world.store.clone()),
        plans,
        config: older,
        instance: rig.instance,
        issuer: issuer(),
        nudges: Arc::new(waypost_ports::nudge::Alone),
        trees: Arc::default(),
    };
    let performed = store_calls.perform(StoreWork::Reload(execution));
    assert!(matches!(performed.inputs[..], [Input::Held]) && performed.again.is_empty());
    let control = world.control(execution).unwrap();
    assert_eq!(control.owner, None);
    assert!(control.held.is_some_and(|reason| reason.contains("newer version")));
}

/// Mail that an execution had taken in came into the inbox a second time: a failover lost the frame that
/// deleted it, or its sender had looked at the log before that frame. No event follows from it, and so
/// no frame that would delete it: it lay there, and kept out what others said after it, until its own
/// execution had something to write.
#[test]
fn bug_repeated_mail_kept_out_later_mail() {
    let world = World::new();
    let mut owner = Rig::with(&world, |config| config.claim_batch = 1);
    let mut other = Rig::new(&world);
    let executions = [(); 4].map(|()| owner.start("a = worker"));
    let [repeated @ .., last] = executions;
    let settle = |rig: &mut Rig<'_>| {
        for _ in 0..4 {
            world.pass(1_000);
            rig.renew();
            rig.settle_store();
        }
    };
    let mail = |execution| world.store.load(execution).unwrap().unwrap().mail;
    for execution in repeated {
        other.say(1, (execution, "a", 1), Outcome::Started);
    }
    other.settle_store();
    let again: Vec<Mail> = repeated.into_iter().flat_map(mail).collect();
    settle(&mut owner);
    assert!(repeated.iter().all(|execution| world.state(*execution).running == 1));
    world.store.deliver(&again).unwrap();
    settle(&mut owner);
    assert!(repeated.iter().all(|execution| mail(*execution).len() == 1), "nothing deletes it");
    other.say(2, (last, "a", 1), Outcome::Completed(Json::null()));
    other.settle_store();
    settle(&mut owner);
    assert_eq!(world.status(last), Status::Completed);
    world.check();
}
