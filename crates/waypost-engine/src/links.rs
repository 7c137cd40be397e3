//! Links: tokens in URLs that authorise one action on one execution, without an API key.
//!
//! ```text
//!   base64url( version │ generation │ expiry │ execution │ node │ subject │ 256 bits of MAC )
//! ```
//!
//! A token carries its own claims, and nothing of it is stored: a copy of the store has no token to
//! steal. The MAC is keyed by the cluster's key and by the purpose, so that a token of one purpose is
//! worthless for another. Equal claims make equal tokens: every attempt of a node sends the same one.
//!
//! A verified token says who asks for what. Whether the execution still wants it (the wait is open,
//! the generation is the current one) is decided where the request is handled.

mod approval;

pub use approval::{APPROVAL_LINK_KEPT, APPROVALS_PATH, ApprovalLink};

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use waypost_core::callback::OperationRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::ExecutionId;
use waypost_core::time::Timestamp;

use crate::engine::Engine;

/// Characters of a token, at most: an execution's id, the path of a node and a subject fit.
pub const LINK_CHARS_MAX: usize = 4_096;

const VERSION: u8 = 1;
const MAC_BYTES: usize = blake3::OUT_LEN;
/// In the place of an expiry, for a token without one.
const NEVER: i64 = i64::MAX;
/// Characters of a token's digest in logs.
const DIGEST_CHARS: usize = 12;

/// What a link is for. Each purpose has a key of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkPurpose {
    /// An outside system completes an asynchronous operation.
    Callback,
    /// A person decides an approval.
    Approval,
}

impl LinkPurpose {
    const ALL: [Self; 2] = [Self::Callback, Self::Approval];

    /// As logs name its bearers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Approval => "approval",
        }
    }

    /// The context of the derived key, so that it has one use only.
    fn context(self) -> &'static str {
        match self {
            Self::Callback => "waypost links of callbacks 1",
            Self::Approval => "waypost links of approvals 1",
        }
    }
}

/// The claims of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    pub execution: ExecutionId,
    /// The generation of the execution: a retry of the execution makes older links worthless.
    pub generation: u32,
    /// The path of the node, with items and iterations, or whatever else names one wait for good.
    pub node: Arc<str>,
    /// Whom the link was made for, such as an approver; may be empty.
    pub subject: Arc<str>,
    pub expires_at: Option<Timestamp>,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkFault {
    /// No instance of this cluster issued it for this purpose.
    #[error("the link is not known")]
    Unknown,
    /// It was issued, and its time is over.
    #[error("the link has expired")]
    Expired,
}

/// Makes tokens, and verifies them.
#[derive(Clone)]
pub struct Links {
    keys: [[u8; 32]; LinkPurpose::ALL.len()],
}

impl fmt::Debug for Links {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Links")
    }
}

impl Links {
    /// The links of a cluster.
    pub fn new(cluster_key: &[u8; 32]) -> Self {
        let derived = |purpose: LinkPurpose| blake3::derive_key(purpose.context(), cluster_key);
        Self { keys: LinkPurpose::ALL.map(derived) }
    }

    /// The token with these claims.
    pub fn issue(&self, purpose: LinkPurpose, link: &Link) -> String {
        let mut bytes = head(link.generation, link.expires_at, &link.execution);
        add_text(&mut bytes, &link.node);
        add_text(&mut bytes, &link.subject);
        let mac = blake3::keyed_hash(self.key(purpose), &bytes);
        bytes.extend(mac.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The claims of a token, if it is one of ours for this purpose.
    pub fn verify(
        &self,
        purpose: LinkPurpose,
        token: &str,
        now: Timestamp,
    ) -> Result<Link, LinkFault> {
        if token.len() > LINK_CHARS_MAX {
            return Err(LinkFault::Unknown);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| LinkFault::Unknown)?;
        let length = bytes.len().checked_sub(MAC_BYTES).ok_or(LinkFault::Unknown)?;
        let (claims, mac) = bytes.split_at(length);
        let mac = blake3::Hash::from_slice(mac).map_err(|_| LinkFault::Unknown)?;
        // Compared in constant time by blake3. Nothing is read before.
        if blake3::keyed_hash(self.key(purpose), claims) != mac {
            return Err(LinkFault::Unknown);
        }
        let link = read(claims).ok_or(LinkFault::Unknown)?;
        match link.expires_at {
            Some(at) if at <= now => Err(LinkFault::Expired),
            _ => Ok(link),
        }
    }

    fn key(&self, purpose: LinkPurpose) -> &[u8; 32] {
        let [callback, approval] = &self.keys;
        match purpose {
            LinkPurpose::Callback => callback,
            LinkPurpose::Approval => approval,
        }
    }
}

/// The links by which outside systems call back.
#[derive(Clone, Debug)]
pub struct CallbackLinks {
    pub links: Links,
    /// What URLs begin with, where outside systems reach a server of this cluster.
    pub public_url: Option<String>,
}

impl CallbackLinks {
    /// The links of a cluster, under this address.
    pub fn new(cluster_key: &[u8; 32], public_url: Option<String>) -> Self {
        Self { links: Links::new(cluster_key), public_url }
    }

    /// The token of an operation: equal for every attempt to start it.
    pub fn token(&self, execution: &ExecutionId, of: &OperationRef) -> String {
        let link = Link {
            execution: execution.clone(),
            // The operation has its own.
            generation: 0,
            node: Arc::clone(&of.node),
            subject: Arc::clone(&of.operation),
            expires_at: None,
        };
        self.links.issue(LinkPurpose::Callback, &link)
    }

    /// What the tokens of all operations of an execution begin with.
    pub(crate) fn beginning_of_tokens(execution: &ExecutionId) -> String {
        let mut bytes = head(0, None, execution);
        // Whole groups of base64, which what follows does not change.
        bytes.truncate(bytes.len() / 3 * 3);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The URL of a token, where outside systems reach a server.
    pub(crate) fn url(&self, token: &str) -> Option<String> {
        self.public_url.as_ref().map(|base| format!("{base}/v1/callbacks/{token}"))
    }

    /// The value of `callback.url` or `callback.token`; none of other names.
    pub(crate) fn value(
        &self,
        name: &str,
        execution: &ExecutionId,
        of: Option<&OperationRef>,
    ) -> Option<Result<String, Failure>> {
        let token = of.map(|of| self.token(execution, of))?;
        match (name, self.url(&token)) {
            ("callback.token", _) => Some(Ok(token)),
            ("callback.url", Some(url)) => Some(Ok(url)),
            ("callback.url", None) => {
                let message = "callback.url is the address of a server, and there is none: run the \
                               workflow with `waypost serve` and `waypost start`, or set public_url";
                Some(Err(Failure::permanent(kind::INVALID_CONFIG, message)))
            }
            _ => None,
        }
    }
}

impl Engine {
    /// Makes and verifies the tokens of links.
    pub fn links(&self) -> &Links {
        &self.callbacks.links
    }

    /// What links begin with, if outside systems reach a server of this cluster.
    pub fn public_url(&self) -> Option<&str> {
        self.callbacks.public_url.as_deref()
    }
}

/// A short name of a token, for logs. The token cannot be found from it.
pub fn digest(token: &str) -> String {
    let hash = blake3::hash(token.as_bytes()).to_hex();
    hash.get(..DIGEST_CHARS).unwrap_or_default().to_owned()
}

/// How the claims begin.
fn head(generation: u32, expires_at: Option<Timestamp>, execution: &ExecutionId) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(generation.to_le_bytes());
    bytes.extend(expires_at.map_or(NEVER, |at| at.0).to_le_bytes());
    add_text(&mut bytes, execution.as_str());
    bytes
}

/// Adds a text with its length, so that nothing of one can be taken for another.
fn add_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn read(claims: &[u8]) -> Option<Link> {
    let (&version, mut rest) = claims.split_first()?;
    let generation = u32::from_le_bytes(take(&mut rest)?);
    let expires_at = i64::from_le_bytes(take(&mut rest)?);
    let mut text = || {
        let length = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
        let (text, after) = rest.split_at_checked(length)?;
        rest = after;
        std::str::from_utf8(text).ok()
    };
    let (execution, node, subject) = (text()?, text()?, text()?);
    (version == VERSION && rest.is_empty()).then(|| Link {
        execution: ExecutionId(execution.into()),
        generation,
        node: node.into(),
        subject: subject.into(),
        expires_at: (expires_at != NEVER).then_some(Timestamp(expires_at)),
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn link() -> Link {
        Link {
            execution: ExecutionId("exe_1".into()),
            generation: 2,
            node: "each[17]/pay".into(),
            subject: "ann@example.com".into(),
            expires_at: Some(Timestamp(1_001)),
        }
    }

    #[test]
    fn link_verified_has_the_claims_it_was_issued_with() {
        let links = Links::new(&[7; 32]);
        for purpose in LinkPurpose::ALL {
            for link in [link(), Link { subject: "".into(), expires_at: None, ..link() }] {
                let token = links.issue(purpose, &link);
                assert_eq!(links.verify(purpose, &token, NOW), Ok(link.clone()));
                assert_eq!(links.issue(purpose, &link), token, "equal claims, equal tokens");
            }
        }
        assert_eq!(format!("{links:?}"), "Links");
    }

    #[test]
    fn link_changed_cut_or_of_another_purpose_or_cluster_is_unknown() {
        let links = Links::new(&[7; 32]);
        let token = links.issue(LinkPurpose::Callback, &link());
        let verify = |text: &str| links.verify(LinkPurpose::Callback, text, NOW);
        for at in 0..token.len() {
            let mut wrong = token.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(verify(&wrong), Err(LinkFault::Unknown), "character {at}");
            assert_eq!(verify(&token[..at]), Err(LinkFault::Unknown), "cut at {at}");
        }
        for wrong in [
            format!("{token}A"),
            format!("{token}="),
            format!(" {token}"),
            token.to_uppercase(),
            "A".repeat(LINK_CHARS_MAX + 4),
            "ä".to_owned(),
        ] {
            assert_eq!(verify(&wrong), Err(LinkFault::Unknown), "{wrong}");
        }
        assert_eq!(links.verify(LinkPurpose::Approval, &token, NOW), Err(LinkFault::Unknown));
        let other = Links::new(&[8; 32]);
        assert_eq!(other.verify(LinkPurpose::Callback, &token, NOW), Err(LinkFault::Unknown));
    }

    #[test]
    fn link_expires_at_its_time() {
        let links = Links::new(&[7; 32]);
        let token = links.issue(LinkPurpose::Approval, &link());
        let at = |now| links.verify(LinkPurpose::Approval, &token, Timestamp(now)).err();
        assert_eq!(
            [1_000, 1_001, 9_999].map(at),
            [None, Some(LinkFault::Expired), Some(LinkFault::Expired)]
        );
    }

    #[test]
    fn digest_is_short_and_not_a_part_of_the_token() {
        let token = Links::new(&[7; 32]).issue(LinkPurpose::Callback, &link());
        assert_eq!(digest(&token).len(), DIGEST_CHARS);
        assert!(!token.contains(&digest(&token)));
    }
}
