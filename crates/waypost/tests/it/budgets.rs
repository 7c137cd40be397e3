//! Budgets with the real program and a language model that counts: parallel calls, kills, pauses.

use serde_json::Value;
use waypost::wiring;
use waypost_testbed::{Charged, Model};

use crate::program::{Program, Ran};

/// What each attempt reserves.
const RESERVED: u64 = 1_050;

/// A map of calls, each of which reserves 1,000 tokens of input and 50 of output.
fn flow(model: &Model, budget: &str, items: u64, concurrency: u64) -> String {
    format!(
        "name: ask
budget: {{ {budget} }}
nodes:
  - id: each
    type: map
    config: {{ items: {items}, concurrency: {concurrency}, tolerate: {{ percent: 100 }} }}
    nodes:
      - id: call
        type: llm
        config:
          baseUrl: '{}'
          model: stub
          maxTokens: 50
          maxInputTokens: 1000
          messages: [{{ role: user, content: 'item ${{{{ index }}}}' }}]
",
        model.url()
    )
}

fn program(flow: &str) -> (Program, String) {
    let program = Program::new();
    let file = program.file("ask.yaml", flow).display().to_string();
    (program, file)
}

const EGRESS: [&str; 2] = ["--allow-egress", "127.0.0.1"];

fn tokens(spending: &Value) -> Charged {
    let of = |name: &str| spending[name].as_u64().unwrap();
    Charged { requests: 0, input: of("inputTokens"), output: of("outputTokens") }
}

fn without_requests(charged: Charged) -> Charged {
    Charged { requests: 0, ..charged }
}

#[test]
fn fifty_parallel_calls_never_exceed_the_budget() {
    // Room for all, for seven at once, and for one while about half of the calls have been made.
    for (limit, too_small) in [(1 << 40, false), (RESERVED * 7, false), (RESERVED + 800, true)] {
        let model = Model::start();
        let (program, file) = program(&flow(&model, &format!("tokens: {limit}"), 50, 50));
        let Ran { code, out, err } = program.run(&[&["run", &file], &EGRESS[..]].concat());
        assert_eq!(code, 0, "{out}{err}");
        let shown = program.json(&["show", "last"]);
        let (spending, charged) = (&shown["spending"], model.charged());
        assert_eq!(tokens(spending), without_requests(charged), "{spending}");
        assert!(charged.input + charged.output <= limit, "{charged:?}");
        assert_eq!((&spending["lost"], &spending["reserved"]), (&Value::Null, &Value::Null));
        let items = &shown["nodes"][0]["items"];
        let failed = items["failed"].as_u64().unwrap();
        assert_eq!(charged.requests, 50 - failed, "what failed was never sent");
        assert_eq!(failed > 0, too_small, "{items}");
        if failed > 0 {
            let listed = program.run(&["items", "last", "each", "--status", "failed"]).out;
            assert!(listed.contains("failed: the budget is exhausted"), "{listed}");
            // So much that no further call fits is used.
            assert!(charged.input + charged.output + RESERVED > limit, "{charged:?}");
        }
        check(&program);
    }
}

fn check(program: &Program) {
    let checked = program.run(&["check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

#[test]
fn usage_equals_what_the_model_counts_under_kills_and_losses_are_shown() {
    let model = Model::start();
    let (program, file) = program(&flow(&model, "tokens: 1000000", 40, 5));
    model.hold_after(7);
    let mut running = program.start(&[&["run", &file], &EGRESS[..]].concat(), "40 items");
    let id = running.execution();
    let mut unknown = Charged::default();
    for _ in 0..3 {
        // All five places of the map wait for a reply: everything before is committed.
        let held = model.wait_held(5);
        running.kill();
        unknown.requests += held.requests;
        unknown.input += held.input;
        unknown.output += held.output;
        model.drop_held();
        model.hold_after(7);
        running = program.start(&[&["resume", &id], &EGRESS[..]].concat(), "");
    }
    let held = model.wait_held(5);
    model.drop_held();
    // Connections that broke without a reply leave the usage unknown, too.
    unknown.requests += held.requests;
    unknown.input += held.input;
    unknown.output += held.output;
    let (code, said) = running.wait();
    assert_eq!(code, 0, "{said}");
    let shown = program.json(&["show", "last"]);
    let (spending, charged) = (&shown["spending"], model.charged());
    let counted = Charged {
        requests: 0,
        input: charged.input - unknown.input,
        output: charged.output - unknown.output,
    };
    assert_eq!(tokens(spending), counted, "{spending}");
    assert_eq!(spending["lost"]["attempts"], unknown.requests, "{spending}");
    assert_eq!(spending["lost"]["tokens"], unknown.requests * RESERVED, "{spending}");
    assert!(
        unknown.input + unknown.output <= unknown.requests * RESERVED,
        "the budget counts more"
    );
    let text = program.run(&["show", "last"]).out;
    let line = format!("the usage of {} attempts was not reported", unknown.requests);
    assert!(text.contains(&line), "{text}");
    check(&program);
}

#[test]
fn exhausted_budget_pauses_until_a_person_raises_it() {
    let model = Model::start();
    let budget = "money: 0.003, onExhausted: pause, prices: { stub: { input: 2, output: 10 } }";
    let (program, file) = program(&flow(&model, budget, 5, 1));
    let running = program.start(&[&["run", &file], &EGRESS[..]].concat(), "  paused");
    let shown = program.json(&["show", "last"]);
    assert_eq!(shown["status"], "PAUSED", "{}", running.seen);
    let calls = model.charged().requests;
    assert!((1..5).contains(&calls), "{calls}");
    let why = program.run(&["why", "last"]).out;
    assert!(why.contains("the budget is exhausted: attempt 1 of each["), "{why}");
    assert!(why.contains("--money AMOUNT` raises the budget"), "{why}");
    for (args, code, why) in [
        (&["budget", "last"][..], 2, "--tokens N, --money AMOUNT, or both"),
        (&["budget", "last", "--money", "1e3"], 2, "six decimals"),
        (&["budget", "last", "--tokens", "0"], 2, "0"),
    ] {
        let ran = program.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
    }
    let raised = program.run(&["budget", "last", "--money", "0.05", "--reason", "approved"]);
    assert_eq!(raised.code, 0, "{}{}", raised.out, raised.err);
    let id = shown["id"].as_str().unwrap();
    let resumed = program.run(&["resume", id]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let (code, said) = running.wait();
    assert_eq!(code, 0, "{said}");
    let shown = program.json(&["show", "last"]);
    assert_eq!((&shown["status"], model.charged().requests), (&"COMPLETED".into(), 5));
    let spending = &shown["spending"];
    assert_eq!(tokens(spending), without_requests(model.charged()));
    assert_eq!(spending["budget"]["money"], "0.05");
    let Charged { input, output, .. } = model.charged();
    let cost: f64 = spending["cost"].as_str().unwrap().parse().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred tokens")]
    let exact = (input * 2 + output * 10) as f64 / 1e6;
    assert!((cost - exact).abs() <= 5e-6, "{cost} and {exact}: rounded up call by call");
    check(&program);
}

#[test]
fn execution_that_failed_with_an_exhausted_budget_goes_on_with_a_retry_that_raises_it() {
    let model = Model::start();
    let limit = (RESERVED + 100).to_string();
    let flow = flow(&model, &format!("tokens: {limit}"), 5, 1);
    let (program, file) = program(&flow.replace(", tolerate: { percent: 100 }", ""));
    let ran = program.run(&[&["run", &file], &EGRESS[..]].concat());
    let shown = program.json(&["show", "last"]);
    assert_eq!(shown["status"], "FAILED", "{}{}", ran.out, ran.err);
    assert!(shown["failure"].to_string().contains("the budget is exhausted"), "{shown}");
    let refused = program.run(&["budget", "last", "--tokens", "100000"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("together with a retry"), "{}", refused.err);
    assert!(refused.err.contains("`waypost retry EXECUTION --tokens"), "{}", refused.err);
    let retry = ["retry", "last", "--tokens", "100000", "--reason", "approved"];
    let retried = program.run(&[&retry[..], &EGRESS[..]].concat());
    assert_eq!(retried.code, 0, "{}{}", retried.out, retried.err);
    let shown = program.json(&["show", "last"]);
    assert_eq!(shown["status"], "COMPLETED");
    let spending = &shown["spending"];
    assert_eq!(spending["budget"]["tokens"], 100_000, "{spending}");
    assert_eq!(tokens(spending), without_requests(model.charged()));
    check(&program);
}

#[test]
fn larger_request_than_allowed_is_not_sent_and_faults_are_shown_where_they_are() {
    let model = Model::start();
    let flow =
        flow(&model, "tokens: 5000", 1, 1).replace("maxInputTokens: 1000", "maxInputTokens: 20");
    let (program, file) = program(&flow);
    program.run(&[&["run", &file], &EGRESS[..]].concat());
    let items = program.json(&["items", "last", "each"]).to_string();
    assert!(items.contains("and `maxInputTokens` is 20; it was not sent"), "{items}");
    assert_eq!(model.charged(), Charged::default());
    assert_eq!(program.json(&["show", "last"])["spending"]["lost"], Value::Null);

    let call = "model: m, messages: [{ role: user, content: hi }]";
    for (budget, config, parts) in [
        ("tokens: 0", "maxTokens: 1, maxInputTokens: 1", ["`tokens` must be a whole number", "0"]),
        ("onExhausted: fail", "", ["`budget` needs `tokens` or `money`", "write `tokens: 200000`"]),
        ("tokens: 5, onExhausted: stop", "", ["must be `fail` or `pause`", "stop"]),
        ("tokens: 5", "maxInputTokens: 9", ["`maxTokens` is required, because", "reserves"]),
        ("tokens: 5", "maxTokens: 9", ["`maxInputTokens` is required, because", "reserves"]),
        (
            "tokens: 5",
            "maxTokens: '${{ input.n }}', maxInputTokens: 9",
            ["`maxTokens` must be a fixed number", "input.n"],
        ),
        (
            "money: 5",
            "maxTokens: 9, maxInputTokens: 9",
            ["the price of `m` is unknown", "in `budget`, or `prices`"],
        ),
        ("money: 0.0000001", "", ["with six decimals at most", "0.0000001"]),
        ("money: 5, prices: { m: { input: 1 } }", "", ["need `output`", "per million tokens"]),
        (
            "tokens: 5",
            "maxTokens: 9, maxInputTokens: 9, options: { n: 3 }",
            ["`n` cannot be an option", "one reply"],
        ),
    ] {
        let definition = format!(
            "name: x\nbudget: {{ {budget} }}\nnodes:\n  - {{ id: a, type: llm, config: {{ {call}, {config} }} }}\n"
        );
        let faults = wiring::compile(definition.as_bytes()).expect_err(config);
        let shown = faults.render(definition.as_bytes(), "x.yaml", false);
        for part in parts {
            assert!(shown.contains(part), "{budget}, {config}: {shown}");
        }
    }
}
