//! API keys: `wpk_<id>_<secret>`, of which the store keeps the id and a digest of the whole.
//!
//! The secret has 244 random bits, so a fast digest is enough: there is nothing to guess. Digests
//! are compared in constant time. The ring is read again every few seconds, so that a key that was
//! revoked anywhere is worth nothing here soon after; where the store does not answer, the ring
//! stays as it is, and after [`STALE_AFTER`] it opens nothing any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use uuid::Uuid;
use waypost_ports::access::{Access, NewKey, Role};
use waypost_ports::store::StoreError;

use super::Identity;
use crate::problem::{Code, Problem};

/// How often keys are read again.
pub const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// How long keys are believed in while the store does not answer.
pub const STALE_AFTER: Duration = Duration::from_secs(50);

/// The prefix of keys, so that scanners for leaked credentials find them.
const PREFIX: &str = "wpk_";

/// Creates a key: the row to store, and the text that its holder gets, once.
pub fn make(name: &str, role: Role) -> (NewKey, String) {
    let id = Uuid::new_v4().simple().to_string();
    let id = id.get(..12).unwrap_or_default().to_owned();
    let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let text = format!("{PREFIX}{id}_{secret}");
    let digest = *blake3::hash(text.as_bytes()).as_bytes();
    (NewKey { id: id.into(), name: name.into(), role, digest }, text)
}

/// The keys that are worth something.
pub struct KeyRing {
    known: RwLock<KnownKey>,
    /// Held while keys are read again: keys that were read before a revocation must not replace
    /// those read after it.
    refreshing: Mutex<()>,
}

struct KnownKey {
    keys: HashMap<Arc<str>, Key>,
    read_at: Instant,
}

struct Key {
    digest: blake3::Hash,
    identity: Identity,
}

impl KeyRing {
    /// Reads the keys of a store.
    pub fn load(store: &(impl Access + ?Sized)) -> Result<Self, StoreError> {
        let known = KnownKey { keys: HashMap::new(), read_at: Instant::now() };
        let ring = Self { known: RwLock::new(known), refreshing: Mutex::new(()) };
        ring.refresh(store)?;
        Ok(ring)
    }

    /// Reads them again.
    pub fn refresh(&self, store: &(impl Access + ?Sized)) -> Result<(), StoreError> {
        let _one_at_a_time = self.refreshing.lock();
        let read_at = Instant::now();
        let rows = store.keys()?.into_iter().filter(|row| row.revoked_at.is_none());
        let keys = rows.map(|row| {
            let actor = format!("key:{}", row.key.id).into();
            let identity = Identity { actor, name: Arc::clone(&row.key.name), role: row.key.role };
            (row.key.id, Key { digest: blake3::Hash::from_bytes(row.key.digest), identity })
        });
        *self.known.write() = KnownKey { keys: keys.collect(), read_at };
        Ok(())
    }

    /// Is there no key at all?
    pub fn is_empty(&self) -> bool {
        self.known.read().keys.is_empty()
    }

    /// Is the key of an authenticated caller still valid?
    pub fn knows(&self, identity: &Identity) -> bool {
        let Some(id) = identity.actor.strip_prefix("key:") else { return true };
        let known = self.known.read();
        known.read_at.elapsed() <= STALE_AFTER && known.keys.contains_key(id)
    }

    /// The identity of a key's holder.
    pub fn identify(&self, text: &str) -> Result<Identity, Problem> {
        let known = self.known.read();
        if known.read_at.elapsed() > STALE_AFTER {
            let detail = "keys cannot be verified while the store does not answer";
            return Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1));
        }
        // Hashing first makes a wrong id cost as much as a wrong secret.
        let digest = blake3::hash(text.as_bytes());
        let id = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let key = id.and_then(|(id, _)| known.keys.get(id));
        match key {
            // The comparison of these hashes takes constant time.
            Some(key) if key.digest == digest => Ok(key.identity.clone()),
            _ => Err(unauthenticated("the key is not known, or it was revoked")),
        }
    }
}

/// A request without a key that is worth something.
pub fn unauthenticated(detail: &'static str) -> Problem {
    Problem::new(Code::Unauthenticated, detail)
        .hint("send `Authorization: Bearer <key>`; `waypost keys create` makes keys")
}
