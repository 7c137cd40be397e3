//! What may happen to PostgreSQL, and to the way there.

use std::time::Duration;

use serde_json::json;
use waypost_testbed::postgres::{Durability, Postgres};
use waypost_testbed::{Direction, Mode, Proxy, Redis};

use super::flows::{CHAIN, GATE};
use super::killing::signal;
use super::limits::LIMITED;
use super::load::Load;
use super::numbers::percent;
use super::rig::{Api, Cluster, With};

/// Less than the server gives to one that was left in a transaction before it ends it; others come and go.
const LEFT: Duration = Duration::from_secs(4);

/// Connections that somebody left in a transaction. Whoever works in one is between two statements of it
/// for a moment.
const IDLE: &str = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' \
                    AND state_change < clock_timestamp() - interval '1 second'";

/// A cluster that reaches its database through a proxy.
fn behind_a_proxy(with: With) -> (Cluster, Proxy) {
    let postgres = Postgres::start(Durability::Full);
    let redis = (with == With::Redis).then(Redis::start);
    let proxy = Proxy::start(postgres.port());
    let ports = (proxy.port(), redis.as_ref().map(Redis::port));
    let cluster = Cluster::over(postgres, redis, ports, 3, &[]);
    [CHAIN, GATE, LIMITED].iter().for_each(|source| cluster.deploy(source));
    (cluster, proxy)
}

/// Executions of three kinds: some only append; some park, and get mail; and some share a key, whose
/// lines need more than one statement.
async fn one(api: Api, n: usize) -> String {
    let key = format!("d{n}");
    match n % 3 {
        0 => api.start(n, "chain", &json!(null), &key).await,
        1 => {
            let input = json!({ "key": n % 4, "n": n, "ms": 10 });
            api.start(n, "limited", &input, &key).await
        }
        _ => {
            let id = api.start(n, "gate", &json!({ "text": "x" }), &key).await;
            signal(&api, n, &id).await;
            id
        }
    }
}

/// Everything has ended, nobody has died of it, and no connection was left in a transaction.
fn end(load: Load, cluster: &mut Cluster) {
    load.end(cluster);
    cluster.all_have_lived();
    assert_eq!(cluster.sql("SELECT count(*) FROM permits"), "0", "every slot was released");
    waypost_testbed::wait_until("nobody is in a transaction", LEFT, || cluster.sql(IDLE) == "0");
}

#[test]
fn stopped_four_times_without_warning_on_postgres() {
    stopped_four_times(With::Postgres);
}

#[test]
fn stopped_four_times_without_warning_with_redis() {
    stopped_four_times(With::Redis);
}

fn stopped_four_times(with: With) {
    let (mut cluster, _proxy) = behind_a_proxy(with);
    let load = Load::begin(&cluster, one);
    for _ in 0..4 {
        load.more(20);
        cluster.postgres.stop_immediately();
        for at in 0..3 {
            let metrics = cluster.block_on(cluster.api.get(at, "/metrics"));
            assert_eq!(metrics.status, 200, "instance {at}: {metrics:?}");
        }
        let away = Duration::from_secs(20) * u32::try_from(percent()).unwrap() / 100;
        waypost_testbed::pause(away.max(Duration::from_secs(2)));
        cluster.postgres.start_again();
    }
    load.more(20);
    end(load, &mut cluster);
}

#[test]
fn replies_to_commits_are_swallowed() {
    With::both(|with| {
        let (mut cluster, proxy) = behind_a_proxy(with);
        let load = Load::begin(&cluster, one);
        for _ in 0..10 {
            load.more(5);
            proxy.set(Direction::ToClient, Mode::Swallow);
            waypost_testbed::pause(Duration::from_millis(300));
            proxy.cut();
            proxy.set(Direction::ToClient, Mode::Pass);
        }
        load.more(20);
        end(load, &mut cluster);
    });
}

#[test]
fn connections_are_cut_and_stall() {
    With::both(|with| {
        let (mut cluster, proxy) = behind_a_proxy(with);
        let load = Load::begin(&cluster, one);
        for round in 0..10 {
            load.more(10);
            match round % 2 {
                0 => proxy.cut(),
                _ => {
                    proxy.set_both(&Mode::Stall);
                    waypost_testbed::pause(Duration::from_secs(1));
                    proxy.set_both(&Mode::Pass);
                }
            }
        }
        load.more(20);
        end(load, &mut cluster);
    });
}
