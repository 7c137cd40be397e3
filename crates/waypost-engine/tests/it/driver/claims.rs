//! When the store is asked, and for what.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::config::Scope;
use waypost_engine::driver::{Answer, Input, StoreWork};
use waypost_ports::store::{Mail, Store};

use crate::support::{Rig, World};

fn is_claim(work: &StoreWork) -> bool {
    matches!(work, StoreWork::Claim { .. })
}

fn take_claim(rig: &mut Rig<'_>) -> Option<StoreWork> {
    let at = rig.work.iter().position(is_claim)?;
    rig.work.remove(at)
}

/// Executions that wait in the store for anybody.
fn park_many(world: &World, count: usize) -> Vec<ExecutionNo> {
    let mut rig = Rig::new(world);
    let ids: Vec<_> = (0..count).map(|_| rig.start("w = signal(go); a needs w")).collect();
    rig.settle();
    let mail = |id: &ExecutionNo| Mail {
        execution: *id,
        message: format!("go-{id}").into(),
        actor: None,
        body: Request::Signal { name: "go".into(), body: Json::null() }.into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&ids.iter().map(mail).collect::<Vec<_>>()).unwrap();
    ids
}

#[test]
fn one_claim_is_out_at_a_time() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.step();
    for _ in 0..5 {
        rig.inputs.push(Input::Nudge);
        rig.step();
    }
    assert_eq!(rig.work.iter().filter(|work| is_claim(work)).count(), 1);
}

/// The answer may be older than what the nudge is about, also when both share a millisecond.
#[test]
fn a_nudge_while_a_claim_is_out_is_followed_by_another_claim() {
    for later in [0, 1, 50] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        rig.step();
        let claim = take_claim(&mut rig).expect("the first claim");
        rig.perform(claim);
        world.pass(later);
        let answer = std::mem::take(&mut rig.inputs);
        rig.inputs.push(Input::Nudge);
        rig.step();
        rig.inputs.extend(answer);
        rig.step();
        world.pass(rig.config.claim_every_min.0);
        rig.step();
        assert!(take_claim(&mut rig).is_some(), "nudged {later} ms after the claim");
    }
}

#[test]
fn a_hint_that_comes_while_a_claim_is_out_outlives_its_answer() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| {
        config.park_after = Millis(10);
        config.poll_every = Millis::from_secs(60);
    });
    rig.step();
    let claim = take_claim(&mut rig).expect("the first claim");
    rig.perform(claim);
    let answer = std::mem::take(&mut rig.inputs);
    let execution = rig.start("d = delay(500ms); a needs d");
    rig.perform_appends();
    rig.step();
    assert_eq!(rig.driver.live(), 0, "parked while the claim was out");
    rig.inputs.extend(answer);
    rig.settle();
    world.pass(500);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
}

/// A reconciliation that was sent before the execution began finds it without a driver, and brings it back
/// after it was parked. The take-over is fenced, and the mail that came meanwhile waits in the inbox.
#[test]
fn mail_beside_a_fenced_take_over_is_claimed_at_once() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.poll_every = Millis::from_secs(60));
    rig.step();
    let claim = take_claim(&mut rig).expect("the first claim");
    let ticket = rig.submit(&world.flow("w = signal(go); a needs w"));
    rig.step();
    rig.perform_appends();
    let began = std::mem::take(&mut rig.inputs);
    rig.perform(claim);
    let claimed = std::mem::replace(&mut rig.inputs, began);
    rig.step();
    let execution = rig.started(ticket);
    rig.perform_appends();
    rig.step();
    assert_eq!(rig.driver.live(), 0, "parked while the claim was out");
    rig.request(execution, Request::Signal { name: "go".into(), body: Json::null() });
    rig.step();
    rig.perform_all();
    let delivered = std::mem::replace(&mut rig.inputs, claimed);
    rig.step();
    rig.inputs.extend(delivered);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed, "without waiting for a poll");
}

#[test]
fn batches_follow_each_other_while_there_is_more() {
    let world = World::new();
    let ids = park_many(&world, 25);
    let mut rig = Rig::with(&world, |config| config.claim_batch = 10);
    rig.settle();
    for id in ids {
        assert_eq!(world.status(id), Status::Completed);
    }
    world.check();
}

#[test]
fn no_more_is_claimed_than_there_is_room_for() {
    let world = World::new();
    let ids = park_many(&world, 25);
    let mut rig = Rig::with(&world, |config| config.active_max = 4);
    rig.step();
    while !rig.work.is_empty() || !rig.tasks.is_empty() || !rig.inputs.is_empty() {
        rig.perform_all();
        rig.finish_all();
        rig.step();
        assert!(rig.driver.live() <= 4, "{} live", rig.driver.live());
    }
    for id in ids {
        assert_eq!(world.status(id), Status::Completed, "without waiting for a poll");
    }
}

#[test]
fn submissions_and_claims_together_stay_within_the_room() {
    let world = World::new();
    park_many(&world, 20);
    let mut rig = Rig::with(&world, |config| config.active_max = 5);
    let plan = world.flow("a");
    let tickets: Vec<_> = (0..20).map(|_| rig.submit(&plan)).collect();
    for _ in 0..200 {
        rig.step();
        assert!(rig.driver.live() <= 5, "{} live", rig.driver.live());
        rig.perform_all();
        rig.finish_all();
    }
    assert!(
        tickets.iter().all(|ticket| matches!(rig.answer(*ticket), Some(Answer::Started { .. })))
    );
    rig.run_to_end();
}

/// New submissions take every place that comes free; what waits in the store must get its turn.
#[test]
fn flood_of_submissions_does_not_starve_due_executions() {
    let world = World::new();
    let ids = park_many(&world, 3);
    let mut rig = Rig::with(&world, |config| config.active_max = 2);
    let plan = world.flow("a");
    for _ in 0..40 {
        while rig.tasks.len() < 2 && rig.inputs.len() < 10 {
            rig.submit(&plan);
        }
        rig.step();
        rig.perform_all();
        rig.finish_all();
    }
    rig.settle();
    for id in ids {
        assert_eq!(world.status(id), Status::Completed);
    }
}

#[test]
fn an_idle_driver_polls_and_sleeps_in_between() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.settle();
    for _ in 0..10 {
        let before = world.now();
        world.clock.set(rig.driver.next_wake());
        assert_eq!(world.now().since(before), rig.config.poll_every);
        rig.settle();
    }
}

#[test]
fn driver_with_a_scope_claims_only_adopted_executions() {
    let world = World::new();
    let ids = park_many(&world, 3);
    let mut rig = Rig::with(&world, |config| config.scope = Scope::Adopted);
    rig.settle();
    world.pass(5_000);
    rig.settle();
    assert!(ids.iter().all(|id| world.status(*id) == Status::Waiting));
    rig.inputs.push(Input::Adopt(ids[1]));
    rig.settle();
    let statuses: Vec<_> = ids.iter().map(|id| world.status(*id)).collect();
    assert_eq!(statuses, [Status::Waiting, Status::Completed, Status::Waiting]);
}

#[test]
fn an_execution_started_under_a_scope_is_claimed_again_after_it_parked() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.scope = Scope::Adopted);
    let execution = rig.start("d = delay(30s); a needs d");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
}

#[test]
fn numbers_are_reserved_before_submissions_stall() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.id_block_size = 3);
    let plan = world.flow("a = pass");
    let tickets: Vec<_> = (0..10).map(|_| rig.submit(&plan)).collect();
    rig.settle();
    let mut ids: Vec<_> = tickets.iter().map(|ticket| rig.started(*ticket)).collect();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}

/// What could not be read in one go is asked for in smaller pieces, until the store answers.
#[test]
fn a_claim_without_an_answer_is_followed_by_a_smaller_one() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.claim_batch = 100);
    let limit = |rig: &mut Rig<'_>| {
        world.pass(rig.config.poll_every.0);
        rig.renew();
        rig.step();
        match take_claim(rig) {
            Some(StoreWork::Claim { limit, .. }) => limit,
            _ => panic!("no claim"),
        }
    };
    let answer = |rig: &mut Rig<'_>, answered: bool| {
        rig.answer_claim(answered);
        rig.step();
    };
    for wanted in [100, 50, 25, 12, 6, 3, 1, 1, 1] {
        assert_eq!(limit(&mut rig), wanted);
        answer(&mut rig, false);
    }
    for wanted in [1, 1, 1, 1, 3, 6, 12, 25, 50, 100, 100] {
        assert_eq!(limit(&mut rig), wanted);
        answer(&mut rig, true);
    }
}

/// Its sender put mail into the inbox, an owner took it, and then the sender made the execution
/// ready. Nothing is due, here or in the store: it must not keep a place in memory until something is.
#[test]
fn bug_execution_woken_for_consumed_mail_stayed_in_memory() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(1m)");
    rig.settle();
    let mail = Mail {
        execution,
        message: "m1".into(),
        actor: None,
        body: Request::Signal { name: "go".into(), body: Json::null() }.into(),
        blobs: Vec::new(),
    };
    world.store.with(|tables, _| tables.put(&mail));
    world.pass(rig.config.poll_every.0);
    rig.settle();
    assert!(world.state(execution).messages.contains("m1"));
    world.store.with(|tables, _| tables.wake(&mail));
    assert!(world.control(execution).unwrap().ready);
    world.pass(rig.config.poll_every.0);
    rig.settle();
    assert_eq!((rig.driver.live(), world.control(execution).unwrap().owner), (0, None));
    assert!(!world.control(execution).unwrap().ready);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// What a claim took whose answer was lost is found whole, however little is asked for at once.
#[test]
fn reconciliation_repeats_until_everything_is_found() {
    let world = World::new();
    let parked = park_many(&world, 20);
    let mut rig = Rig::with(&world, |config| config.claim_batch = 20);
    rig.step();
    let claim = take_claim(&mut rig).unwrap();
    rig.perform(claim);
    rig.inputs.clear();
    for _ in 0..4 {
        rig.answer_claim(false);
        rig.step();
        world.pass(rig.config.poll_every.0);
        rig.renew();
        rig.step();
        assert!(take_claim(&mut rig).is_some());
    }
    rig.answer_claim(false);
    rig.step();
    world.pass(rig.config.poll_every.0);
    rig.renew();
    rig.settle();
    let ended = parked.iter().filter(|id| world.status(**id) == Status::Completed).count();
    assert_eq!(ended, parked.len(), "now, not with the next reconciliation but one");
    world.check();
}
