//! Ids: one newtype per kind, so that none can be used for another.
//!
//! Executions are numbered by a monotone integer because storage is ordered by it; people and APIs
//! see an [`ExecutionId`] instead. Nothing here generates an id: ids come from outside the core.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How ids are written: a format, and what fills it.
macro_rules! written {
    ($($id:ident: $format:literal, |$it:ident| $($shown:expr),+;)+) => {
        $(impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $it = self;
                write!(f, $format, $($shown),+)
            }
        })+
    };
}

written! {
    ExecutionNo: "#{}", |id| id.0;
    ExecutionId: "{}", |id| id.0;
    WaitId: "{}~{}", |id| id.execution, id.seq;
    InstanceId: "{}", |id| id.0.simple();
    WorkerId: "{}", |id| id.0.simple();
    Token: "{:032x}", |id| id.0;
}

/// The storage number of an execution: monotone, dense, never shown to users.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionNo(pub i64);

/// The name of an execution outside the engine: `exe_…`, or one that the submitter chose.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(pub Arc<str>);

impl ExecutionId {
    /// The key made from a time-ordered uuid: `exe_` and 26 characters of Crockford's base 32.
    pub fn from_uuid(uuid: Uuid) -> Self {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let bits = uuid.as_u128();
        let mut text = String::with_capacity(30);
        text.push_str("exe_");
        for position in (0..26u32).rev() {
            let digit = usize::try_from((bits >> (position * 5)) & 31).unwrap_or(0);
            text.push(char::from(ALPHABET.get(digit).copied().unwrap_or(b'0')));
        }
        Self(text.into())
    }

    /// Longest id, in characters.
    pub const CHARS_MAX: usize = 128;

    /// An id that a submitter chose: letters, digits, `_`, `-`, `.` and `:`. None begins with a dot: `.` and
    /// `..` have their own meaning in paths, so such an execution could not be requested.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        let is_id = (1..=Self::CHARS_MAX).contains(&text.len())
            && !text.starts_with('.')
            && text.chars().all(fits);
        is_id.then(|| Self(text.into()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a wait outside the engine: `{key}~{seq}`. Neither part has a `~`, and nothing in it
/// needs to be escaped in a URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitId {
    pub execution: ExecutionId,
    /// The event that opened the wait.
    pub seq: u64,
}

/// A text that names no wait.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not the id of a wait, which is an execution's id, `~` and a number")]
pub struct BadWaitId(String);

impl FromStr for WaitId {
    type Err = BadWaitId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let of_key = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        let read = || {
            let (key, seq) = text.rsplit_once('~')?;
            let written_as_we_do = seq.starts_with(|c: char| matches!(c, '1'..='9'));
            let key = Some(key).filter(|key| !key.is_empty() && key.chars().all(of_key))?;
            let seq = seq.parse().ok().filter(|_| written_as_we_do)?;
            Some(Self { execution: ExecutionId(key.into()), seq })
        };
        read().ok_or_else(|| BadWaitId(text.to_owned()))
    }
}

/// Position of a node in its plan. Dense, so that state is a vector and not a map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIx(pub u32);

impl NodeIx {
    /// The position as an index into the plan's and the state's vectors.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// One running `waypost` process. New at every start: a restarted process is another instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub Uuid);

/// A remote worker: one running process, with a new id at every start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

/// Created once per decision and kept over repeats of the append: distinguishes a frame that this
/// decision has committed from another owner's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AppendId(pub Uuid);

/// The right to report on one delivery of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u128);

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Token).map_err(serde::de::Error::custom)
    }
}

/// The digest of a definition's canonical form: its identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionHash(pub [u8; 32]);

impl DefinitionHash {
    /// The hash of canonical bytes.
    pub fn of(canonical: &[u8]) -> Self {
        Self(*blake3::hash(canonical).as_bytes())
    }
}

impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for DefinitionHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DefinitionHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(*hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_keys_sort_like_their_uuids() {
        let low = ExecutionId::from_uuid(Uuid::from_u128(1 << 70));
        let high = ExecutionId::from_uuid(Uuid::from_u128(1 << 71));
        assert!(low < high);
        assert_eq!(low.as_str().len(), 30);
    }

    #[test]
    fn wait_ids_are_read_as_they_are_written_and_not_otherwise() {
        for (key, seq) in [("exe_01", 1), ("orders:7.b-c", u64::MAX)] {
            let id = WaitId { execution: ExecutionId(key.into()), seq };
            assert_eq!(id.to_string(), format!("{key}~{seq}"));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "exe_01", "~1", "exe_01~", "exe_01~0", "exe_01~01", "exe_01~+1", "a~b~1"] {
            assert!(text.parse::<WaitId>().is_err(), "{text:?}");
        }
        for text in ["exe_01~18446744073709551616", "a b~1", "a/b~1", "é~1", "exe_01~1 "] {
            assert!(text.parse::<WaitId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn tokens_and_hashes_survive_json() {
        let token = Token(u128::MAX - 7);
        let text = serde_json::to_string(&token).unwrap();
        assert_eq!(serde_json::from_str::<Token>(&text).unwrap(), token);
        let hash = DefinitionHash::of(b"x");
        let text = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<DefinitionHash>(&text).unwrap(), hash);
    }
}
