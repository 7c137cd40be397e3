//! Instances of two builds: what the older one cannot read is not started while it is alive.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waypost::backend::{self, Backend};
use waypost::cluster_services::ClusterServices;
use waypost::settings::{Flags, Settings};
use waypost::wiring;
use waypost_core::event::BODIES_LOG_FORMAT;
use waypost_engine::Engine;
use waypost_engine::config::Config;
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::Store;

use super::rig::{Answer, Cluster, LONG, With};

/// A definition for each kind of body, by name.
const WITH_BODIES: [(&str, &str); 3] = [
    ("mapped", "{ id: each, type: map, config: { items: 3 }, nodes: [{ id: n, type: noop }] }"),
    (
        "looped",
        "{ id: again, type: loop, config: { until: \"iteration >= 3\", maxIterations: 3 }, \
         nodes: [{ id: n, type: noop }] }",
    ),
    ("grouped", "{ id: group, type: group, nodes: [{ id: n, type: noop }] }"),
];

/// What every build can run.
const PLAIN: (&str, &str) = ("plain", "{ id: n, type: noop }");

/// The engine of the build before bodies, on the cluster's database.
fn older_engine(cluster: &Cluster) -> Engine {
    let config = cluster.file("older.toml");
    std::fs::write(&config, "").unwrap();
    let mut flags = Flags::default().with("database_url", cluster.postgres.url(&cluster.database));
    flags.config = Some(config);
    let settings = Settings::load(&flags).unwrap();
    let backend: Arc<dyn Backend> = backend::open_engine(&settings).unwrap();
    let around = ClusterServices::of(&backend, &settings).unwrap();
    let config = Config { fold: BODIES_LOG_FORMAT - 1, ..Config::default() };
    let (store, secrets) = (Arc::clone(&backend) as Arc<dyn Store>, Arc::new(NoSecrets));
    let _inside = cluster.runtime.enter();
    wiring::open_engine_in(&around, store, &settings.nodes, secrets, config, None).unwrap()
}

fn start(cluster: &Cluster, at: usize, workflow: &str) -> Answer {
    let body = json!({ "workflow": workflow });
    cluster.block_on(cluster.api.post(at, "/v1/executions", &body))
}

fn completes(cluster: &Cluster, started: &Answer) {
    assert!(started.is_ok(), "{started:?}");
    let ended = cluster.block_on(cluster.api.ended(started.body["id"].as_str().unwrap(), LONG));
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
}

#[test]
fn definition_with_a_body_is_refused_while_an_older_instance_is_alive() {
    let cluster = Cluster::start(2, With::Postgres);
    for (name, node) in WITH_BODIES.into_iter().chain([PLAIN]) {
        cluster.deploy(&format!("name: {name}\nnodes:\n  - {node}\n"));
    }
    let older = older_engine(&cluster);
    for at in 0..2 {
        waypost_testbed::wait_until("the instance knows of the older one", LONG, || {
            start(&cluster, at, "mapped").status == 409
        });
        for (name, _) in WITH_BODIES {
            let refused = start(&cluster, at, name);
            assert_eq!(refused.status, 409, "{refused:?}");
            assert_eq!(refused.body["code"], "cluster_too_old", "{refused:?}");
        }
        completes(&cluster, &start(&cluster, at, "plain"));
    }
    cluster.block_on(older.stop(Duration::from_secs(5)));
    drop(older);
    for at in 0..2 {
        waypost_testbed::wait_until("the instance knows that it is gone", LONG, || {
            start(&cluster, at, "mapped").is_ok()
        });
        for (name, _) in WITH_BODIES {
            completes(&cluster, &start(&cluster, at, name));
        }
    }
    cluster.check();
}
