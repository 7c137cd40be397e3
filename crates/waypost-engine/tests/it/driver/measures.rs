//! What the driver measures of itself.

use waypost_core::command::{Outcome, Request};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::driver::{AttemptEnd, Measures, Queue};
use waypost_ports::store::Appended;

use crate::support::{Rig, World};

/// What all steps measure, one after the other, until there is nothing to do.
fn settled(rig: &mut Rig<'_>) -> Measures {
    let mut all = Measures::default();
    loop {
        rig.step();
        let step = rig.driver.measures().next().expect("there is one driver");
        all.started += step.started;
        all.takeovers += step.takeovers;
        all.quarantined += step.quarantined;
        all.fenced += step.fenced;
        all.tokens.iter_mut().zip(step.tokens).for_each(|(sum, count)| *sum += count);
        all.cost += step.cost;
        all.reservations_refused += step.reservations_refused;
        all.budget_pauses += step.budget_pauses;
        all.ended.extend(&step.ended);
        all.schedule_to_start.extend(&step.schedule_to_start);
        all.timer_lateness.extend(&step.timer_lateness);
        all.report_to_commit.extend(&step.report_to_commit);
        all.attempts.iter_mut().zip(step.attempts).for_each(|(sum, count)| *sum += count);
        if rig.work.is_empty() && rig.inputs.is_empty() {
            return all;
        }
        rig.perform_all();
    }
}

fn attempts(measures: &Measures, end: AttemptEnd) -> u64 {
    measures.attempts[end as usize]
}

/// Room for one attempt of two: the other fails, with the map that it is in, or pauses the execution.
#[test]
fn tokens_and_refused_reservations_are_counted_once() {
    for (policy, pauses) in [("", 0), (" pause", 1)] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        rig.start(&format!("budget 20{policy}\nm = map(2) {{x meter 10 5}}"));
        rig.settle_store();
        let order = rig.take_task("m[0]/x");
        let output = Json::parse(r#"{"usage":{"inputTokens":8,"outputTokens":5}}"#).unwrap();
        rig.report(&order, Outcome::Completed(output));
        let found = settled(&mut rig);
        // A token of a request costs one millionth, and one of a reply two.
        assert_eq!((found.tokens, found.cost), ([8, 5], 18));
        assert_eq!((found.reservations_refused, found.budget_pauses), (1, pauses), "{policy}");
    }
}

#[test]
fn a_queued_node_waits_from_its_schedule_to_its_start() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let plan = world.flow("a; b");
    rig.submit(&plan);
    let first = settled(&mut rig);
    assert_eq!(first.schedule_to_start, [Millis(0)], "a slot was free");
    assert_eq!(first.started, 1);
    assert_eq!((rig.driver.queue().depth, rig.driver.slots_busy().work), (1, 1));
    world.pass(61_000);
    rig.renew();
    rig.step();
    let queue = Queue { depth: 1, oldest: Millis(61_000), too_long: 1, scheduled_too_long: 0 };
    assert_eq!(rig.driver.queue(), queue);
    let a = rig.take_task("a");
    rig.finish(&a);
    assert_eq!(settled(&mut rig).schedule_to_start, [Millis(61_000)]);
    assert_eq!(rig.driver.queue(), Queue::default());
}

/// The slot that was promised to `b` goes to `c`; `b` has waited since it was scheduled.
#[test]
fn an_offer_that_is_made_again_keeps_its_age() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    rig.start("a; b; c needs a");
    world.pass(500);
    let a = rig.take_task("a");
    rig.finish(&a);
    assert_eq!(settled(&mut rig).schedule_to_start, [Millis(0)], "c begins at once");
    assert_eq!(rig.running(), ["c"]);
    world.pass(500);
    let c = rig.take_task("c");
    rig.finish(&c);
    assert_eq!(settled(&mut rig).schedule_to_start, [Millis(1_000)]);
}

#[test]
fn a_cancelled_node_is_not_in_the_queue() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    rig.start("busy");
    let cancelled = rig.start("a; b");
    assert_eq!(rig.driver.queue().depth, 2);
    rig.request(cancelled, Request::Cancel { reason: None });
    let measures = settled(&mut rig);
    assert_eq!(rig.driver.queue(), Queue::default());
    assert_eq!(measures.ended, [Status::Cancelled]);
    assert_eq!(attempts(&measures, AttemptEnd::Cancelled), 2);
}

#[test]
fn a_timer_that_is_acted_upon_late_is_late() {
    let cases = [
        ("d = delay(700ms); a = pass needs d", 700, 250),
        ("d = delay(1m); a = pass needs d", 60_000, 30),
    ];
    for (flow, due, late) in cases {
        let world = World::new();
        let mut rig = Rig::new(&world);
        rig.start(flow);
        assert_eq!(settled(&mut rig).timer_lateness, []);
        world.pass(due + late);
        rig.renew();
        assert_eq!(settled(&mut rig).timer_lateness, [Millis(late)], "{flow}");
    }
}

#[test]
fn a_timer_that_comes_due_while_a_frame_is_in_flight_counts_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(700ms); a");
    settled(&mut rig);
    rig.request(
        execution,
        Request::Signal { name: "s".into(), body: waypost_core::json::Json::null() },
    );
    rig.step();
    world.pass(750);
    assert_eq!(settled(&mut rig).timer_lateness, [Millis(50)]);
}

#[test]
fn takeovers_count_only_executions_of_dead_owners() {
    let world = World::new();
    let mut first = Rig::new(&world);
    first.start("a");
    first.start("d = delay(20s)");
    settled(&mut first);
    world.outlive_leases();
    world.pass(10_000);
    let mut second = Rig::new(&world);
    let measures = settled(&mut second);
    assert_eq!(measures.takeovers, 1, "the parked one had no owner");
    assert_eq!(attempts(&measures, AttemptEnd::Abandoned), 1);
}

#[test]
fn a_report_counts_until_its_commit() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("a; b needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    world.pass(40);
    let measures = settled(&mut rig);
    assert_eq!(measures.report_to_commit, [Millis(40)]);
    assert_eq!(attempts(&measures, AttemptEnd::Completed), 1);
    // A report that means nothing leads to no commit.
    rig.report(&a, Outcome::Cancelled);
    assert_eq!(settled(&mut rig), Measures::default());
    let b = rig.take_task("b");
    let failure = Failure::permanent(kind::TOO_LARGE, "no");
    rig.report(&b, Outcome::Failed(failure));
    let measures = settled(&mut rig);
    assert_eq!(measures.report_to_commit, [Millis(0)]);
    assert_eq!((measures.ended, measures.attempts), (vec![Status::Failed], [0, 1, 0, 0, 0, 0]));
}

#[test]
fn a_fenced_frame_and_a_poisoned_one_are_counted() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    for (appended, expected) in
        [(Appended::Fenced, (1, 0)), (Appended::Poisoned { reason: "no".to_owned() }, (0, 1))]
    {
        rig.start("a");
        let a = rig.take_task("a");
        rig.finish(&a);
        rig.step();
        let append = rig.take_append();
        rig.answer_append(&append, appended);
        let measures = settled(&mut rig);
        assert_eq!((measures.fenced, measures.quarantined), expected);
    }
}
