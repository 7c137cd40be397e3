//! `async-operation`: what it compiles to, what is wrong in it, and polling until it is done.

use serde_json::json;
use waypost::wiring;
use waypost_core::kind::{Behaviour, LoopTest};
use waypost_core::limits::ITERATIONS_MAX;
use waypost_core::plan::Plan;

use crate::program::Program;

fn definition(config: &str) -> String {
    format!("{{ name: flow, nodes: [{{ id: op, type: async-operation, config: {config} }}] }}")
}

/// Compiles, and compiles the canonical form again.
fn compiled(source: &str) -> Plan {
    let compiled = wiring::compile(source.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(!compiled.canonical.contains("\"nodes\":[{\"id\":\"start\""), "{}", compiled.canonical);
    let again =
        waypost_lang::compile_canonical(compiled.canonical.as_bytes(), &waypost_nodes::catalog());
    let again = again.unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(format!("{:?}", again.nodes), format!("{:?}", compiled.plan.nodes));
    compiled.plan
}

#[test]
fn operation_with_a_callback_has_a_body_of_its_start() {
    let plan = compiled(&definition(
        "{ start: { type: shell, config: { command: 'start ${{ callback.url }}' }, retry: { maxAttempts: 3 } }, timeout: 5m, onTimeout: late }",
    ));
    let ids: Vec<&str> = plan.nodes.iter().map(|node| &*node.id).collect();
    assert_eq!(ids, ["op", "start"]);
    let Behaviour::Operation(spec) = &plan.nodes[0].behaviour else { panic!("{plan:?}") };
    assert_eq!(spec.on_timeout.as_deref(), Some("late"));
    assert_eq!(plan.nodes[0].kind, "async-operation");
    assert_eq!(plan.nodes[1].retry.as_ref().unwrap().max_attempts, 3);
    assert_eq!(plan.requires(), waypost_core::event::CALLBACKS_LOG_FORMAT);
}

#[test]
fn operation_that_is_polled_has_a_loop_in_its_body() {
    let plan = compiled(&definition(
        "{ start: { id: submit, type: shell, config: { command: submit } }, timeout: 1h,
           poll: { every: '${{ iteration * 10 }}s', until: \"previous == 'done'\", type: shell,
                   config: { command: 'ask ${{ nodes.submit.output.stdout }}' },
                   output: '${{ nodes.check.output.stdout }}' } }",
    ));
    let ids: Vec<&str> = plan.nodes.iter().map(|node| &*node.id).collect();
    assert_eq!(ids, ["op", "submit", "poll", "check", "result"]);
    assert_eq!(plan.nodes[0].behaviour, Behaviour::Group);
    let Behaviour::Loop(spec) = &plan.nodes[2].behaviour else { panic!("{plan:?}") };
    assert!(matches!(&spec.test, LoopTest::Until(_)));
    assert_eq!(spec.iterations_max, ITERATIONS_MAX);
    assert!(spec.delay.is_some() && plan.nodes[2].deadline.is_some());
}

#[test]
fn operation_that_is_polled_may_select_a_branch_after_its_timeout() {
    let plan = compiled(&definition(
        "{ start: { type: noop }, timeout: 1h, onTimeout: late,
           poll: { every: 10s, until: previous, type: noop } }",
    ));
    assert_eq!(plan.nodes[0].behaviour, Behaviour::Polled("late".into()));
    assert_eq!(plan.nodes[0].behaviour.branches(), Some(vec!["late"]));
}

#[test]
fn faults_of_an_operation_are_reported_where_they_are() {
    const START: &str = "start: { type: noop }";
    for (config, code, said) in [
        ("{}", "missing_field", "needs `start`"),
        ("{ start: 5 }", "bad_config", "`start` must be a node"),
        ("{ start: { type: nope } }", "unknown_kind", "nope"),
        ("{ start: { type: noop, needs: [x] } }", "bad_config", "`needs` belongs to the node"),
        ("{ START, callback: false }", "bad_config", "`poll` is needed"),
        (
            "{ START, callback: true, poll: { type: noop, every: 1s, until: 'true' } }",
            "bad_config",
            "exclude",
        ),
        ("{ START, poll: { type: noop } }", "bad_config", "`poll` needs `every`"),
        ("{ START, onTimeout: late }", "bad_config", "needs a `timeout`"),
        (
            "{ start: { type: shell, config: { command: '${{ nodes.x.output }}' } } }",
            "unknown_node",
            "no node",
        ),
        (
            "{ start: { type: shell, config: { command: '${{ callback.url ~ 1 }}' } } }",
            "secret_not_alone",
            "stand alone",
        ),
        (
            "{ start: { type: shell, config: { command: '${{ callback.nope }}' } } }",
            "secret_not_alone",
            "stand alone",
        ),
        (
            "{ start: { type: transform, config: { value: '${{ callback.url }}' } } }",
            "name_not_available",
            "callback",
        ),
        (
            "{ start: { type: shell, config: { command: '${{ callback.url }}' } }, poll: { type: noop, every: 1s, until: 'true' } }",
            "name_not_available",
            "callback",
        ),
    ] {
        let source = definition(&config.replace("START", START));
        let faults = wiring::compile(source.as_bytes()).map(|_| ()).unwrap_err();
        let text = faults.to_string();
        assert!(text.contains(said), "{config}: {said:?} is not in {text}");
        let found = faults.faults.iter().any(|fault| fault.code.name() == code);
        assert!(found, "{config}: no {code} in {text}");
    }
    let outside = "{ name: flow, nodes: [{ id: a, type: shell, config: { command: '${{ callback.url }}' } }] }";
    let text = wiring::compile(outside.as_bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("is only available in the config of the action"), "{text}");
    let own = "{ name: flow, nodes: [{ id: op, type: async-operation, config: { start: { type: noop } }, nodes: [{ id: a, type: noop }] }] }";
    let text = wiring::compile(own.as_bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("the body is made of `start` and `poll`"), "{text}");
}

#[test]
fn polling_ends_with_the_last_result() {
    let program = Program::new();
    let count = program.path().join("count");
    let flow = program.file(
        "flow.yaml",
        format!(
            "name: job
nodes:
  - id: job
    type: async-operation
    config:
      start: {{ type: shell, config: {{ command: 'echo 17' }} }}
      poll:
        every: 1ms
        until: previous.n >= 3
        type: shell
        config: {{ command: 'echo ${{{{ nodes.start.output.stdout | trim }}}} >> {count}; wc -l < {count}' }}
        output: {{ n: '${{{{ nodes.check.output.stdout | trim | int }}}}', job: '${{{{ nodes.start.output.stdout | trim }}}}' }}
      timeout: 10m
  - {{ id: done, type: output, needs: [job], config: {{ value: '${{{{ nodes.job.output }}}}' }} }}
",
            count = count.display()
        ),
    );
    let ran = program.json(&["run", flow.to_str().unwrap()]);
    assert_eq!(ran["output"], json!({ "n": 3, "job": "17" }), "{ran}");
}

#[test]
fn polling_that_takes_too_long_goes_on_on_its_branch() {
    let program = Program::new();
    let flow = "name: job
nodes:
  - id: job
    type: async-operation
    config:
      start: { type: transform, config: { value: 17 } }
      poll: { every: 1ms, until: 'false', type: noop }
      timeout: 20ms
      onTimeout: late
  - { id: done, type: output, needs: [job], config: { value: done } }
  - { id: late, type: output, needs: [{ node: job, branch: late }], config: { value: '${{ nodes.job.output }}' } }
";
    let flow = program.file("flow.yaml", flow);
    let ran = program.json(&["run", flow.to_str().unwrap()]);
    assert_eq!(ran["output"], json!({ "late": null }), "{ran}");
}

#[test]
fn callback_without_a_server_is_a_failure_that_says_so() {
    let program = Program::new();
    let flow = "{ name: flow, nodes: [{ id: op, type: async-operation, config: { start: { type: shell, config: { command: 'echo ${{ callback.url }}' } } } }] }";
    let flow = program.file("flow.yaml", flow);
    let ran = program.json(&["run", flow.to_str().unwrap()]);
    let message = ran["failure"]["message"].as_str().unwrap();
    assert!(message.contains("`waypost serve`") && message.contains("public_url"), "{message}");
}
