//! Signals before, at and after parking, from any instance: none is lost.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;

use super::flows::GATE;
use super::numbers::scaled;
use super::rig::{Cluster, LONG, With};

/// Requests under way at once.
const AT_ONCE: usize = 64;

#[test]
fn signals_sent_before_at_and_after_parking_all_arrive() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(GATE);
        let api = Arc::new(cluster.api.clone());
        let count = scaled(10_000);
        cluster.block_on(async {
            let ids: Vec<String> = iter(0..count)
                .map(|n| {
                    let api = Arc::clone(&api);
                    async move {
                        let input = json!({ "text": n.to_string() });
                        let id = api.start(n, "gate", &input, &format!("s{n}")).await;
                        let body = json!({ "name": "go", "body": { "by": n }, "messageId": format!("m{n}") });
                        let path = format!("/v1/executions/{id}/signals");
                        // A third at once, which is before or while it parks; the rest afterwards.
                        if n % 3 == 0 {
                            let sent = api.post(n + 1, &path, &body).await;
                            assert!(sent.is_ok(), "{sent:?}");
                        }
                        id
                    }
                })
                .buffered(AT_ONCE)
                .collect()
                .await;
            iter(ids.iter().enumerate().filter(|(n, _)| n % 3 != 0))
                .map(|(n, id)| {
                    let api = Arc::clone(&api);
                    async move {
                        let body = json!({ "name": "go", "body": { "by": n }, "messageId": format!("m{n}") });
                        let path = format!("/v1/executions/{id}/signals");
                        let sent = api.post(n + 2, &path, &body).await;
                        assert!(sent.is_ok(), "{sent:?}");
                        // Twice under one id is once.
                        let again = api.post(n, &path, &body).await;
                        assert!(again.is_ok() || again.status == 409, "{again:?}");
                    }
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<()>>()
                .await;
            iter(ids.iter().enumerate())
                .map(|(n, id)| {
                    let api = Arc::clone(&api);
                    async move {
                        let ended = api.ended(id, LONG).await;
                        assert_eq!(ended["status"], "COMPLETED", "{ended}");
                        assert_eq!(ended["output"]["by"], n);
                    }
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<()>>()
                .await;
        });
        cluster.check();
        assert_eq!(cluster.sql("SELECT count(*) FROM inbox"), "0");
    }
}
