//! The contexts of parked executions. Fields that reveal something about a payload are sealed; ids,
//! names and sizes are in clear text, for people who inspect Redis.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use waypost_core::id::ExecutionId;
use waypost_ports::mirror::Context;

use crate::ask::{Ask, BATCH_MAX, bytes, number};
use crate::seal::Purpose;
use crate::wire::Wire;

/// How long a context is stored.
const KEPT_MS: u64 = 24 * 3_600_000;
/// Bytes of a stored context besides its state.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Bytes that are read together: they cross a slow network well within the response time.
const LOAD_BYTES_MAX: usize = 2 << 20;

/// A context as it is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    execution_id: &'a str,
    workflow_id: &'a str,
    trigger_id: Option<&'a str>,
    trigger_node_id: Option<&'a str>,
    current_node_id: Option<&'a str>,
    seq: u64,
    node_outputs: BTreeMap<&'a str, Size>,
    variables: BTreeMap<&'a str, Size>,
    metadata: Metadata<'a>,
    state: String,
}

#[derive(Serialize)]
struct Size {
    bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    started_at: String,
    execution_path: &'a [Arc<str>],
    current_node_ids: &'a [Arc<str>],
    kept_at: String,
    state_bytes: usize,
}

/// The part of it that is read.
#[derive(Deserialize)]
struct ContextRead {
    state: String,
}

/// The command that stores a context; none for one that is too large.
pub(super) fn keep(wire: &Wire, context: &Context) -> Option<Ask> {
    if context.state.len() > wire.limits.context_bytes_max {
        wire.counters.dropped.add(1);
        return None;
    }
    let key = wire.keys.context(&context.execution);
    let sealed = wire.sealer.seal(Purpose::Context, key.as_bytes(), &context.state);
    let kept = Kept {
        execution_id: context.execution.as_str(),
        workflow_id: &context.workflow,
        trigger_id: None,
        trigger_node_id: None,
        current_node_id: context.current_nodes.first().map(|node| &**node),
        seq: context.seq,
        node_outputs: sizes(&context.outputs),
        variables: sizes(&context.variables),
        metadata: Metadata {
            started_at: context.started_at.to_string(),
            execution_path: &context.path,
            current_node_ids: &context.current_nodes,
            kept_at: wire.clock.now().to_string(),
            state_bytes: context.state.len(),
        },
        state: BASE64.encode(sealed),
    };
    let json = serde_json::to_vec(&kept).expect("numbers and text are JSON");
    if json.len() > longest(wire) {
        wire.counters.dropped.add(1);
        return None;
    }
    Some(Ask::command("SET").key(&key).arg(json).arg("PX").number(KEPT_MS))
}

fn sizes(of: &[(Arc<str>, u64)]) -> BTreeMap<&str, Size> {
    of.iter().map(|(name, bytes)| (&**name, Size { bytes: *bytes })).collect()
}

/// The states of these executions, if they are stored and open.
pub(super) fn load(wire: &Arc<Wire>, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>> {
    let mut states = Vec::with_capacity(executions.len());
    for batch in executions.chunks(BATCH_MAX) {
        let keys: Vec<String> = batch.iter().map(|key| wire.keys.context(key)).collect();
        states.extend(load_batch(wire, &keys, longest(wire)));
    }
    states
}

fn open(wire: &Wire, key: &str, kept: &[u8]) -> Option<Vec<u8>> {
    let read: ContextRead = serde_json::from_slice(kept).ok()?;
    let sealed = BASE64.decode(read.state).ok()?;
    wire.sealer.open(Purpose::Context, key.as_bytes(), &sealed)
}

/// Loads and opens contexts. Those that are too large or do not open are deleted.
fn load_batch(wire: &Arc<Wire>, keys: &[String], longest: usize) -> Vec<Option<Vec<u8>>> {
    let mut opened = vec![None; keys.len()];
    let mut garbage = Vec::new();
    // First their sizes: values that are read together have to arrive in time, and one may be
    // larger than our memory.
    let ask = |key: &String| Ask::command("STRLEN").key(key);
    let Ok(sizes) = wire.ask(keys.iter().map(ask).collect()) else {
        wire.counters.fallbacks.add(keys.len() as u64);
        return opened;
    };
    let mut batch = Vec::new();
    let mut size = 0;
    for (at, answer) in sizes.into_iter().enumerate() {
        match answer.ok().and_then(|value| usize::try_from(number(&value)?).ok()) {
            Some(0) => {}
            Some(bytes) if bytes <= longest => {
                batch.push(at);
                size += bytes;
            }
            _ => garbage.push(at),
        }
        let last = at + 1 == keys.len();
        if !batch.is_empty() && (last || size >= LOAD_BYTES_MAX) {
            size = 0;
            // It may have grown since.
            let ask = |at: &usize| {
                let ask = Ask::command("GETRANGE").key(&keys[*at]);
                ask.number(0).number(longest as u64)
            };
            let Ok(answers) = wire.ask(batch.iter().map(ask).collect()) else { break };
            for (at, answer) in batch.drain(..).zip(answers) {
                let kept = answer.ok().and_then(bytes).filter(|kept| kept.len() <= longest);
                opened[at] = kept.and_then(|kept| open(wire, &keys[at], &kept));
                if opened[at].is_none() {
                    garbage.push(at);
                }
            }
        }
    }
    if !garbage.is_empty() {
        wire.counters.repaired.add(garbage.len() as u64);
        let unlink = |at: usize| Ask::command("UNLINK").key(&keys[at]);
        drop(wire.ask(garbage.into_iter().map(unlink).collect()));
    }
    opened
}

/// Bytes that a stored context may have: its state in base 64, and all else.
fn longest(wire: &Wire) -> usize {
    wire.limits.context_bytes_max / 3 * 4 + HEAD_BYTES_MAX
}
