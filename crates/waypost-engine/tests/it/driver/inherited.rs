//! What an owner that died had put out, and what others put into the inbox meanwhile.

use uuid::Uuid;
use waypost_core::command::{Outcome, Report, Request};
use waypost_core::id::{Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::status::{NodeStatus, Status};
use waypost_ports::store::{LEASE, Mail, MailBody, Store};
use waypost_ports::tasks::OfferId;

use crate::support::{Rig, World};

/// No worker serves the handler, its owner dies, and the take-over itself cancels the node: an offer
/// that is not withdrawn would be shown for ever.
#[test]
fn take_over_that_settles_an_attempt_withdraws_its_offer() {
    for (body, status) in [
        (Request::Cancel { reason: None }, Status::Cancelled),
        (Request::Pause { now: false, reason: None }, Status::Paused),
    ] {
        let world = World::new();
        let mut first = Rig::new(&world);
        let execution = first.start("a = worker; b = worker");
        assert_eq!(first.offers.len(), 2);
        drop(first);
        let mut other = Rig::new(&world);
        other.request(execution, body);
        other.settle_store();
        drop(other);
        world.clock.advance(LEASE);
        let mut second = Rig::new(&world);
        second.renew();
        second.settle_store();
        assert_eq!(world.status(execution), status);
        let offer = |node: &str| OfferId { execution, path: node.into(), attempt: 1 };
        assert_eq!(second.withdrawn, [offer("a"), offer("b")]);
        assert!(second.offers.is_empty());
        world.check();
    }
}

/// The sender that put it into the inbox could not read the execution, and so could not verify it.
#[test]
fn forged_report_in_the_inbox_changes_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    let outcome = Outcome::Completed(Json::parse("\"a lie\"").unwrap());
    let worker = Some(WorkerId(Uuid::from_u128(7)));
    let report = Report { node: "a".into(), attempt: 1, token: Token(7), worker, outcome };
    let mail = Mail {
        execution,
        message: "m".into(),
        actor: None,
        body: MailBody::Report(report),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail]).unwrap();
    world.pass(rig.config.poll_every.0);
    rig.renew();
    rig.settle_store();
    let state = world.state(execution);
    assert_eq!(state.root.nodes[0].status, NodeStatus::Queued);
    assert!(world.store.load(execution).unwrap().unwrap().mail.is_empty(), "it was put aside");
    assert_eq!(world.names(execution).last(), Some(&"MessageIgnored"));
    world.check();
}
