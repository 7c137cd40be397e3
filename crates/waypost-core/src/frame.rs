//! Frames: the events of one commit of one execution, with the header that the store compares.

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::{AppendId, ExecutionNo, InstanceId};
use crate::time::Timestamp;

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub execution: ExecutionNo,
    pub first_seq: u64,
    pub last_seq: u64,
    /// Its identity, equal over repeats.
    pub append_id: AppendId,
    /// The frame that the decider saw as the last one; absent for the first.
    pub parent: Option<Parent>,
    pub instance: InstanceId,
    pub epoch: u32,
    /// The time of the commands that it answers; drives the logic.
    pub decided_at: Timestamp,
    /// The lowest log format that can read it.
    pub requires: u16,
}

/// The frame that another one builds on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parent {
    /// Seq of its first event: its key in the store.
    pub first_seq: u64,
    pub append_id: AppendId,
}

impl FrameHeader {
    /// This frame as the parent of the next.
    pub fn as_parent(&self) -> Parent {
        Parent { first_seq: self.first_seq, append_id: self.append_id }
    }
}

/// A frame's body cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the frame cannot be read: {0}")]
pub struct BadFrame(pub String);

/// Writes events as a frame's body.
pub fn encode(events: &[Event]) -> Vec<u8> {
    let mut body = Vec::with_capacity(events.len() * 64);
    serde_json::to_writer(&mut body, events)
        .expect("events always serialise: their keys are strings and their payloads are text");
    body
}

/// Reads a frame's body.
pub fn decode(body: &[u8]) -> Result<Vec<Event>, BadFrame> {
    serde_json::from_slice(body).map_err(|error| BadFrame(error.to_string()))
}
