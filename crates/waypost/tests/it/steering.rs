//! Maps are steered from the command line, on a folder and at a server.

use serde_json::{Value, json};

use crate::program::{Program, Ran, Running};

/// Each item waits for a signal of its own, two at a time.
const EACH: &str = "name: each
nodes:
  - id: each
    type: map
    config: { items: 5, concurrency: 2, tolerate: { count: 1 } }
    nodes:
      - { id: ask, type: wait-for-events, config: { name: go, filter: 'signal.index == index' } }
      - { id: done, type: output, needs: [ask], config: { value: '${{ index }}' } }
  - { id: all, type: output, needs: [each], config: { value: '${{ nodes.each.output.results }}' } }
";

fn go(program: &Program, index: u64) {
    let body = json!({ "index": index }).to_string();
    let sent = program.run(&["signal", "last", "go", "--body", &body]);
    assert_eq!(sent.code, 0, "{}", sent.err);
}

/// As a person of this name.
fn by_alice(program: &Program, args: &[&str]) -> Ran {
    let ran = Ran::from(program.command(args).env("USER", "alice").output().unwrap());
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    ran
}

fn refused(program: &Program, args: &[&str], code: i32, why: &str) {
    let ran = program.run(args);
    assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
}

fn statuses(items: &Value) -> Vec<String> {
    let page = items["page"].as_array().unwrap().iter();
    page.map(|item| format!("{} {}", item["index"], item["status"].as_str().unwrap())).collect()
}

#[test]
fn map_of_another_process_is_held_and_an_item_cancelled() {
    let program = Program::new();
    let flow = program.file("each.yaml", EACH).display().to_string();
    let running = program.start(&["run", &flow], "5 items");
    by_alice(&program, &["tune", "last", "each", "--hold", "--reason", "slow"]);
    let why = program.run(&["why", "last"]);
    assert!(
        why.out.contains("Node each is held by alice (slow) and opens no items"),
        "{}",
        why.out
    );
    let hint =
        format!("`waypost tune {} each --release` lets it open items again.", running.execution());
    assert!(why.out.contains(&hint), "{}", why.out);
    by_alice(&program, &["cancel", "last", "--node", "each[1]", "--reason", "stuck"]);
    let shown = program.run(&["show", "last"]);
    assert!(shown.out.contains("1 of 5 items, 1 failed, held by alice (slow)"), "{}", shown.out);
    let items = program.run(&["items", "last", "each", "--status", "failed"]);
    assert!(
        items.out.contains("cancelled: the item was cancelled by alice: stuck"),
        "{}",
        items.out
    );
    for (args, code, why) in [
        (&["cancel", "last", "--node", "each[1]"][..], 1, "item each[1] has ended"),
        (&["cancel", "last", "--node", "each[4]"], 1, "has not begun"),
        (&["cancel", "last", "--node", "each[9]"], 1, "has 5 items"),
        (&["cancel", "last", "--node", "all"], 1, "all is not a map"),
        (&["tune", "last", "all", "--hold"], 1, "all is not a map"),
        (&["tune", "last", "each"], 2, "--hold, --release or --concurrency"),
        (&["tune", "last", "each", "--hold", "--release"], 2, "--release"),
        (&["tune", "last", "each", "--concurrency", "10001"], 2, "10001"),
        (&["items", "last", "each", "--status", "odd"], 2, "PENDING, RUNNING"),
        (&["items", "last", "all"], 1, "has no items"),
    ] {
        refused(&program, args, code, why);
    }
    by_alice(&program, &["tune", "last", "each", "--release", "--concurrency", "4"]);
    let open = program.json(&["items", "last", "each", "--status", "running"]);
    assert_eq!(statuses(&open), ["0 RUNNING", "2 RUNNING", "3 RUNNING", "4 RUNNING"]);
    [0, 2, 3, 4].iter().for_each(|index| go(&program, *index));
    let (code, printed) = running.wait();
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("output: [0,null,2,3,4]"), "{printed}");
}

#[test]
fn map_is_steered_and_listed_through_a_server_as_on_the_folder() {
    let program = Program::new();
    let flow = program.file("each.yaml", EACH).display().to_string();
    let server = Running::start(program.command(&["serve", "--listen", "127.0.0.1:0"]), "http://");
    program.json(&["deploy", &flow]);
    program.json(&["start", "each", "--wait", "1s"]);
    program.json(&["tune", "last", "each", "--hold"]);
    program.json(&["cancel", "last", "--node", "each[0]", "--message-id", "once"]);
    let again = program.json(&["cancel", "last", "--node", "each[0]", "--message-id", "once"]);
    assert_eq!(again["duplicate"], true, "{again}");
    let list = program.run(&["list"]);
    assert!(list.out.contains("each 2/5 begun"), "{}", list.out);
    refused(&program, &["cancel", "last", "--node", "each[9]"], 1, "has 5 items");
    let page = ["items", "last", "each", "--limit", "3", "--after", "0"];
    let (listed, text) = (program.json(&page), program.run(&page));
    assert_eq!(
        (statuses(&listed), &listed["next"]),
        (vec!["1 RUNNING".into(), "2 PENDING".into(), "3 PENDING".into()], &json!(3))
    );
    assert!(text.out.contains("more: --after 3"), "{}", text.out);
    server.kill();
    assert_eq!(program.json(&page), listed, "without the server");
}
