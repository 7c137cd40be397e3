//! Schedules of several instances: one execution for each nominal time, whoever dies, stands still or starts.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;
use waypost_core::time::Timestamp;

use super::flows::CHAIN;
use super::numbers::{Random, lease, percent, scaled};
use super::rig::{Cluster, LONG, With};
use super::ticks::EACH_SECOND;

/// How long instances are killed and stopped, in the full length.
const FULL: Duration = Duration::from_secs(120);
/// The shortest time that shows something.
const LEAST: Duration = Duration::from_secs(6);
/// Schedules of one definition.
const SCHEDULES: usize = 100;
/// Schedules that are due at one instant, in the full length.
const HERD: usize = 10_000;

/// A part of the full length.
fn length() -> Duration {
    (FULL * u32::try_from(percent()).unwrap() / 100).max(LEAST)
}

#[test]
fn each_second_fires_once_while_instances_are_killed_and_stopped() {
    With::both(|with| {
        let mut cluster = Cluster::start(3, with);
        let deployed = cluster.now();
        cluster.deploy(EACH_SECOND);
        kill_and_stop(&mut cluster, length());
        let end = cluster.now();
        cluster.fires_until("tick", end);
        cluster.pause_trigger("tick", "often");
        let fired = cluster.times_fired("tick");
        fired.are_each_second(deployed);
        cluster.all_have_completed("tick", fired.times.len());
        cluster.check();
    });
}

/// Every 1 to 4 s, kills a random instance, which starts again at once, or stops one for three leases. One is
/// never stopped. All are ready in the end.
fn kill_and_stop(cluster: &mut Cluster, length: Duration) {
    let mut random = Random::new();
    let mut stopped: [Option<Instant>; 3] = [None; 3];
    let until = Instant::now() + length;
    while Instant::now() < until {
        waypost_testbed::pause(Duration::from_millis(1_000 + random.below(3_000)));
        for (at, since) in stopped.iter_mut().enumerate() {
            if since.is_some_and(|since| since.elapsed() > 3 * lease()) {
                cluster.process(at).thaw();
                *since = None;
            }
        }
        let at = usize::try_from(random.below(3)).unwrap();
        let others_run = stopped.iter().filter(|since| since.is_none()).count() > 1;
        match stopped[at] {
            Some(_) => {}
            None if others_run && random.below(2) == 0 => {
                cluster.process(at).freeze();
                stopped[at] = Some(Instant::now());
            }
            None => {
                cluster.kill(at);
                cluster.start_again(at);
            }
        }
    }
    for (at, since) in stopped.iter().enumerate() {
        if since.is_some() {
            cluster.process(at).thaw();
        }
        cluster.ready(at);
    }
}

/// Both look for what is due at the same moment, again and again.
#[test]
fn each_second_fires_once_at_two_instances_that_start_together() {
    let mut cluster = Cluster::start(2, With::Postgres);
    let deployed = cluster.now();
    cluster.deploy(EACH_SECOND);
    for _ in 0..scaled(50) {
        (0..2).for_each(|at| cluster.kill(at));
        (0..2).for_each(|at| cluster.start_again(at));
        (0..2).for_each(|at| cluster.ready(at));
        cluster.fires_until("tick", cluster.now());
    }
    cluster.pause_trigger("tick", "often");
    let fired = cluster.times_fired("tick");
    fired.are_each_second(deployed);
    cluster.all_have_completed("tick", fired.times.len());
    cluster.check();
}

/// Deploys move the schedule to a new version under the hands of the instances that fire it.
#[test]
fn each_second_fires_once_while_new_versions_are_deployed() {
    let cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(CHAIN);
    let deployed = cluster.now();
    cluster.deploy(EACH_SECOND);
    let until = Instant::now() + (length() / 2).max(LEAST);
    let mut versions = 1;
    while Instant::now() < until {
        let pause = Instant::now() + Duration::from_secs(2);
        // The load.
        cluster.block_on(async {
            let mut n = 0;
            while Instant::now() < pause {
                let starts = iter(0..8).map(|lane| {
                    let (api, key) = (&cluster.api, format!("load-{versions}-{n}-{lane}"));
                    async move { api.start(lane, "chain", &json!(null), &key).await }
                });
                starts.buffer_unordered(8).collect::<Vec<_>>().await;
                n += 1;
            }
        });
        versions += 1;
        cluster.deploy(&EACH_SECOND.replace(
            "input.at }}\" } }\n",
            &format!("input.at }}}}\" }} }}\n  - {{ id: v{versions}, type: noop }}\n"),
        ));
    }
    let current = cluster.number("SELECT version FROM triggers");
    assert_eq!(current, versions, "each deploy was a version of its own");
    cluster.fires_until("tick", cluster.now());
    cluster.pause_trigger("tick", "often");
    let fired = cluster.times_fired("tick");
    fired.are_each_second(deployed);
    cluster.all_have_completed("tick", fired.times.len());
    cluster.check();
}

/// A definition of many schedules that are all due at one time.
fn herd(number: usize, schedules: usize, at: Timestamp) -> String {
    let entry = |n: usize| format!("  - {{ schedule: s{n}, at: \"{at}\" }}\n");
    let entries: String = (0..schedules).map(entry).collect();
    format!("name: herd-{number}\non:\n{entries}nodes:\n  - {{ id: done, type: noop }}\n")
}

#[test]
fn schedules_that_are_due_at_one_instant_fire_once_each_beside_starts_over_http() {
    let cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(CHAIN);
    let count = scaled(HERD).next_multiple_of(SCHEDULES);
    let wait = 3_000 + i64::try_from(count).unwrap() * 5;
    let due = cluster.now() + wait;
    for number in 0..count / SCHEDULES {
        cluster.deploy(&herd(number, SCHEDULES, Timestamp(due)));
    }
    let early = cluster.number("SELECT count(*) FROM triggers WHERE next_due > waypost_now()");
    assert_eq!(early, i64::try_from(count).unwrap(), "all are registered before they are due");
    let api = &cluster.api;
    let started = cluster.block_on(async {
        let mut started = Vec::new();
        let open = "SELECT count(*) FROM triggers WHERE next_due IS NOT NULL";
        let began = Instant::now();
        while cluster.number(open) > 0 {
            let starts = iter(0..16).map(|lane| {
                let key = format!("start-{}-{lane}", started.len());
                async move { api.start(lane, "chain", &json!(null), &key).await }
            });
            started.extend(starts.buffer_unordered(16).collect::<Vec<_>>().await);
            assert!(began.elapsed() < LONG + Duration::from_secs(120), "not all have fired");
        }
        started
    });
    let fires = "SELECT concat_ws(' ', count(*), count(DISTINCT trigger), count(DISTINCT execution), \
                 min(nominal), max(nominal), min(least(at - nominal, 0))) FROM trigger_fires WHERE outcome = 0";
    assert_eq!(cluster.sql(fires), format!("{count} {count} {count} {due} {due} 0"));
    let ended = |id: &String| {
        let id = id.clone();
        async move { api.ended(&id, LONG).await }
    };
    cluster.block_on(async {
        let ends: Vec<_> = iter(&started).map(ended).buffer_unordered(64).collect().await;
        assert!(ends.iter().all(|end| end["status"] == "COMPLETED"), "{ends:?}");
    });
    waypost_testbed::wait_until("all have ended", LONG, || {
        cluster.sql("SELECT count(*) FROM control") == "0"
    });
    cluster.check();
}
