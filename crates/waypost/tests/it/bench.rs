//! The benchmark over HTTP as a test: how fast it is does not matter here, that nothing goes wrong
//! does.

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

#[test]
fn a_server_that_nobody_named_on_the_command_line_is_not_loaded() {
    let program = Program::new();
    let args = ["bench", "http", "--clients", "1", "--executions", "1", "-o", "json"];
    // Nobody listens there: whoever connects fails.
    let nobody = "http://127.0.0.1:1";
    let ran = program.command(&args).env("WAYPOST_SERVER", nobody).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = program.run(&[args.as_slice(), &["--server", nobody]].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("cannot connect to 127.0.0.1:1"), "{}", ran.err);
}
