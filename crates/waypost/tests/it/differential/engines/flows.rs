//! The workflows, what is done to their executions, and how these end.

/// A workflow and what is done to it.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Its definition, but for the name.
    pub(super) source: &'static str,
    pub(super) input: &'static str,
    pub(super) steps: &'static [Step],
    /// How its executions end.
    pub(super) ends: &'static [&'static str],
    pub(super) order: Order,
}

/// Is it determined in which order the events of an execution come?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Fixed,
    /// Nodes run at the same time.
    Any,
}

/// Executions are counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Starts the next execution.
    Start,
    /// Waits for an event of an execution: its type and its node.
    Until(usize, &'static str, &'static str),
    /// Sends a signal with a body.
    Signal(usize, &'static str, &'static str),
    /// Pauses; now?
    Pause(usize, bool),
    Resume(usize),
    Cancel(usize),
    /// Sends a signal that does not end it, and once it was received the same message again.
    SignalTwice(usize, &'static str, &'static str),
}

use Order::{Any, Fixed};
use Step::{Cancel, Pause, Resume, Signal, SignalTwice, Start, Until};

/// Runs by itself and completes.
pub(super) const PLAIN: Case = Case {
    name: "",
    source: "",
    input: "null",
    steps: &[Start],
    ends: &["COMPLETED"],
    order: Fixed,
};

const FAILS: Case = Case { ends: &["FAILED"], ..PLAIN };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "chain",
        source: "nodes:
  - { id: a, type: noop }
  - { id: b, type: noop, needs: [a] }
  - { id: c, type: transform, needs: [b], config: { value: '${{ input.n + 1 }}' } }
  - { id: d, type: output, needs: [c], config: { value: ['${{ nodes.c.output }}', 'é \"x\"'] } }",
        input: r#"{"n":41}"#,
        ..PLAIN
    },
    Case {
        name: "variables",
        source: "nodes:
  - { id: a, type: transform, config: { value: 20 }, variables: { total: '${{ output }}' } }
  - { id: b, type: transform, needs: [a], config: { value: 22 },
      variables: { total: '${{ variables.total + output }}' } }
  - { id: c, type: output, needs: [b], config: { value: '${{ variables.total }}' } }",
        ..PLAIN
    },
    Case {
        name: "fan",
        source: "nodes:
  - { id: root, type: noop }
  - { id: a, type: shell, needs: [root], config: { command: echo a } }
  - { id: b, type: shell, needs: [root], config: { command: echo b } }
  - { id: c, type: shell, needs: [root], config: { command: 'echo ''{\"c\":1}''' } }
  - { id: all, type: join, needs: [a, b, c] }
  - { id: done, type: output, needs: [all], config: { value: '${{ nodes.c.output.json }}' } }",
        order: Any,
        ..PLAIN
    },
    Case {
        name: "first-of-two",
        source: "nodes:
  - { id: quick, type: shell, config: { command: echo done } }
  - { id: slow, type: shell, config: { command: sleep 600 } }
  - { id: one, type: join, join: { count: 1, cancelRest: true }, needs: [quick, slow] }",
        order: Any,
        ..PLAIN
    },
    Case { name: "condition-true", source: CONDITION, input: r#"{"age":36}"#, ..PLAIN },
    Case { name: "condition-false", source: CONDITION, input: r#"{"age":12}"#, ..PLAIN },
    Case {
        name: "condition-wrong",
        source: "nodes:
  - { id: adult, type: condition, config: { expression: input.age } }",
        input: r#"{"age":36}"#,
        ..FAILS
    },
    Case { name: "switch-case", source: SWITCH, input: r#"{"cm":20}"#, ..PLAIN },
    Case { name: "switch-default", source: SWITCH, input: r#"{"cm":70}"#, ..PLAIN },
    Case {
        name: "third-time-lucky",
        source: "nodes:
  - { id: a, type: shell, retry: { maxAttempts: 5, waitDuration: 20ms },
      config: { command: 'echo $WAYPOST_ATTEMPT; test $WAYPOST_ATTEMPT -ge 3' } }
  - { id: b, type: output, needs: [a], config: { value: '${{ nodes.a.output.stdout }}' } }",
        ..PLAIN
    },
    Case {
        name: "retries-used-up",
        source: "nodes:
  - { id: a, type: shell, retry: { maxAttempts: 3, waitDuration: 20ms },
      config: { command: 'echo no >&2; exit 3' } }
  - { id: b, type: noop, needs: [a] }",
        ..FAILS
    },
    Case {
        name: "failure",
        source: "nodes:
  - { id: a, type: shell, config: { command: exit 7 } }
  - { id: b, type: noop, needs: [a] }",
        ..FAILS
    },
    Case {
        name: "failure-handled",
        source: "nodes:
  - { id: a, type: shell, onError: sorry, config: { command: exit 7 } }
  - { id: b, type: noop, needs: [a] }
  - { id: c, type: output, needs: [{ node: a, branch: sorry }],
      config: { value: '${{ nodes.a.failure.kind }}' } }",
        ..PLAIN
    },
    Case {
        name: "failure-ends-the-rest",
        source: "nodes:
  - { id: a, type: shell, config: { command: exit 7 } }
  - { id: b, type: shell, config: { command: sleep 600 } }
  - { id: c, type: noop, needs: [b] }",
        order: Any,
        ..FAILS
    },
    Case {
        name: "failure-is-partial",
        source: "failurePolicy: partial
nodes:
  - { id: a, type: shell, config: { command: exit 7 } }
  - { id: b, type: shell, config: { command: echo b } }
  - { id: c, type: output, needs: [b], config: { value: '${{ nodes.b.output.stdout }}' } }",
        order: Any,
        ..FAILS
    },
    Case {
        name: "attempt-takes-too-long",
        source: "nodes:
  - { id: a, type: shell, timeout: 100ms, onError: continue, config: { command: sleep 600 } }
  - { id: b, type: noop, needs: [a] }",
        ..PLAIN
    },
    Case {
        name: "execution-takes-too-long",
        source: "timeout: 3s
nodes:
  - { id: a, type: wait-for-events, config: { name: never } }",
        ends: &["TIMED_OUT"],
        ..PLAIN
    },
    Case {
        name: "delay",
        source: "nodes:
  - { id: a, type: delay, config: { duration: 50ms } }
  - { id: b, type: noop, needs: [a] }",
        ..PLAIN
    },
    Case {
        name: "two-gates",
        source: GATES,
        steps: &[
            Start,
            Until(0, "NodeWaiting", "first"),
            // Too early, the wrong one, the right one.
            Signal(0, "second", r#"{"by":"Eve"}"#),
            Until(0, "SignalReceived", ""),
            SignalTwice(0, "first", r#"{"ok":false}"#),
            Signal(0, "first", r#"{"ok":true}"#),
        ],
        ..PLAIN
    },
    Case {
        name: "gates-side-by-side",
        source: "nodes:
  - { id: a, type: wait-for-events, config: { name: a } }
  - { id: b, type: wait-for-events, config: { name: b } }
  - { id: c, type: output, needs: [a, b], config: { value: '${{ nodes.b.output }}' } }",
        steps: &[
            Start,
            Until(0, "NodeWaiting", "b"),
            Signal(0, "b", "[2]"),
            Until(0, "SignalReceived", ""),
            Signal(0, "a", "[1]"),
        ],
        order: Any,
        ..PLAIN
    },
    Case {
        name: "nobody-signals",
        source: "nodes:
  - { id: a, type: wait-for-events, onError: late, config: { name: never, timeout: 50ms } }
  - { id: b, type: noop, needs: [{ node: a, branch: late }] }",
        ..PLAIN
    },
    Case {
        name: "pause",
        source: GATES,
        steps: &[
            Start,
            Until(0, "NodeWaiting", "first"),
            Pause(0, false),
            Until(0, "RunPaused", ""),
            Resume(0),
            Until(0, "RunResumed", ""),
            Signal(0, "first", r#"{"ok":true}"#),
            Until(0, "NodeWaiting", "second"),
            Signal(0, "second", "null"),
        ],
        ..PLAIN
    },
    Case {
        name: "pause-of-what-runs",
        source: "nodes:
  - { id: a, type: shell, config: { command: 'test $WAYPOST_ATTEMPT -ge 2 || sleep 600' } }
  - { id: b, type: noop, needs: [a] }",
        steps: &[
            Start,
            Until(0, "NodeStarted", "a"),
            Pause(0, true),
            Until(0, "RunPaused", ""),
            Resume(0),
        ],
        ..PLAIN
    },
    Case {
        name: "cancel-of-what-waits",
        source: GATES,
        steps: &[Start, Until(0, "NodeWaiting", "first"), Cancel(0)],
        ends: &["CANCELLED"],
        ..PLAIN
    },
    Case {
        name: "cancel-of-what-runs",
        source: "nodes:
  - { id: a, type: shell, config: { command: sleep 600 } }
  - { id: b, type: noop, needs: [a] }",
        steps: &[Start, Until(0, "NodeStarted", "a"), Cancel(0)],
        ends: &["CANCELLED"],
        ..PLAIN
    },
    Case {
        name: "group-tried-again",
        source: "nodes:
  - { id: g, type: group, retry: { maxAttempts: 3, waitDuration: 20ms }, nodes: [
      { id: a, type: shell, config: { command: 'echo $WAYPOST_IDEMPOTENCY_KEY | grep -q @3' } },
      { id: b, type: transform, needs: [a], config: { value: done } }] }
  - { id: c, type: output, needs: [g], config: { value: '${{ nodes.g.output }}' } }",
        ..PLAIN
    },
    Case {
        name: "loop",
        source: "nodes:
  - { id: l, type: loop, config: { until: iteration == 3, delay: 20ms, collect: all }, nodes: [
      { id: a, type: transform, config: { value: '${{ [iteration, previous, variables.v | default(0)] }}' },
        variables: { v: '${{ iteration * 2 }}' } }] }
  - { id: b, type: output, needs: [l], config: { value: ['${{ nodes.l.output }}', '${{ variables.v }}'] } }",
        ..PLAIN
    },
    Case {
        name: "loop-without-end",
        source: "nodes:
  - { id: l, type: loop, config: { while: 'true', maxIterations: 2 }, nodes: [{ id: a, type: noop }] }",
        ..FAILS
    },
    Case {
        name: "map",
        source: "nodes:
  - { id: m, type: map, config: { items: '${{ input.list }}', concurrency: 1, tolerate: { percent: 50 } }, nodes: [
      { id: a, type: shell, config: { command: 'test ${{ index }} -ne 1 && echo ${{ item }}' } },
      { id: b, type: transform, needs: [a], config: { value: '${{ nodes.a.output.stdout }}' } }] }
  - { id: c, type: output, needs: [m], config: { value: '${{ nodes.m.output }}' } }",
        input: r#"{"list":["x","y","z"]}"#,
        ..PLAIN
    },
    Case {
        name: "map-side-by-side",
        source: "nodes:
  - { id: m, type: map, config: { items: 4, concurrency: 4 }, nodes: [
      { id: a, type: shell, config: { command: 'echo ${{ item }}' } },
      { id: g, type: group, needs: [a], nodes: [{ id: b, type: noop }] }] }
  - { id: c, type: output, needs: [m], config: { value: '${{ nodes.m.output.succeeded }}' } }",
        order: Any,
        ..PLAIN
    },
    Case {
        name: "map-stops",
        source: "nodes:
  - { id: m, type: map, config: { items: 9, concurrency: 1, stopOnFailure: true }, nodes: [
      { id: a, type: shell, config: { command: 'test ${{ index }} -ne 2' } }] }",
        ..FAILS
    },
    Case {
        name: "map-paused",
        source: "nodes:
  - { id: m, type: map, config: { items: 2, concurrency: 1 }, nodes: [
      { id: w, type: wait-for-events, config: { name: go } }] }",
        steps: &[
            Start,
            Until(0, "NodeWaiting", "m[0]/w"),
            Pause(0, false),
            Until(0, "RunPaused", ""),
            Resume(0),
            Until(0, "RunResumed", ""),
            Signal(0, "go", "0"),
            Until(0, "NodeWaiting", "m[1]/w"),
            Signal(0, "go", "1"),
        ],
        ..PLAIN
    },
    Case {
        name: "cancel-of-a-map",
        source: "nodes:
  - { id: m, type: map, config: { items: 3, concurrency: 2 }, nodes: [
      { id: a, type: shell, config: { command: sleep 600 } }] }",
        steps: &[Start, Until(0, "NodeStarted", "m[1]/a"), Cancel(0)],
        ends: &["CANCELLED"],
        order: Any,
        ..PLAIN
    },
    Case {
        name: "one-at-a-time",
        source: "concurrency: { key: all, limit: 1, policy: queue }
nodes:
  - { id: a, type: wait-for-events, config: { name: go } }",
        steps: &[
            Start,
            Until(0, "NodeWaiting", "a"),
            Start,
            Until(1, "RunQueued", ""),
            Start,
            Until(2, "RunQueued", ""),
            Cancel(2),
            Signal(0, "go", "0"),
            Until(1, "NodeWaiting", "a"),
            Signal(1, "go", "1"),
        ],
        ends: &["COMPLETED", "COMPLETED", "CANCELLED"],
        ..PLAIN
    },
    Case {
        name: "newest-alone",
        source: "concurrency: { key: '${{ input.of }}', policy: cancel-oldest }
nodes:
  - { id: a, type: wait-for-events, config: { name: go } }",
        input: r#"{"of":"x"}"#,
        steps: &[
            Start,
            Until(0, "NodeWaiting", "a"),
            Start,
            Until(0, "RunCancelled", ""),
            Until(1, "NodeWaiting", "a"),
            Signal(1, "go", "1"),
        ],
        ends: &["CANCELLED", "COMPLETED"],
        ..PLAIN
    },
    Case {
        name: "no-more-than-one",
        source: "concurrency: { key: all, policy: reject }
nodes:
  - { id: a, type: wait-for-events, config: { name: go } }",
        steps: &[Start, Until(0, "NodeWaiting", "a"), Start, Signal(0, "go", "1")],
        ..PLAIN
    },
];

const CONDITION: &str = "nodes:
  - { id: adult, type: condition, config: { expression: 'input.age >= 18' } }
  - { id: yes, type: transform, needs: [{ node: adult, branch: 'true' }], config: { value: in } }
  - { id: no, type: transform, needs: [{ node: adult, branch: 'false' }], config: { value: out } }
  - { id: both, type: join, needs: [yes, no] }
  - { id: done, type: output, needs: [both], config: { value: '${{ nodes.both.output }}' } }";

const SWITCH: &str = "nodes:
  - { id: size, type: switch, config: { default: large, cases: [
      { when: input.cm < 10, branch: small }, { when: input.cm < 50, branch: medium }] } }
  - { id: letter, type: noop, needs: [{ node: size, branch: small }] }
  - { id: parcel, type: output, needs: [{ node: size, branch: medium }], config: { value: 1 } }
  - { id: pallet, type: output, needs: [{ node: size, branch: large }], config: { value: 2 } }";

const GATES: &str = "nodes:
  - { id: first, type: wait-for-events, config: { name: first, filter: signal.ok } }
  - { id: second, type: wait-for-events, needs: [first], config: { name: second } }
  - { id: last, type: output, needs: [second], config: { value: '${{ nodes.second.output }}' } }";
