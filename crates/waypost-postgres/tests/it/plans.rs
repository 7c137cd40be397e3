//! How the server goes about statements whose cost must not grow with what is stored.

use std::time::Duration;

use crate::support::Database;

const ME: &str = "00000000-0000-0000-0000-000000000001";

/// The largest number of rows that a step gave at once.
fn most_rows(plan: &str) -> u64 {
    let steps = plan.lines().filter_map(|line| line.split_once("actual rows="));
    let rows = steps.map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap());
    rows.max().unwrap()
}

/// A reconciliation looks each execution that it owns up in what the claimer has in memory. To compare each
/// with each takes minutes for 50,000 of them.
#[test]
fn a_reconciliation_of_many_is_not_quadratic() {
    const OWNED: u32 = 50_000;
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    let sql = include_str!("../../queries/claim_take.sql");
    let types = "(uuid, int4, int8, int8[], int8[], bool, int8, int8, int8)";
    let held: Vec<String> = (1..=OWNED).map(|number| number.to_string()).collect();
    let values = format!("('{ME}', 1, 500, NULL, '{{{}}}', true, 100, NULL, NULL)", held.join(","));
    // As it is planned while the tables are empty.
    let plan = intruder.plan(types, sql, "COSTS OFF", &values);
    assert!(plan.contains("hashed SubPlan"), "{plan}");
    intruder.run(&format!(
        "INSERT INTO control (execution, owner, epoch, requires, wakes_from, ready)
         SELECT n, '{ME}', 1, 1, 0, false FROM generate_series(1, {OWNED}) AS n"
    ));
    intruder.run(&format!("SET statement_timeout = {}", Duration::from_secs(30).as_millis()));
    let plan = intruder.plan(types, sql, "ANALYZE, COSTS OFF, TIMING OFF", &values);
    assert!(plan.contains("hashed SubPlan") && !plan.contains("Join Filter"), "{plan}");
}

/// Every instance sweeps every second, and every commit that changes a queue reads an excerpt of it.
#[test]
fn sweeps_and_excerpts_do_not_read_whole_queues() {
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    let sql = include_str!("../../queries/permit_sweep.sql");
    let line = |key: u32, first: u32, holding: u32, waiting: u32| {
        let last = first + holding + waiting;
        intruder.run(&format!(
            "INSERT INTO permits (execution, key, ticket, most, holding, superseded)
             SELECT n, {key}, n, 2, n < {first} + {holding}, false
             FROM generate_series({first}, {last} - 1) AS n"
        ));
    };
    for (key, holding, waiting) in [(1, 2, 10_000), (2, 1, 0), (3, 1, 5_000), (4, 2, 1), (5, 0, 1)]
    {
        line(key, key * 100_000, holding, waiting);
    }
    let found = intruder.text(&format!("SELECT string_agg(k.key::text, ' ') FROM ({sql}) AS k"));
    assert_eq!(found, "3 5", "those in which an execution could get a permit");
    let excerpts = include_str!("../../queries/permit_excerpts.sql");
    let options = "ANALYZE, COSTS OFF, TIMING OFF";
    for analyze in ["", "ANALYZE permits"] {
        intruder.run(analyze);
        let plan = intruder.plan("", sql, options, "");
        assert!(most_rows(&plan) <= 10, "{plan}");
        let values = "('{1,3}', '{100000,NULL}', '{2,0}', 16)";
        let plan = intruder.plan("(int8[], int8[], int8[], int8)", excerpts, options, values);
        assert!(most_rows(&plan) <= 16, "{plan}");
    }
}

/// The sweeper asks this every second, and every list asks for the lag: both read what comes after the place
/// that the sweeper has reached, not the log.
#[test]
fn a_sweep_and_the_lag_do_not_read_the_log() {
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    intruder.run(
        "INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum,
                             append_id, instance, requires, body)
         SELECT n, 1, 1, n, n, 0, 1, 0, gen_random_uuid(), gen_random_uuid(), 1, ''
         FROM generate_series(1, 5000) AS n;
         UPDATE sweeper SET place = 4998",
    );
    let page = include_str!("../../projections/sweep_page.sql");
    let progress = include_str!("../../projections/progress.sql");
    for (types, sql, values) in [
        ("(int8, int8, int8)", page, "(4998, 6000, 5000)"),
        ("(int8, int8)", progress, "(10000, 100000)"),
    ] {
        for analyze in ["", "ANALYZE frames"] {
            intruder.run(analyze);
            let plan = intruder.plan(types, sql, "ANALYZE, COSTS OFF, TIMING OFF", values);
            assert!(most_rows(&plan) <= 10, "{plan}");
        }
    }
    let lag = progress.replace("$1", "2").replace("$2", "10");
    assert_eq!(intruder.number(&lag), 3, "two are compared, one is only counted");
}

/// Every server asks what is due, again and again; schedules that are not due cost it nothing.
#[test]
fn what_is_due_is_found_without_reading_all_triggers() {
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    intruder.run(
        "INSERT INTO triggers (workflow, name, kind, version, definition, revision, seq, incarnation, state, cursor,
                               next_due, failures, topics, registered_at, timing, by_definition, claimable_at)
         SELECT 'flow', n::text::bytea, 0, 1, '', 1, 1, 0, 0, '', n, 0, '', 0, '', false,
                CASE WHEN n > 2 THEN 9000000000000 + n ELSE 1 END
         FROM generate_series(1, 10000) AS n;
         INSERT INTO trigger_fires (trigger, item, label, at, outcome, execution, open)
         SELECT 1, sha256(n::text::bytea), '', n, 0, n, n > 19997 FROM generate_series(1, 20000) AS n",
    );
    let next = include_str!("../../queries/triggers_next_due.sql");
    let claim = include_str!("../../queries/triggers_claim.sql");
    let open = include_str!("../../queries/fires_open.sql");
    for (types, sql, values) in [
        ("(int2, int8[])", next, "(NULL, '{}')"),
        ("(int2, int8[])", next, "(0, '{1}')"),
        ("(int2, int8[], int8, int8)", claim, "(NULL, '{}', 100, 1000)"),
        ("(int8, int8, int8)", open, "(1, 0, 100)"),
    ] {
        for analyze in ["", "ANALYZE triggers, trigger_fires"] {
            intruder.run(analyze);
            let plan = intruder.plan(types, sql, "ANALYZE, COSTS OFF, TIMING OFF", values);
            assert!(most_rows(&plan) <= 3, "{plan}");
        }
    }
}

/// A batch of fires is looked up in its triggers; to compare each with each would take as long as its square.
#[test]
fn a_batch_of_fires_is_not_quadratic() {
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    let sql = include_str!("../../queries/fires_admit.sql");
    let types = "(int8[], bytea[], bytea[], int8[], int8[], int8[], int8[], int8[], bytea[], int8[], int8[],
                  int8[], int8[], int8)";
    let values = "('{1}', '{x}', '{x}', '{NULL}', '{1}', '{1}', '{1}', '{1}', '{x}', '{1}', '{}', '{1}', '{1}', 1)";
    let plan = intruder.plan(types, sql, "COSTS OFF", values);
    assert_eq!(plan.matches("hashed SubPlan").count(), 3, "{plan}");
    assert!(!plan.contains("Join Filter"), "{plan}");
}
