//! Signals from one execution to another: they arrive once, wherever both are.

use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;

use crate::support::{Rig, World};

fn output(world: &World, execution: ExecutionNo) -> String {
    let end = world.state(execution).end.expect("it has ended");
    end.output.map(|output| output.text().to_owned()).unwrap_or_default()
}

fn count(world: &World, execution: ExecutionNo, name: &str) -> usize {
    world.names(execution).iter().filter(|found| **found == name).count()
}

#[test]
fn signal_reaches_an_execution_that_another_instance_has() {
    let world = World::new();
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let receiver = one.start("w = signal(go); o = output(${{ nodes.w.output.from }}) needs w");
    one.settle();
    let id = world.state(receiver).created.key.clone();
    let sender = two.start(&format!("e = emit({id}, go)"));
    two.run_to_end();
    one.run_to_end();
    assert_eq!(world.status(sender), Status::Completed);
    assert_eq!(output(&world, receiver), r#""emit""#);
    assert_eq!(count(&world, receiver, "SignalReceived"), 1);
    world.check();
}

#[test]
fn execution_may_signal_itself() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("e = emit(${{ execution.id }}, go); w = signal(go)");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(count(&world, execution, "SignalReceived"), 1);
    world.check();
}

#[test]
fn signal_with_a_reserved_name_is_not_sent() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    for to in ["${{ execution.id }}", "key 7"] {
        let sender = rig.start(&format!("e = emit({to}, waypost.delivery.5)"));
        rig.run_to_end();
        let failure = world.state(sender).end.and_then(|end| end.failure).expect("it failed");
        assert_eq!(failure.kind, "invalid_config");
        assert!(failure.message.contains("reserved"), "{}", failure.message);
        assert_eq!(count(&world, sender, "SignalReceived"), 0);
    }
}

#[test]
fn signal_without_a_receiver_says_why() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let ended = rig.start("a = pass");
    rig.run_to_end();
    let id = world.state(ended).created.key.clone();
    for (to, why) in [(id.to_string(), "has ended"), ("exe_nowhere".to_owned(), "there is no")] {
        let sender = rig.start(&format!("e = emit({to}, go)"));
        let optional = rig.start(&format!("e = emit({to}, go, optional)"));
        rig.run_to_end();
        let failure = world.state(sender).end.and_then(|end| end.failure).expect("it failed");
        assert_eq!(failure.kind, "no_receiver");
        assert!(failure.message.contains(why), "{}", failure.message);
        assert_eq!(world.status(optional), Status::Completed);
    }
    world.check();
}

#[test]
fn signal_by_key_reaches_all_that_wait_on_any_instance() {
    let world = World::new();
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let wait = |key: &str| {
        format!("w = signal(paid, by {key}); o = output(${{{{ nodes.w.output.from }}}}) needs w")
    };
    let receivers = [one.start(&wait("7")), one.start(&wait("7")), two.start(&wait("7"))];
    let other = one.start(&wait("8"));
    one.settle();
    two.settle();
    let sender = two.start("e = emit(key 7, paid)");
    two.settle();
    one.settle();
    two.settle();
    assert_eq!(world.status(sender), Status::Completed);
    for receiver in receivers {
        assert_eq!(output(&world, receiver), r#""emit""#);
        assert_eq!(count(&world, receiver, "SignalReceived"), 1);
    }
    assert_eq!(world.status(other), Status::Waiting);
    world.check();
}

/// Each wait takes one of the signals that came before it, in order.
#[test]
fn signals_by_key_that_came_early_are_taken_one_by_one() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let sender =
        rig.start("m = map(3, at 1) {e = emit(key 7, paid)}; f = emit(key 7, paid) needs m");
    rig.run_to_end();
    assert_eq!(world.status(sender), Status::Completed);
    let first = rig.start("w = signal(paid, by 7); v = signal(paid, by 7) needs w");
    rig.settle();
    assert_eq!(world.status(first), Status::Completed);
    assert_eq!(count(&world, first, "SignalReceived"), 2);
    let second = rig.start("m = map(4, at 1) {w = signal(paid, by 7)}");
    rig.settle();
    assert_eq!(world.status(second), Status::Waiting);
    assert_eq!(count(&world, second, "SignalReceived"), 2);
    world.check();
}

/// What a filter rejects is kept by the execution, as any signal is, and the wait gets the next.
#[test]
fn wait_by_key_with_a_filter_gets_the_next_signal() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("e = emit(key 7, paid); f = emit(key 7, paid) needs e");
    rig.run_to_end();
    let receiver = rig.start("w = signal(paid, by 7, where signal.from == 'another')");
    rig.settle();
    assert_eq!(world.status(receiver), Status::Waiting);
    assert_eq!(count(&world, receiver, "SignalReceived"), 2);
    world.check();
}
