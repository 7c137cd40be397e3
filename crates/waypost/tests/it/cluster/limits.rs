//! Concurrency keys: never more than the limit, in order, all of them, whatever is killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use reqwest::Method;
use serde_json::{Value, json};

use super::numbers::{Random, percent, scaled};
use super::rig::{Api, Cluster, LONG, With};

/// See [`LIMITED`].
const LIMIT: usize = 5;

/// At most five of a key at once, each for so long.
pub(super) const LIMITED: &str = r#"
name: limited
concurrency: { key: "${{ input.key }}", limit: 5 }
nodes:
  - { id: work, type: delay, config: { duration: "${{ input.ms }}", unit: ms } }
  - { id: done, type: output, needs: [work], config: { value: "${{ input.n }}" } }
"#;

#[test]
fn at_most_five_of_a_key_run_in_order_and_all_finish_on_postgres() {
    at_most_five_of_a_key(With::Postgres);
}

#[test]
fn at_most_five_of_a_key_run_in_order_and_all_finish_with_redis() {
    at_most_five_of_a_key(With::Redis);
}

fn at_most_five_of_a_key(with: With) {
    let mut cluster = Cluster::start(3, with);
    cluster.deploy(LIMITED);
    cluster.sql(WATCH);
    let mut random = Random::new();
    let ids = submit(&mut cluster, &mut random);
    // One is cancelled while it is queued: no worker ever receives it.
    let cancelled = ids.last().unwrap().clone();
    let api = cluster.api.clone();
    cluster.block_on(cancel(&api, &cancelled));
    let began = Instant::now();
    for _ in 0..percent().div_ceil(25) {
        waypost_testbed::pause(Duration::from_millis(500 + random.below(1_000)));
        kill(&mut cluster, &mut random);
    }
    (0..3).for_each(|at| cluster.ready(at));
    let ended: Vec<Value> = cluster.block_on(async {
        iter(&ids)
            .map(|id| {
                let api = api.clone();
                async move { api.ended(id, LONG * 3).await }
            })
            .buffered(32)
            .collect()
            .await
    });
    for (n, ended) in ended.iter().enumerate() {
        let expected = if n + 1 == ids.len() { "CANCELLED" } else { "COMPLETED" };
        assert_eq!(ended["status"], expected, "after {:?}: {ended}", began.elapsed());
    }
    slots_are_given_in_order(&cluster, &ids);
    run_within_the_limit(&cluster, &ids);
    assert_eq!(cluster.sql("SELECT count(*) FROM permits"), "0", "every slot was released");
    cluster.check();
}

/// Asks until an instance answers: the one that was killed last may not be back.
async fn cancel(api: &Api, id: &str) {
    let path = format!("/v1/executions/{id}/cancel");
    for turn in 0.. {
        if let Ok(answer) = api.ask(turn, Method::POST, &path, None).await {
            assert_ne!(answer.status, 409, "it is too late for that: {answer:?}");
            if answer.is_ok() {
                return;
            }
        }
        waypost_testbed::moment().await;
    }
}

fn kill(cluster: &mut Cluster, random: &mut Random) {
    let at = usize::try_from(random.below(3)).unwrap();
    cluster.kill(at);
    cluster.start_again(at);
}

/// Starts them one after the other, so that the order of the queue is known; while some of
/// them are being started, an instance is killed.
fn submit(cluster: &mut Cluster, random: &mut Random) -> Vec<String> {
    let count = scaled(500).max(60);
    let kills: Vec<_> = (0..percent().div_ceil(25))
        .map(|_| usize::try_from(random.below(count as u64)).unwrap())
        .collect();
    let mut ids = Vec::new();
    for n in 0..count {
        let api = cluster.api.clone();
        // Long enough that they come faster than they go, and are queued when an instance is killed. The first
        // ones take as long as a slow machine may need to start all others.
        let ms = if n < LIMIT { 10_000 } else { 300 };
        let input = json!({ "key": "k", "n": n, "ms": ms });
        let start = async move { api.start(n, "limited", &input, &format!("l{n}")).await };
        let start = cluster.runtime.spawn(start);
        for _ in kills.iter().filter(|at| **at == n) {
            kill(cluster, random);
        }
        ids.push(cluster.block_on(start).unwrap());
    }
    ids
}

/// Writes down who comes to hold a slot, in which order, and how many hold one then. The log knows only
/// who began: where an instance dies that was about to begin one, that one begins a lease later, and all
/// others in the meantime.
const WATCH: &str = "
    CREATE TABLE public.given (n bigserial PRIMARY KEY, execution bigint, holding bigint);
    CREATE FUNCTION public.write_down() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.given (execution, holding)
        SELECT NEW.execution, count(*) FROM waypost.permits WHERE key = NEW.key AND holding;
        RETURN NULL;
    END $$;
    CREATE TRIGGER given_at_once AFTER INSERT ON permits FOR EACH ROW
    WHEN (NEW.holding) EXECUTE FUNCTION public.write_down();
    CREATE TRIGGER given_later AFTER UPDATE ON permits FOR EACH ROW
    WHEN (NEW.holding AND NOT OLD.holding) EXECUTE FUNCTION public.write_down()";

/// No execution overtakes another: when it is given a permit, all before it in the queue have one, or are
/// given theirs at the same time.
fn slots_are_given_in_order(cluster: &Cluster, ids: &[String]) {
    let given = cluster.sql(
        "SELECT convert_from(s.key, 'UTF8'), g.holding FROM public.given AS g \
         JOIN submissions AS s USING (execution) ORDER BY g.n",
    );
    let mut waiting: BTreeSet<usize> = (0..ids.len()).collect();
    for line in given.lines() {
        let (id, holding) = line.split_once('|').unwrap();
        let holding: usize = holding.parse().unwrap();
        assert!(holding <= LIMIT, "{holding} hold a slot at once");
        let n = ids.iter().position(|known| known == id).unwrap();
        let before = waiting.range(..n).count();
        assert!(before < LIMIT, "{n} was given a slot before {waiting:?}");
        assert!(waiting.remove(&n), "{n} was given two slots");
    }
    assert_eq!(waiting, BTreeSet::from([ids.len() - 1]), "all but the one that was cancelled");
}

/// From the logs: when each was let in, which it is once, and when it ended.
fn run_within_the_limit(cluster: &Cluster, ids: &[String]) {
    let api = cluster.api.clone();
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    cluster.block_on(async {
        for (n, id) in ids.iter().enumerate() {
            let let_in = api.events(0, id, "RunAdmitted").await;
            let ends = api.events(0, id, "RunCompleted").await;
            let times = usize::from(n + 1 < ids.len());
            assert_eq!((let_in.len(), ends.len()), (times, times), "{n}: {let_in:?} {ends:?}");
            moments.extend(let_in.iter().map(|event| (time(event), true, n)));
            moments.extend(ends.iter().map(|event| (time(event), false, n)));
        }
    });
    // At one millisecond, an end makes room before somebody is let in.
    moments.sort_unstable();
    let mut running = BTreeSet::new();
    for (_, begins, n) in moments {
        if begins {
            running.insert(n)
        } else {
            running.remove(&n)
        };
        assert!(running.len() <= LIMIT, "these run at once: {running:?}");
    }
}

fn time(event: &Value) -> u64 {
    let text = event["at"].as_str().unwrap();
    let parsed = waypost_core::time::Timestamp::parse(text).unwrap();
    u64::try_from(parsed.0).unwrap()
}
