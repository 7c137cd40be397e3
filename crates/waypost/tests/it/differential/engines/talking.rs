//! Workflows that start others, wait for several signals, and send some.

use super::flows::Case;
use super::flows::Order::{Any, Fixed};
use super::flows::PLAIN;
use super::flows::Step::{Signal, Start, Until};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "countdown",
        source: "nodes:
  - { id: more, type: condition, config: { expression: 'input > 0' } }
  - { id: next, type: workflow, needs: [{ node: more, branch: 'true' }],
      config: { workflow: countdown, input: '${{ input - 1 }}' } }
  - { id: done, type: output, needs: [next], config: { value: '${{ nodes.next.output }}' } }
  - { id: zero, type: output, needs: [{ node: more, branch: 'false' }], config: { value: zero } }",
        input: "3",
        ..PLAIN
    },
    Case {
        name: "without-end",
        source: "nodes:
  - { id: next, type: workflow, config: { workflow: without-end } }",
        ends: &["FAILED"],
        ..PLAIN
    },
    Case {
        name: "child-fails",
        source: "nodes:
  - { id: is-child, type: condition, config: { expression: 'input' } }
  - { id: fails, type: fail, needs: [{ node: is-child, branch: 'true' }], config: { message: 'no' } }
  - { id: child, type: workflow, needs: [{ node: is-child, branch: 'false' }],
      config: { workflow: child-fails, input: true }, onError: failed,
      retry: { maxAttempts: 2, waitDuration: 1ms } }
  - { id: handled, type: output, needs: [{ node: child, branch: failed }],
      config: { value: '${{ nodes.child.failure.kind }}' } }",
        input: "false",
        ..PLAIN
    },
    Case {
        name: "two-of-three",
        source: "nodes:
  - { id: votes, type: wait-for-events, config: { events: [a, b, { name: c, filter: 'signal.yes' }], need: 2 } }
  - { id: done, type: output, needs: [votes], config: { value: '${{ nodes.votes.output }}' } }",
        steps: &[
            Start,
            Until(0, "NodeWaiting", "votes"),
            Signal(0, "c", r#"{"yes":false}"#),
            Until(0, "SignalReceived", ""),
            Signal(0, "c", r#"{"yes":true}"#),
            Until(0, "SignalReceived", ""),
            Signal(0, "a", "1"),
        ],
        ..PLAIN
    },
    Case {
        name: "late-branch",
        source: "nodes:
  - { id: votes, type: wait-for-events, config: { events: [a, b], need: all, timeout: 50ms, onTimeout: late } }
  - { id: late, type: output, needs: [{ node: votes, branch: late }], config: { value: too late } }",
        ..PLAIN
    },
    Case {
        name: "signals-itself",
        source: "nodes:
  - { id: listen, type: wait-for-events, config: { name: word } }
  - { id: later, type: delay, config: { duration: 50ms } }
  - { id: say, type: emit, needs: [later],
      config: { to: '${{ execution.id }}', signal: word, body: hello } }
  - { id: said, type: output, needs: [listen], config: { value: '${{ nodes.listen.output }}' } }",
        order: Any,
        ..PLAIN
    },
    Case {
        name: "nobody-there",
        source: "nodes:
  - { id: say, type: emit, config: { to: nobody-at-all, signal: word }, onError: alone }
  - { id: alone, type: output, needs: [{ node: say, branch: alone }],
      config: { value: '${{ nodes.say.failure.kind }}' } }",
        order: Fixed,
        ..PLAIN
    },
    Case {
        name: "signals-by-key",
        source: "nodes:
  - { id: listen, type: wait-for-events, config: { name: paid, key: order-7 } }
  - { id: say, type: emit, config: { key: order-7, signal: paid, body: 12 } }
  - { id: paid, type: output, needs: [listen, say], config: { value: '${{ nodes.listen.output }}' } }",
        order: Any,
        ..PLAIN
    },
    Case {
        name: "approval-expires",
        source: "nodes:
  - { id: ask, type: approval, config: { title: Pay?, approvers: [ada], reminder: 20ms, timeout: 60ms } }
  - { id: expired, type: output, needs: [{ node: ask, branch: expired }], config: { value: expired } }",
        ..PLAIN
    },
    Case {
        name: "message",
        source: "nodes:
  - { id: tell, type: notify, config: { message: { text: hello } } }
  - { id: wait, type: notify, needs: [tell], config: { message: { text: hello }, wait: true } }
  - { id: done, type: output, needs: [wait], config: { value: '${{ nodes.wait.output }}' } }",
        order: Any,
        ..PLAIN
    },
];
