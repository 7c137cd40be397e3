//! The benchmark as a test, over HTTP and on the servers of a cluster: how fast it is does not matter here,
//! that nothing goes wrong does.

use serde_json::Value;
use waypost_testbed::Redis;
use waypost_testbed::postgres::{Postgres, database_of};

use crate::program::Program;

#[test]
fn clients_are_served_among_bystanders() {
    let program = Program::new();
    let folder = program.path().to_str().unwrap().to_owned();
    let mut args = vec!["bench", "http", "--clients", "8", "--executions", "200"];
    args.extend(["--idle-streams", "20", "--slow-connections", "20", "--folder", &folder]);
    let ran = program.run(&[args.as_slice(), &["-o", "json"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let crowded = &report["with_bystanders"];
    for phase in [&report, crowded] {
        assert_eq!(phase["errors"], 0, "{report}");
        let frames = phase["frames_per_execution"].as_f64().unwrap();
        assert!(frames >= 10.0, "{report}");
        assert!(phase["p50_ms"].as_f64() <= phase["max_ms"].as_f64(), "{report}");
    }
    assert_eq!(report["nodes"], 2_000);
    assert_eq!(crowded["idle_streams"], 20);
    assert_eq!(crowded["idle_streams_lost"], 0, "{report}");
    assert!(crowded["p95_ratio"].as_f64().unwrap() > 0.0);
    // The server is gone, and its folder with it.
    assert_eq!(std::fs::read_dir(program.path()).unwrap().count(), 0);
}

/// Each delivery has an id and a signature of its own, and starts an execution.
#[test]
fn bench_hooks_starts_an_execution_with_each_signed_request() {
    let program = Program::new();
    let folder = program.path().to_str().unwrap().to_owned();
    let args = ["bench", "hooks", "--clients", "8", "--executions", "200", "--folder", &folder];
    let ran = program.run(&[args.as_slice(), &["-o", "json"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["scenario"], &report["errors"]), (&"hooks".into(), &0.into()), "{report}");
    assert!(report["frames_per_execution"].as_f64().unwrap() >= 10.0, "{report}");
    // Whoever measures another server says which secret that server has.
    let ran = program.run(&[args.as_slice(), &["--server", "http://127.0.0.1:1"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("--server needs --secret"), "{}", ran.err);
}

#[test]
fn bench_map_runs_each_body_to_its_end() {
    let program = Program::new();
    let folder = program.path().to_str().unwrap().to_owned();
    let map = |args: &[&str]| -> Value {
        let common = ["bench", "map", "--folder", &folder, "-o", "json"];
        let ran = program.run(&[common.as_slice(), args].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        serde_json::from_str(&ran.out).unwrap()
    };
    for body in ["noop", "two", "http"] {
        let report = map(&["--body", body, "--items", "20", "--width", "20"]);
        assert_eq!(report["nodes"], 20, "{report}");
        assert!(report.get("beside_executions").is_none(), "{report}");
    }
    let report = map(&["--body", "task", "--items", "2000", "--beside"]);
    assert!(report["beside_executions"].as_u64().unwrap() > 0, "{report}");
    for name in ["beside_idle_p99_ms", "beside_p99_ms", "beside_p99_ratio"] {
        assert!(report[name].as_f64().unwrap() > 0.0, "{name} in {report}");
    }
}

#[test]
fn bench_http_ignores_a_server_from_the_environment() {
    let program = Program::new();
    let args = ["bench", "http", "--clients", "1", "--executions", "1", "-o", "json"];
    // No process listens there, so connecting fails.
    let unreachable = "http://127.0.0.1:1";
    let ran = program.command(&args).env("WAYPOST_SERVER", unreachable).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = program.run(&[args.as_slice(), &["--server", unreachable]].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("cannot connect to 127.0.0.1:1"), "{}", ran.err);
}

/// What goes to the servers of a cluster for each node is reported, and does not grow with the load.
#[test]
fn a_cluster_is_measured_with_what_goes_over_the_wire() {
    let (program, redis) = (Program::new(), Redis::start());
    let folder = program.path().to_str().unwrap().to_owned();
    let url = Postgres::shared().database();
    let chain = |executions: &str| -> Value {
        let servers = ["--database-url", &url, "--redis-url", &redis.url()];
        let mut args = vec!["bench", "chain", "--executions", executions, "--folder", &folder];
        args.extend(servers.iter().chain(&["-o", "json"]));
        let ran = program.run(&args);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        serde_json::from_str(&ran.out).unwrap()
    };
    // What is no number is null in JSON.
    let positive = |report: &Value, name: &str| -> f64 {
        let value = report[name].as_f64().filter(|value| value.is_finite() && *value > 0.0);
        value.unwrap_or_else(|| panic!("{name} in {report}"))
    };
    let reports = ["100", "400"].map(chain);
    let [small, large] = reports.each_ref().map(|report| {
        for name in ["nodes_per_second", "nodes_per_second_projected", "bytes_on_disk_per_node"] {
            positive(report, name);
        }
        positive(report, "redis_round_trips_per_node");
        positive(report, "sql_statements_per_node")
    });
    assert_eq!((&reports[0]["nodes"], &reports[1]["nodes"]), (&1_000.into(), &4_000.into()));
    // More executions at once fill statements better, and what an instance sends to begin with and each
    // second is spread over more nodes: there should be fewer for each node, and there are more where a
    // node costs the more the more there are. How many frames meet in a statement is a matter of luck,
    // for which half as many again and a statement in twenty nodes leave room.
    assert!(large <= small * 1.5 + 0.05, "{small} statements a node, and {large} under more load");
    // A statement carries many frames: there are far fewer of them than nodes.
    assert!(large < 0.5, "{large} statements a node");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'waypost%'";
    let database = database_of(&url);
    assert_eq!(Postgres::shared().sql(database, schemas), "0", "nothing is left");
}
