//! Waypost as a library: an engine inside of another program.
//!
//! ```sh
//! cargo run -p waypost --example embed -- /tmp/waypost-embed
//! ```
//!
//! The folder holds everything. Kill the program at any point and start it again: the engine resumes
//! whatever is unfinished in its folder, beside what is started anew.

#![expect(clippy::print_stdout, reason = "it is an example")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost::embed::{EmbedError, EmbedOptions, ExecutionEnd, NodeSettings, Waypost, json};

const WORKFLOW: &str = "
name: greet
nodes:
  - id: hello
    type: shell
    config:
      args: [printf, 'Hello, %s', '${{ input.name }}']
  - id: answer
    type: wait-for-events
    needs: [hello]
    config: { name: answer, timeout: 1m }
  - id: done
    type: output
    needs: [answer]
    config:
      value: { said: '${{ nodes.hello.output.stdout }}', heard: '${{ nodes.answer.output.text }}' }
";

#[tokio::main]
async fn main() -> Result<(), EmbedError> {
    let folder = std::env::args_os().nth(1).map_or("waypost-embed".into(), PathBuf::from);
    let end = greet(&folder).await?;
    println!("{} {}", end.status, end.output);
    Ok(())
}

/// Runs one execution to its end.
pub(crate) async fn greet(folder: &Path) -> Result<ExecutionEnd, EmbedError> {
    // Shell commands are off by default: definitions could run anything on this machine.
    let nodes = NodeSettings { shell_enabled: true, ..NodeSettings::default() };
    let options = EmbedOptions { nodes, actor: Some("embed".into()), ..EmbedOptions::default() };
    let engine = Waypost::open_with(folder, options)?;

    // From here on the execution is durable, whatever happens to this process.
    let id = engine.start(WORKFLOW, json!({ "name": "Ada" })).await?;

    // A signal may come before the node that waits for it: it is kept.
    engine.signal(&id, "answer", json!({ "text": "Hello yourself" })).await?;

    let end = engine.ended(&id).await?;
    engine.stop(Duration::from_secs(5)).await;
    Ok(end)
}
