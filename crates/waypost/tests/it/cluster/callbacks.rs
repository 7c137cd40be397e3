//! Callbacks to an instance that does not own the execution.

use serde_json::{Value, json};
use waypost_testbed::Stub;

use super::rig::{Cluster, LONG, With};

#[test]
fn callback_to_another_instance_reaches_the_owner_before_and_during_the_wait() {
    With::both(check);
}

fn check(with: With) {
    let cluster = Cluster::start(2, with);
    let mut stub = Stub::start();
    cluster.deploy(&format!(
        "
name: booking
nodes:
  - id: book
    type: async-operation
    config:
      start:
        type: api-call
        config: {{ method: POST, url: '{}/start', body: {{ url: '${{{{ callback.url }}}}' }} }}
  - {{ id: done, type: output, needs: [book], config: {{ value: '${{{{ nodes.book.output }}}}' }} }}
",
        stub.url()
    ));
    let api = cluster.api.clone();
    for early in [true, false] {
        let key = format!("early-{early}");
        // The one that starts it owns it, and holds it while the call is under way.
        let id = cluster.block_on(api.start(0, "booking", &json!({}), &key));
        let call = stub.next("the start call", LONG, |_| true);
        let body: Value = serde_json::from_slice(&call.request.body).unwrap();
        let (_, token) = body["url"].as_str().unwrap().split_once("/v1/callbacks/").unwrap();
        let path = format!("/v1/callbacks/{token}");
        let post = |at: usize, body: Value| cluster.block_on(api.post(at, &path, &body));
        let answered = |call: waypost_testbed::PendingRequest| call.answer(200, "{}");
        if early {
            let sent = post(1, json!({ "by": 1 }));
            assert!(sent.is_ok(), "{sent:?}");
            answered(call);
        } else {
            answered(call);
            let sent = post(1, json!({ "by": 1 }));
            assert!(sent.is_ok(), "{sent:?}");
        }
        let ended = cluster.block_on(api.ended(&id, LONG));
        assert_eq!((&ended["status"], &ended["output"]["by"]), (&json!("COMPLETED"), &json!(1)));
        for at in [0, 1] {
            assert_eq!(post(at, json!({ "by": 2 })).status, 409);
        }
    }
    cluster.check();
    cluster.mail_is_gone();
}
