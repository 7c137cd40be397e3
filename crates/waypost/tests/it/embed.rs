//! Waypost as a library: the example runs, and so does what it does not show.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use waypost::embed::{EmbedError, Status, Waypost};
use waypost::wiring;
use waypost_ports::query::{EventsRequest, Query as _};

use crate::markdown::blocks;
use crate::tidy::{find, root};

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "its main is not called here")]
mod example;

const WAITS: &str = "
name: waits
input: { type: object, required: [n], properties: { n: { type: integer } } }
nodes:
  - { id: go, type: wait-for-events, config: { name: go } }
  - { id: done, type: output, needs: [go], config: { value: '${{ nodes.go.output.text }}' } }
";

const GRACE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn embed_example_completes_and_can_run_again_in_its_folder() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        let end = example::greet(folder.path()).await.unwrap();
        assert_eq!(end.status, Status::Completed, "{end:?}");
        assert_eq!(end.output, json!({ "said": "Hello, Ada", "heard": "Hello yourself" }));
    }
}

/// The guide shows the example, so that one test is enough for both.
#[test]
fn embedding_guide_shows_code_of_the_example() {
    let pages = find(&root(), &|name| name == "docs/guides/embedding.md");
    let example = std::fs::read_to_string(root().join("crates/waypost/examples/embed.rs")).unwrap();
    let code = blocks(&pages[0]).into_iter().filter(|block| block.language == "rust");
    let code: Vec<_> = code.collect();
    assert!(!code.is_empty());
    for block in code {
        assert!(example.contains(&block.text), "{} is not in the example", block.place);
    }
}

#[tokio::test]
async fn waypost_controls_executions_by_id() {
    let folder = TempDir::new().unwrap();
    let engine = Waypost::open(folder.path()).unwrap();
    let id = engine.start(WAITS, json!({ "n": 1 })).await.unwrap();
    engine.pause(&id, Some("maintenance")).await.unwrap();
    engine.resume(&id, None).await.unwrap();
    engine.cancel(&id, Some("a test")).await.unwrap();
    let end = engine.ended(&id).await.unwrap();
    assert_eq!((end.status, end.output), (Status::Cancelled, json!(null)));
    // Each of the requests has changed something.
    let store = wiring::open_store(folder.path()).unwrap();
    let execution = store.find(Some(&id)).unwrap().unwrap();
    let events = store.events(&EventsRequest::all(execution)).unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| &*event.kind).collect();
    assert!(kinds.contains(&"RunPauseRequested") && kinds.contains(&"RunResumed"), "{kinds:?}");
    let refused = engine.signal(&id, "go", ()).await;
    assert!(matches!(refused, Err(EmbedError::Engine(_))), "it has ended: {refused:?}");
    engine.stop(GRACE).await;
}

#[tokio::test]
async fn waypost_opened_again_finds_executions_by_id() {
    let folder = TempDir::new().unwrap();
    let engine = Waypost::open(folder.path()).unwrap();
    let id = engine.start(WAITS, json!({ "n": 1 })).await.unwrap();
    engine.stop(GRACE).await;
    assert!(matches!(engine.ended(&id).await, Err(EmbedError::Stopped)));
    drop(engine);
    let engine = Waypost::open(folder.path()).unwrap();
    engine.signal(&id, "go", json!({ "text": "late" })).await.unwrap();
    // Asked twice: an execution that has ended is found as well.
    for _ in 0..2 {
        let end = engine.ended(&id).await.unwrap();
        assert_eq!((end.status, end.output), (Status::Completed, json!("late")));
    }
    engine.stop(GRACE).await;
}

#[tokio::test]
async fn waypost_says_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let engine = Waypost::open(folder.path()).unwrap();
    let text = |error: EmbedError| error.to_string();
    let wrong = engine.start("name: x\nnodes: [{ id: a, type: nothing }]", ()).await;
    assert!(text(wrong.unwrap_err()).contains("definition:2:"), "the place of the fault is named");
    let wrong = engine.start(WAITS, json!({ "n": "one" })).await;
    assert!(matches!(&wrong, Err(EmbedError::Input(what)) if what.contains("/n")), "{wrong:?}");
    let wrong = engine.start(WAITS, "x".repeat(70_000_000)).await;
    assert!(matches!(wrong, Err(EmbedError::Payload(_))), "{wrong:?}");
    let wrong = engine.signal("exe_nowhere", "go", ()).await;
    assert_eq!(text(wrong.unwrap_err()), "there is no execution exe_nowhere");
    let second = Waypost::open(folder.path());
    assert!(matches!(second, Err(EmbedError::Open(_))), "one process at a time");
}

#[tokio::test]
async fn schema_is_checked_on_the_content_of_a_large_input() {
    let folder = TempDir::new().unwrap();
    let engine = Waypost::open(folder.path()).unwrap();
    let text = "x".repeat(2 << 20);
    for (input, fits) in [
        (json!({ "n": 7, "text": text }), true),
        (json!({ "n": "7", "text": text }), false),
        (json!({ "text": text }), false),
        (json!([text]), false),
        // The library takes data as it is.
        (json!({ "n": { "$blob": "0".repeat(64) } }), false),
    ] {
        let started = engine.start(WAITS, input).await;
        match started {
            Ok(_) => assert!(fits),
            Err(EmbedError::Input(_)) => assert!(!fits),
            Err(error) => panic!("{error}"),
        }
    }
    engine.stop(GRACE).await;
}
