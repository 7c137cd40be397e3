//! Commands against a server: named by a flag, named by a variable, found by the folder. They say
//! what they say on the folder itself.
//!
//! | file | about |
//! | --- | --- |
//! | `server` | a real `waypost serve` |
//! | `reading` | the same output through a server as on the folder |
//! | `retrying` | retries, with and without a server |
//! | `starting` | deploy, start, run, control |
//! | `watching` | watching across restarts, and without a server |
//! | `access` | keys and the audit log |
//! | `numbers` | numbers that no machine word holds |
//! | `outbox` | messages that a server was sending when it was killed |
//! | `stopping` | signals to the server |

mod access;
mod callbacks;
mod numbers;
mod outbox;
mod reading;
mod retrying;
mod server;
mod starting;
mod stopping;
mod watching;

use crate::program::Program;

/// Completes at once.
const HELLO: &str = "name: hello
input: { type: object, required: [name], properties: { name: { type: string } } }
nodes:
  - { id: greet, type: transform, config: { value: 'Hello ${{ input.name }}' } }
  - { id: done, type: output, needs: [greet], config: { value: '${{ nodes.greet.output }}' } }
";

/// Waits for a signal.
const ASK: &str = "name: approval
nodes:
  - { id: ask, type: wait-for-events, config: { name: approved, filter: signal.ok } }
  - { id: after, type: output, needs: [ask], config: { value: '${{ nodes.ask.output.by }}' } }
";

/// What `ask` waits for.
const YES: &str = r#"{"ok":true,"by":"Eve"}"#;

fn file(program: &Program, name: &str, content: &str) -> String {
    program.file(name, content).display().to_string()
}
