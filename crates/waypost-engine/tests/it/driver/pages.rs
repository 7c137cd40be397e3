//! Logs and inboxes that are longer than a page, in a store whose pages are tiny.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::Input;
use waypost_ports::memory::Pages;
use waypost_ports::store::{Mail, Store};

use crate::support::{Rig, World};

fn small_pages(mail: usize) -> World {
    let world = World::new();
    world.store.with(|tables, _| tables.pages = Pages { log_bytes: 1, mail });
    world
}

fn request(execution: ExecutionNo, message: &str, body: Request) -> Mail {
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

fn signal(execution: ExecutionNo, number: usize) -> Mail {
    let body = Request::Signal { name: "s".into(), body: Json::null() };
    request(execution, &format!("m{number}"), body)
}

fn signals_in(world: &World, execution: ExecutionNo) -> usize {
    world.names(execution).iter().filter(|name| **name == "SignalReceived").count()
}

#[test]
fn log_of_many_pages_is_folded_whole_with_and_without_its_snapshot() {
    for snapshot_bytes_min in [usize::MAX, 1] {
        let world = small_pages(1_000);
        let mut rig = Rig::with(&world, |config| config.snapshot_bytes_min = snapshot_bytes_min);
        let execution = rig.start("a; b needs a; w = signal(go) needs b; c needs w");
        rig.settle();
        assert_eq!((rig.driver.live(), world.status(execution)), (0, Status::Waiting));
        assert!(world.frames(execution) > 2);
        // A snapshot that cannot be used: the log is read from its first frame on.
        world.store.with(|tables, _| {
            tables.spoil_snapshot(execution, |snapshot| {
                Some(waypost_ports::store::Snapshot { body: b"spoiled".to_vec(), ..snapshot })
            });
        });
        rig.request(execution, Request::Signal { name: "go".into(), body: Json::null() });
        rig.run_to_end();
        assert_eq!(world.status(execution), Status::Completed);
        assert_eq!(["a", "b", "c"].map(|node| world.calls(execution, node)), [1, 1, 1]);
        world.check();
    }
}

#[test]
fn mail_beyond_a_page_is_consumed_without_waiting_for_polls() {
    let world = small_pages(2);
    let mut rig = Rig::with(&world, |config| config.claim_batch = 3);
    let execution = rig.start("w = signal(go); a needs w");
    rig.settle();
    let mail: Vec<Mail> = (0..20).map(|number| signal(execution, number)).collect();
    world.store.deliver(&mail).unwrap();
    let before = world.now();
    rig.inputs.push(Input::Nudge);
    rig.settle();
    assert_eq!(signals_in(&world, execution), mail.len());
    assert_eq!(world.now(), before);
    assert!(world.store.load(execution).unwrap().unwrap().mail.is_empty());
    world.check();
}

/// A paused execution that is cancelled: the request is on the first page of its mail, and signals
/// that were accepted are on later ones.
#[test]
fn held_execution_decides_the_signals_of_all_pages_before_the_cancel() {
    let world = small_pages(2);
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go)");
    rig.settle();
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    let cancel = request(execution, "c", Request::Cancel { reason: None });
    world.store.deliver(&[cancel]).unwrap();
    let mail: Vec<Mail> = (0..7).map(|number| signal(execution, number)).collect();
    world.store.deliver(&mail).unwrap();
    rig.inputs.push(Input::Nudge);
    rig.settle();
    assert_eq!(world.status(execution), Status::Cancelled);
    assert_eq!(signals_in(&world, execution), mail.len());
    world.check();
}
