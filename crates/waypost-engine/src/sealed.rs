//! The bodies of offers: a task as JSON, sealed with a MAC under the cluster's key. Others may be
//! able to write to the place of tasks; a body that does not verify is dropped.
//!
//! The seal includes the attempt and the handler, so that no body can be put under the name of
//! another offer.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use waypost_core::callback::OperationRef;
use waypost_core::expr::Placeholder;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_ports::tasks::{Offer, OfferId};

/// The purpose of the derived key, so that it has one use only.
const PURPOSE: &str = "waypost sealed offers 1";
const MAC_BYTES: usize = 32;

/// The task for a remote worker, without its attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OfferedTask {
    pub execution: ExecutionId,
    pub workflow: Arc<str>,
    pub input: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Millis>,
    /// For deduplication by outside systems.
    pub idempotency_key: String,
    /// The mark that an earlier attempt left last.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "waypost_core::json::present"
    )]
    pub checkpoint: Option<Json>,
    /// Where in the input the link of a callback and secrets belong, in order. Never the values: an offer is
    /// stored. With secrets, the input is an object with `input` and `secrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<Placeholder>,
    /// The operation that the callback is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationRef>,
    /// Must it not begin before its start is committed?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
}

#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    number: i64,
    path: std::borrow::Cow<'a, str>,
    attempt: u32,
    handler: std::borrow::Cow<'a, str>,
    task: OfferedTask,
}

/// Seals offers, and opens them.
#[derive(Clone)]
pub struct Seal {
    key: [u8; 32],
}

impl fmt::Debug for Seal {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

/// A body that is not what an instance of this cluster sealed for this offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the offer is not what was sealed")]
pub struct Broken;

impl Seal {
    /// The seal of a cluster.
    pub fn new(cluster_key: &[u8; 32]) -> Self {
        Self { key: blake3::derive_key(PURPOSE, cluster_key) }
    }

    /// An offer with its task sealed.
    pub fn close(
        &self,
        owner: InstanceId,
        id: OfferId,
        handler: Arc<str>,
        task: OfferedTask,
    ) -> Offer {
        let sealed = Sealed {
            number: id.execution.0,
            path: (&*id.path).into(),
            attempt: id.attempt,
            handler: (&*handler).into(),
            task,
        };
        let mut body = vec![0; MAC_BYTES];
        serde_json::to_writer(&mut body, &sealed)
            .expect("a task always serialises: its keys are strings and its payloads are text");
        let (mac, text) = body.split_at_mut(MAC_BYTES);
        mac.copy_from_slice(blake3::keyed_hash(&self.key, text).as_bytes());
        Offer { id, handler, owner, body }
    }

    /// The task of an offer.
    pub fn open(&self, offer: &Offer) -> Result<OfferedTask, Broken> {
        let (mac, text) = offer.body.split_at_checked(MAC_BYTES).ok_or(Broken)?;
        // Compared in constant time by blake3.
        let mac = blake3::Hash::from_slice(mac).map_err(|_| Broken)?;
        if blake3::keyed_hash(&self.key, text) != mac {
            return Err(Broken);
        }
        let sealed: Sealed<'_> = serde_json::from_slice(text).map_err(|_| Broken)?;
        let id = &offer.id;
        let same = ExecutionNo(sealed.number) == id.execution
            && sealed.path == *id.path
            && sealed.attempt == id.attempt
            && sealed.handler == *offer.handler;
        if same { Ok(sealed.task) } else { Err(Broken) }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn task() -> OfferedTask {
        OfferedTask {
            execution: ExecutionId("exe_1".into()),
            workflow: "welcome".into(),
            input: Json::parse(r#"{"a": 1.50}"#).unwrap(),
            timeout: Some(Millis(5)),
            heartbeat: Some(Millis(2)),
            idempotency_key: "exe_1/a/1".into(),
            checkpoint: Some(Json::null()),
            placeholders: vec![
                Placeholder { at: 1, name: "callback.url".into() },
                Placeholder { at: 3, name: "key".into() },
            ],
            operation: Some(OperationRef { node: "a".into(), operation: "a/1".into() }),
            at_most_once: true,
        }
    }

    fn offer(seal: &Seal) -> Offer {
        let id = OfferId { execution: ExecutionNo(1), path: "a".into(), attempt: 1 };
        seal.close(InstanceId(Uuid::from_u128(1)), id, "mail".into(), task())
    }

    #[test]
    fn seal_opens_the_task_that_it_closed() {
        let seal = Seal::new(&[7; 32]);
        let opened = seal.open(&offer(&seal)).unwrap();
        assert_eq!(opened, task());
        assert_eq!(opened.input.text(), r#"{"a": 1.50}"#);
        let plain = OfferedTask {
            timeout: None,
            heartbeat: None,
            checkpoint: None,
            placeholders: Vec::new(),
            operation: None,
            at_most_once: false,
            ..task()
        };
        let id = offer(&seal).id;
        let closed = seal.close(InstanceId(Uuid::nil()), id, "mail".into(), plain.clone());
        assert_eq!(seal.open(&closed), Ok(plain));
    }

    #[test]
    fn seal_rejects_changed_moved_and_foreign_offers() {
        let seal = Seal::new(&[7; 32]);
        let whole = offer(&seal);
        assert_eq!(Seal::new(&[8; 32]).open(&whole), Err(Broken));
        for at in 0..whole.body.len() {
            let mut damaged = whole.clone();
            damaged.body[at] ^= 1;
            assert_eq!(seal.open(&damaged), Err(Broken), "byte {at}");
            let body = whole.body[..at].to_vec();
            assert_eq!(seal.open(&Offer { body, ..whole.clone() }), Err(Broken), "cut at {at}");
        }
        let moved = |id: OfferId| seal.open(&Offer { id, ..whole.clone() });
        assert_eq!(moved(OfferId { execution: ExecutionNo(2), ..whole.id.clone() }), Err(Broken));
        assert_eq!(moved(OfferId { path: "b".into(), ..whole.id.clone() }), Err(Broken));
        assert_eq!(moved(OfferId { attempt: 2, ..whole.id.clone() }), Err(Broken));
        let other = Offer { handler: "print".into(), ..whole.clone() };
        assert_eq!(seal.open(&other), Err(Broken));
    }
}
