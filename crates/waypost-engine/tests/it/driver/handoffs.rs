//! Messages about attempts that remote workers took.

use waypost_core::command::Outcome;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_engine::dispatcher::HandoffsWanted;
use waypost_ports::outbox::{MessagesRequest, NewEndpoint, Outbox, SigningSecret};

use super::remote::is_done;
use crate::support::{Rig, World};

/// A frame of a node has no messages, unless an endpoint asks for those about handoffs.
#[test]
fn handoff_is_a_message_of_the_frame_only_while_an_endpoint_asks_for_it() {
    let world = World::new();
    let endpoint = NewEndpoint {
        id: "a".into(),
        url: "https://example.com/".into(),
        description: "".into(),
        workflow: None,
        kinds: MessageKinds::from(MessageKind::Handoff),
        with_output: false,
        with_links: false,
        secret: SigningSecret(vec![1]),
    };
    world.store.add_endpoint(&endpoint).unwrap();
    let wanted = HandoffsWanted::default();
    let mut rig = Rig::with(&world, |config| config.handoffs = wanted.clone());
    let plan = world.flow("a = worker");
    for (is_wanted, expected) in [(false, 0), (true, 1), (false, 1)] {
        wanted.set(is_wanted);
        let ticket = rig.submit(&plan);
        rig.settle_store();
        let execution = rig.started(ticket);
        let started = rig.say(1, (execution, "a", 1), Outcome::Started);
        rig.settle_store();
        assert!(is_done(&rig, started));
        let all = MessagesRequest { limit: 10, ..MessagesRequest::default() };
        assert_eq!(world.store.messages(&all).unwrap().rows.len(), expected);
    }
}
