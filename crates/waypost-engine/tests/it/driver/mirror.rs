//! Copies of parked executions, for their next owners.

use waypost_core::command::Request;
use waypost_core::state::State;
use waypost_core::status::Status;

use crate::support::rig::Rig;
use crate::support::world::World;

/// The copy is the state that was committed, and the store has its digest; a copy that was not
/// committed is never made.
#[test]
fn mirror_keeps_a_parked_execution_until_it_ends() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.contexts = true);
    let execution = rig.start("a; w = signal(go) needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.step();
    let park = loop {
        let append = rig.take_append();
        if append.side.digest.is_some() {
            break append;
        }
        let committed = world.append(&append);
        rig.answer_append(&append, committed);
        rig.step();
    };
    assert!(rig.kept.is_empty(), "it is not durable yet");
    let committed = world.append(&park);
    rig.answer_append(&park, committed);
    rig.step();
    let [context] = rig.kept.as_slice() else { panic!("{:?}", rig.kept) };
    assert_eq!(park.side.digest, Some(Box::new(*blake3::hash(&context.state).as_bytes())));
    assert_eq!(context.seq, park.header.last_seq);
    assert_eq!(
        (&context.path[..], &context.current_nodes[..]),
        (&["a".into()][..], &["w".into()][..])
    );
    assert_eq!(context.outputs.len(), 1);
    assert!(State::definition_of(&context.state).is_some());
    let go = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    rig.request(execution, go);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(rig.forgotten, [rig.kept[0].execution.clone()]);
    world.check();
}

#[test]
fn without_a_mirror_nothing_is_copied() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("w = signal(go)");
    rig.settle();
    assert!(rig.kept.is_empty() && rig.forgotten.is_empty());
}
