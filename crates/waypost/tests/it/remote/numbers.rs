//! Numbers that no machine word holds: through HTTP, a store, a restart and back, digit by digit.

use waypost_testbed::postgres::Postgres;

use super::file;
use super::server::Server;
use crate::program::{Program, Ran};

/// Passes on what it gets: in its input and by a signal.
const KEEPS: &str = "name: keeps
nodes:
  - { id: ask, type: wait-for-events, config: { name: go } }
  - id: done
    type: output
    needs: [ask]
    config:
      value: ['${{ input.n }}', '${{ nodes.ask.output }}']
";

/// Computes with what it gets.
const COMPUTES: &str = "name: computes
nodes:
  - { id: done, type: output, config: { value: '${{ input.n + 1 }}' } }
";

/// What no 64-bit integer and no double holds.
const NUMBERS: [&str; 4] = [
    "100000000000000000001",
    "-100000000000000000000000000000000000000000",
    "1e-400",
    "0.1234567890123456789012345",
];

#[test]
fn numbers_are_kept_digit_by_digit_in_a_folder() {
    numbers_are_kept(&[]);
}

#[test]
fn numbers_are_kept_digit_by_digit_in_a_database() {
    numbers_are_kept(&["--database-url", &Postgres::shared().database()]);
}

fn numbers_are_kept(store: &[&str]) {
    let (program, client) = (Program::new(), Program::new());
    let flows = [("keeps.yaml", KEEPS), ("computes.yaml", COMPUTES)];
    let server = Server::start(&program, store);
    let ask = |server: &Server, args: &[&str]| -> Ran {
        let ran = client.run(&[&["--server", &server.url], args].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran
    };
    for (name, text) in flows {
        ask(&server, &["deploy", &file(&client, name, text)]);
    }
    let [input, body] = [",", " , "].map(|comma| format!(r#"{{"n":[{}]}}"#, NUMBERS.join(comma)));
    ask(&server, &["start", "keeps", "--id", "keeps-1", "--input", &input]);
    // The next server reads everything back.
    server.kill();
    let server = Server::start(&program, store);
    ask(&server, &["signal", "keeps-1", "go", "--body", &body]);
    ask(&server, &["watch", "keeps-1"]);
    for question in [&["show", "keeps-1", "-o", "json"][..], &["show", "keeps-1"]] {
        let text = ask(&server, question).out;
        for number in NUMBERS {
            assert!(text.contains(number), "{question:?} has no {number}: {text}");
        }
    }
    let events = ask(&server, &["events", "keeps-1", "-o", "json"]).out;
    for number in NUMBERS {
        assert!(
            events.matches(number).count() >= 3,
            "input, signal and output: {number}: {events}"
        );
    }
    for number in NUMBERS {
        let input = format!(r#"{{"n":{number}}}"#);
        let args = ["start", "computes", "--wait", "60s", "--input", &input];
        let ran = client.run(&[&["--server", &server.url], &args[..]].concat());
        assert_eq!(ran.code, 1, "{number}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("number_out_of_range"), "{number}: {}{}", ran.out, ran.err);
    }
}
