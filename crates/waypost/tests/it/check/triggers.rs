//! `waypost check` and triggers: stores in which a real engine has fired, damaged by hand, on SQLite and PostgreSQL.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::Connection;
use waypost::backend::{Backend, folder_blobs};
use waypost::wiring;
use waypost_core::failure::Failure;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemKey, Payload, WindowMode};
use waypost_engine::check::{CheckOptions, CheckReport, check, repair};
use waypost_engine::config::Config;
use waypost_engine::triggers::{
    EndedTriggers, FireResult, Firing, Occurrence, Surroundings, TriggerRunner, TriggerWakeups,
    registrations,
};
use waypost_engine::{Engine, Started};
use waypost_ports::clock::{Clock as _, SystemClock};
use waypost_ports::outbox::Outbox;
use waypost_ports::source::{
    PageRequest, PageSource, SourcePage, StreamFault, StreamPage, StreamReader, StreamRequest,
};
use waypost_ports::store::{NewDefinition, Store};
use waypost_ports::triggers::{Arrival, Arrived, FireOutcome, TriggerChange, TriggerRow, Triggers};
use waypost_postgres::PostgresStore;
use waypost_sqlite::{Options, SqliteStore};
use waypost_testbed::postgres::{Postgres, database_of};

/// Fired once.
const TICK: &str = "name: tick
on:
  - { schedule: often, every: 1h }
nodes:
  - { id: done, type: noop }
";

/// Collects, and has a dead letter.
const EVENTS: &str = "name: events
on:
  - event: collected
    type: order.*
    batch: { key: event.data.id, size: 10, wait: 1h }
  - { event: single, type: user.added }
nodes:
  - { id: done, type: noop }
";

/// Fires with ends.
const TELL: &str = "name: tell
on:
  - { workflow-ended: ended, workflow: tick }
nodes:
  - { id: done, type: noop }
";

/// Has no trigger any more.
const FORMER: [&str; 2] = [
    "name: former\non:\n  - { schedule: gone, every: 1h }\nnodes:\n  - { id: done, type: noop }\n",
    "name: former\nnodes:\n  - { id: done, type: noop }\n",
];

/// There is no source to read.
struct NoSource;

impl PageSource for NoSource {
    fn read(&self, _: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        unreachable!("there is no poll")
    }
}

impl StreamReader for NoSource {
    fn read(&self, _: StreamRequest) -> BoxFuture<'static, Result<StreamPage, StreamFault>> {
        unreachable!("there is no stream")
    }

    fn mark(&self, _: StreamRequest) -> BoxFuture<'static, Result<(), StreamFault>> {
        unreachable!("there is no stream")
    }
}

fn deploy(store: &dyn Store, source: &str, now: Timestamp) {
    let compiled = wiring::compile(source.as_bytes()).unwrap();
    let new = NewDefinition {
        name: compiled.name.as_str().into(),
        hash: compiled.hash,
        canonical: compiled.canonical.as_str().into(),
        make_current: true,
        triggers: registrations(&compiled.plan, &compiled.name, now),
        paused: false,
    };
    store.define(&new).unwrap();
}

fn row(store: &dyn Triggers, workflow: &str, name: &str) -> TriggerRow {
    store.trigger(workflow, name).unwrap().unwrap()
}

/// An engine over a store, and what fires its triggers.
fn runner<S: Store + Triggers + Outbox + 'static>(
    store: &Arc<S>,
    blobs: &Path,
) -> (Arc<Engine>, TriggerRunner) {
    let engine = wiring::open_engine(
        (Arc::clone(store) as Arc<dyn Store>, folder_blobs(blobs)),
        &waypost_nodes::Settings::default(),
        Arc::new(waypost_ports::secret::NoSecrets),
        Config::default(),
        None,
    );
    let engine = Arc::new(engine.unwrap());
    let firing = Firing {
        engine: Arc::clone(&engine) as Arc<dyn Surroundings>,
        store: Arc::clone(store) as Arc<dyn Store>,
        triggers: Arc::clone(store) as Arc<dyn Triggers>,
        plans: Arc::new(wiring::plans()),
    };
    let outbox = Arc::clone(store) as Arc<dyn Outbox>;
    let runner = TriggerRunner {
        firing: firing.clone(),
        pages: Arc::new(NoSource),
        streams: Arc::new(NoSource),
        ends: EndedTriggers { firing, outbox },
        wakeups: TriggerWakeups::default(),
    };
    (engine, runner)
}

/// Fires an item of a trigger; it may have changed since its row was read.
async fn fire(firing: &Firing, row: &TriggerRow, key: &str) -> Option<Box<Started>> {
    let occurrence = Occurrence::new(key, Payload::nothing());
    match firing.fire(row, &occurrence, None, None).await.unwrap() {
        FireResult::Started(started) => Some(started),
        _ => None,
    }
}

fn arrival(row: &TriggerRow, event: &str) -> Arrival {
    Arrival {
        at: row.at(),
        group: "k".into(),
        item: ItemKey { key: event.into(), incarnation: 0 }.digest(),
        label: event.into(),
        rule: WindowMode::Batch { size: 10, wait: Millis::from_secs(3_600) },
        payload: "{\"data\":{}}".into(),
    }
}

/// Lets an engine fire in an empty store: a time, a dead item, an event that waits.
fn fill<S: Store + Triggers + Outbox + 'static>(store: &Arc<S>, blobs: &Path) {
    let now = SystemClock.now();
    deploy(&**store, TICK, now.minus(Millis::from_secs(3_600)));
    for source in [EVENTS, TELL, FORMER[0], FORMER[1]] {
        deploy(&**store, source, now);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (engine, runner) = runner(store, blobs);
        runner.run_due().await.unwrap();
        let single = row(&**store, "events", "single");
        let dead = Occurrence::new("dead", Payload::nothing());
        let kept = runner.firing.settle(&single, &dead, FireOutcome::Dead, Some("no paper")).await;
        assert!(kept.unwrap());
        let live = fire(&runner.firing, &single, "live").await;
        live.unwrap().ended().await;
        engine.stop(Duration::from_secs(5)).await;
    });
    let collected = row(&**store, "events", "collected");
    assert_eq!(store.arrive(&[arrival(&collected, "e1")]).unwrap(), [Arrived::Held]);
}

/// Damage, the names of the broken rules (of executions, then of triggers with their names), and whether all of them
/// can be repaired. The same SQL is for both stores.
struct Case {
    name: &'static str,
    damage: &'static str,
    finds: &'static [(&'static str, &'static str)],
    repairable: bool,
}

const ITEMS: &str = "trigger.one-execution-per-item";
const DUE: &str = "trigger.due";
const VERSION: &str = "trigger.matches-version";
const GROUPS: &str = "trigger.groups-match-events";
const LETTERS: &str = "trigger.dead-letters-match-items";

const CASES: &[Case] = &[
    Case {
        name: "an item that started an execution is deleted",
        damage: "DELETE FROM trigger_fires WHERE label = 'live'",
        finds: &[("", ITEMS)],
        repairable: false,
    },
    Case {
        name: "an item names an execution that is not there",
        damage: "UPDATE trigger_fires SET execution = 999999 WHERE label = 'live'",
        finds: &[("", ITEMS), ("events/single", ITEMS)],
        repairable: false,
    },
    Case {
        name: "two items name an execution, and one of them the other's",
        damage: "UPDATE trigger_fires SET execution =
                    (SELECT execution FROM trigger_fires WHERE label = 'live')
                 WHERE nominal IS NOT NULL",
        finds: &[("", ITEMS), ("", ITEMS)],
        repairable: false,
    },
    Case {
        name: "an item is of another trigger",
        damage: "UPDATE trigger_fires SET trigger = (SELECT number FROM triggers WHERE name = 'often')
                 WHERE label = 'live'",
        finds: &[("", ITEMS)],
        repairable: false,
    },
    Case {
        name: "an item is of another time",
        damage: "UPDATE trigger_fires SET nominal = nominal + 1 WHERE nominal IS NOT NULL",
        finds: &[("", ITEMS)],
        repairable: false,
    },
    Case {
        name: "an item that is dead started an execution",
        damage: "UPDATE trigger_fires SET outcome = 4 WHERE label = 'live'",
        finds: &[("", ITEMS), ("events/single", ITEMS), ("events/single", LETTERS)],
        repairable: false,
    },
    Case {
        name: "a cursor is set back",
        damage: "UPDATE triggers SET cursor = '{\"schedule\":{\"after\":0}}', next_due = 0, claimable_at = 0
                 WHERE name = 'often'",
        finds: &[("tick/often", "trigger.cursor-covers-fires")],
        repairable: false,
    },
    Case {
        name: "a schedule is never due",
        damage: "UPDATE triggers SET next_due = NULL, claimable_at = NULL WHERE name = 'often'",
        finds: &[("tick/often", DUE)],
        repairable: true,
    },
    Case {
        name: "a schedule is due a day too late",
        damage: "UPDATE triggers SET next_due = next_due + 86400000, claimable_at = next_due + 86400000
                 WHERE name = 'often'",
        finds: &[("tick/often", DUE)],
        repairable: true,
    },
    Case {
        name: "a schedule is claimed for ever",
        damage: "UPDATE triggers SET claimable_at = 99999999999999 WHERE name = 'often'",
        finds: &[("tick/often", DUE)],
        repairable: true,
    },
    Case {
        name: "a trigger that is retired is due",
        damage: "UPDATE triggers SET next_due = 1, claimable_at = NULL WHERE name = 'gone'",
        finds: &[("former/gone", DUE)],
        repairable: true,
    },
    Case {
        name: "events find another trigger",
        damage: "UPDATE triggers SET topics = '[\"user.*\"]' WHERE name = 'collected'",
        finds: &[("events/collected", VERSION)],
        repairable: true,
    },
    Case {
        name: "a row is of another definition",
        damage: "UPDATE triggers SET definition = (SELECT definition FROM triggers WHERE name = 'often')
                 WHERE name = 'single'",
        finds: &[("events/single", VERSION)],
        repairable: false,
    },
    Case {
        name: "a trigger is retired that is declared",
        damage: "UPDATE triggers SET state = 3 WHERE name = 'single'",
        finds: &[("events/single", VERSION)],
        repairable: false,
    },
    Case {
        name: "a trigger is active that is not declared",
        damage: "UPDATE triggers SET state = 0 WHERE name = 'gone'",
        finds: &[("former/gone", VERSION)],
        repairable: false,
    },
    Case {
        name: "a trigger without a row, and its items",
        damage: "DELETE FROM triggers WHERE name = 'single'",
        finds: &[("", ITEMS), ("events/single", VERSION)],
        repairable: false,
    },
    Case {
        name: "the endpoint of ends is deleted",
        damage: "DELETE FROM webhook_endpoints",
        finds: &[("tell/ended", "trigger.has-endpoint")],
        repairable: true,
    },
    Case {
        name: "the list of triggers is behind",
        damage: "UPDATE trigger_roster SET revision = 0",
        finds: &[("tick/often", "trigger.roster-current")],
        repairable: true,
    },
    Case {
        name: "a group counts other bytes",
        damage: "UPDATE trigger_groups SET bytes = bytes + 1",
        finds: &[("events/collected", GROUPS)],
        repairable: false,
    },
    Case {
        name: "a group is paused, and its trigger is not",
        damage: "UPDATE trigger_groups SET paused = true",
        finds: &[("events/collected", GROUPS)],
        repairable: true,
    },
    Case {
        name: "a group is claimed for ever",
        damage: "UPDATE trigger_groups SET closed = true, claimable_at = 99999999999999",
        finds: &[("events/collected", GROUPS)],
        repairable: true,
    },
    Case {
        name: "the event of a group is deleted",
        damage: "DELETE FROM trigger_pending",
        finds: &[("events/collected", GROUPS)],
        repairable: true,
    },
    Case {
        name: "the item of an event that waits is deleted",
        damage: "DELETE FROM trigger_fires WHERE label = 'e1'",
        finds: &[("events/collected", GROUPS)],
        repairable: false,
    },
    Case {
        name: "the group of an event is deleted",
        damage: "DELETE FROM trigger_groups",
        finds: &[("number 0", GROUPS)],
        repairable: false,
    },
    Case {
        name: "a group waits for a trigger that is retired",
        damage: "UPDATE trigger_groups SET trigger = (SELECT number FROM triggers WHERE name = 'gone'), paused = true;
                 UPDATE trigger_fires SET trigger = (SELECT number FROM triggers WHERE name = 'gone')
                 WHERE label = 'e1'",
        finds: &[("former/gone", GROUPS)],
        repairable: false,
    },
    Case {
        name: "a dead letter is deleted",
        damage: "DELETE FROM dead_fires",
        finds: &[("events/single", LETTERS)],
        repairable: false,
    },
    Case {
        name: "the item of a dead letter is deleted",
        damage: "DELETE FROM trigger_fires WHERE label = 'dead'",
        finds: &[("events/single", LETTERS)],
        repairable: false,
    },
];

/// What was found: the trigger, or nothing where it is about an execution, and the rule.
fn found(report: &CheckReport) -> Vec<(String, &'static str)> {
    let name = |finding: &waypost_engine::check::Finding| {
        finding.trigger.as_ref().map_or(String::new(), |about| about.name.to_string())
    };
    let findings = report.findings.iter();
    let mut found: Vec<_> =
        findings.map(|finding| (name(finding), finding.violation.invariant.name())).collect();
    found.sort();
    found
}

fn report_of(store: &dyn Backend) -> CheckReport {
    check(store, &wiring::plans(), &CheckOptions::default(), &|_| {}).unwrap()
}

/// What is wrong with what a check of the damaged store says, and with its repair.
fn judge(
    case: &Case,
    damaged: impl Backend,
    engine: impl FnOnce() -> Box<dyn Backend>,
) -> Option<String> {
    let mut report = report_of(&damaged);
    let mut expected: Vec<_> =
        case.finds.iter().map(|(name, rule)| ((*name).to_owned(), *rule)).collect();
    expected.sort();
    if found(&report) != expected {
        return Some(format!("{}: {:#?}", case.name, report.findings));
    }
    drop(damaged);
    let store = engine();
    repair(&*store, &wiring::plans(), &mut report).unwrap();
    let left = report_of(&*store).findings;
    let is_repaired = report.is_well() && left.is_empty();
    (is_repaired != case.repairable).then(|| format!("{}, repaired: {left:#?}", case.name))
}

#[test]
fn check_of_a_folder_finds_each_fault_of_triggers_and_repairs_copies() {
    let folder = tempfile::tempdir().unwrap();
    let open = |folder: &Path, options| SqliteStore::open(folder, options).unwrap();
    let store = Arc::new(open(folder.path(), Options::engine()));
    fill(&store, folder.path());
    store.wait_projected().unwrap();
    assert_eq!(found(&report_of(&*store)), [], "before any damage");
    assert_eq!(report_of(&*store).tally.triggers, 5);
    drop(store);
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|case| {
            let copy = tempfile::tempdir().unwrap();
            for entry in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
                }
            }
            let connection = Connection::open(copy.path().join("log.db")).unwrap();
            connection.execute_batch(case.damage).unwrap();
            drop(connection);
            // An engine ends claims when it opens the folder.
            let damaged = open(copy.path(), Options::guest());
            judge(case, damaged, || Box::new(open(copy.path(), Options::engine())))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn check_of_a_database_finds_each_fault_of_triggers_and_repairs_copies() {
    let (postgres, folder) = (Postgres::shared(), tempfile::tempdir().unwrap());
    let url = postgres.database();
    let open = |url: &str| PostgresStore::open(url, waypost_postgres::Options::default()).unwrap();
    let store = Arc::new(open(&url));
    fill(&store, folder.path());
    store.wait_projected().unwrap();
    assert_eq!(found(&report_of(&*store)), [], "before any damage");
    drop(store);
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|case| {
            let copy = postgres.copy(&url);
            postgres.sql(database_of(&copy), case.damage);
            judge(case, open(&copy), || Box::new(open(&copy)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Deploys, pauses, fires and collects in turns, while `guest` is checked again and again.
fn check_in_use<S: Store + Triggers + Outbox + 'static>(
    store: &Arc<S>,
    blobs: &Path,
    guest: &dyn Backend,
) {
    const ROUNDS: usize = 30;
    let other = EVENTS.replace("user.added", "user.*").replace("order.*", "order.paid");
    let without = "name: events\non:\n  - { event: single, type: user.added }\nnodes:\n  - { id: done, type: noop }\n";
    deploy(&**store, TELL, SystemClock.now());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checker = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::SeqCst) || rounds == 0 {
                let found = found(&report_of(guest));
                assert_eq!(found, [], "round {rounds}");
                rounds += 1;
            }
        });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (engine, runner) = runner(store, blobs);
            for round in 0..ROUNDS {
                let now = SystemClock.now();
                let source = [EVENTS, other.as_str(), without][round % 3];
                deploy(&**store, source, now);
                deploy(&**store, TICK, now.minus(Millis::from_secs(3_600)));
                deploy(&**store, FORMER[round % 2], now);
                runner.run_due().await.unwrap();
                runner.ends.reconcile().await.unwrap();
                let single = row(&**store, "events", "single");
                for fired in 0..5 {
                    fire(&runner.firing, &single, &format!("{round} {fired}")).await;
                }
                let collected = row(&**store, "events", "collected");
                let events = (0..3).map(|event| arrival(&collected, &format!("{round} {event}")));
                store.arrive(&events.collect::<Vec<_>>()).unwrap();
                let paused =
                    store.change_trigger(collected.at(), &TriggerChange::Pause { reason: None });
                if let Some(paused) = paused.unwrap() {
                    let (cursor, next_due) = (paused.cursor.clone(), None);
                    let resumed = TriggerChange::Resume { cursor, next_due };
                    store.change_trigger(paused.at(), &resumed).unwrap().unwrap();
                }
            }
            engine.stop(Duration::from_secs(5)).await;
        });
        done.store(true, Ordering::SeqCst);
        checker.join().unwrap();
    });
    let report = report_of(guest);
    assert_eq!((found(&report), report.tally.executions > 100), (Vec::new(), true));
}

#[test]
fn triggers_that_fire_and_change_give_no_false_findings() {
    let folder = tempfile::tempdir().unwrap();
    let open = |options| SqliteStore::open(folder.path(), options).unwrap();
    let store = Arc::new(open(Options::engine()));
    check_in_use(&store, folder.path(), &open(Options::guest()));
    let url = Postgres::shared().database();
    let open = || PostgresStore::open(&url, waypost_postgres::Options::default()).unwrap();
    check_in_use(&Arc::new(open()), folder.path(), &open());
}
