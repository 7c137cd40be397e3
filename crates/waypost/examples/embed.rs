//! Waypost as a library: an engine inside of another program.
//!
//! ```sh
//! cargo run -p waypost --example embed -- /tmp/waypost-embed
//! ```
//!
//! The folder holds everything. Kill the program at any point and start it again: an engine goes on
//! with whatever is unfinished in its folder, before and beside what is started anew.

#![expect(clippy::print_stdout, reason = "it is an example")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use waypost::wiring;
use waypost_core::json::Json;
use waypost_engine::config::Config;
use waypost_engine::{Request, StartRequest};
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::{MailBody, Store};

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
async fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).context("name a folder")?;
    let store: Arc<dyn Store> = Arc::new(wiring::open_engine_store(&folder)?);

    let compiled = match wiring::compile(WORKFLOW.as_bytes()) {
        Ok(compiled) => compiled,
        Err(faults) => bail!("{}", faults.render(WORKFLOW.as_bytes(), "greet", false)),
    };
    let definition = wiring::define(&*store, &compiled)?;

    // Commands are off unless switched on: whoever may deploy a definition could run anything.
    let handlers = waypost_nodes::Settings { shell_enabled: true, ..Default::default() };
    let secrets = Arc::new(NoSecrets);
    let engine = wiring::open_engine(store, &handlers, secrets, Config::default(), None)?;

    let input = Json::parse(r#"{"name": "Ada"}"#)?;
    let request = StartRequest::new(Arc::new(compiled.plan), definition.version, input);
    // From here on it is durable, whatever happens to this process.
    let started = engine.start(request).await?;
    if let Some(key) = &started.key {
        println!("execution {key}");
    }

    // A signal may come before anybody waits for it: it is kept.
    let body = Json::parse(r#"{"text": "Hello yourself"}"#)?;
    let signal = MailBody::Signal { name: "answer".into(), body };
    let request = Request::new(started.execution, signal);
    engine.request(Request { actor: Some("embed".into()), ..request }).await?;

    let end = started.ended().await.context("the engine stopped first")?;
    println!("{} {}", end.status, end.output.unwrap_or_else(Json::null));
    engine.stop(Duration::from_secs(5)).await;
    Ok(())
}
