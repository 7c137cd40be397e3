//! The names of messages, which are also their ids.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::ExecutionNo;

/// A message, named.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageName {
    pub endpoint: Arc<str>,
    pub execution: ExecutionNo,
    pub seq: u64,
    /// Of the frame: a store that lost commits may give the same number and seq again.
    pub mark: u32,
}

impl fmt::Display for MessageName {
    /// The header `webhook-id`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, execution, seq, mark } = self;
        write!(f, "msg_{endpoint}_{}_{seq}_{mark:08x}", execution.0)
    }
}

impl MessageName {
    /// The message of an id.
    pub fn parse(id: &str) -> Option<Self> {
        let (rest, mark) = id.strip_prefix("msg_")?.rsplit_once('_')?;
        let (rest, seq) = rest.rsplit_once('_')?;
        let (endpoint, execution) = rest.rsplit_once('_')?;
        let name = Self {
            endpoint: endpoint.into(),
            execution: ExecutionNo(execution.parse().ok()?),
            seq: seq.parse().ok()?,
            mark: u32::from_str_radix(mark, 16).ok()?,
        };
        (name.to_string() == id).then_some(name)
    }
}

/// The part of a message's id that tells two frames of one number and seq apart.
pub fn frame_mark(append_id: Uuid) -> u32 {
    let [.., a, b, c, d] = *append_id.as_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_are_read_back() {
        let name = |endpoint: &str, execution, seq, mark| MessageName {
            endpoint: endpoint.into(),
            execution: ExecutionNo(execution),
            seq,
            mark,
        };
        for name in [name("abc", 1, 2, 3), name("a_b", i64::MAX, u64::MAX, u32::MAX)] {
            assert_eq!(MessageName::parse(&name.to_string()), Some(name));
        }
        for bad in ["", "msg_", "msg_a_1_2", "msg_a_1_2_3", "msg_a_x_2_00000003", "a_1_2_00000003"]
        {
            assert_eq!(MessageName::parse(bad), None, "{bad}");
        }
    }
}
