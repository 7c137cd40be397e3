//! Retries in a cluster: the instance that reopens an execution is killed, and another continues it.

use serde_json::json;

use super::flows::GATE;
use super::rig::{Cluster, LONG, With};

#[test]
fn retry_continues_on_another_instance_after_kill_9() {
    With::both(|with| {
        let mut cluster = Cluster::start(3, with);
        cluster.deploy(GATE);
        let api = cluster.api.clone();
        let id = cluster.block_on(async {
            let id = api.start(0, "gate", &json!({ "text": "x" }), "one").await;
            api.until(&id, LONG, |body| body["status"] == "WAITING").await;
            let cancelled = api.post(1, &format!("/v1/executions/{id}/cancel"), &json!({})).await;
            assert!(cancelled.is_ok(), "{cancelled:?}");
            let ended = api.ended(&id, LONG).await;
            assert_eq!(ended["status"], "CANCELLED", "{ended}");
            let request = json!({ "reason": "too early", "messageId": "m1" });
            let retried = api.post(0, &format!("/v1/executions/{id}/retry"), &request).await;
            assert!(retried.is_ok(), "{retried:?}");
            id
        });
        cluster.kill(0);
        cluster.block_on(async {
            let api = api.without(0);
            api.until(&id, LONG, |body| body["status"] == "WAITING").await;
            let signal = json!({ "name": "go", "body": { "by": "B" } });
            let sent = api.post(1, &format!("/v1/executions/{id}/signals"), &signal).await;
            assert!(sent.is_ok(), "{sent:?}");
            let ended = api.ended(&id, LONG).await;
            assert_eq!(ended["output"], json!({ "text": "x", "by": "B" }), "{ended}");
            assert_eq!(ended["generation"], 2, "{ended}");
            assert_eq!(api.events(1, &id, "RunReopened").await.len(), 1);
            let first = api.events(1, &id, "NodeStarted").await;
            let of_first = first.iter().filter(|event| event["node"] == "first").count();
            assert_eq!(of_first, 1, "what had completed did not run again");
        });
        cluster.check();
    });
}
