//! API keys and the audit log.
//!
//! The store keeps the digest of a key's secret, never the secret. It decides about no request: the
//! server compares and decides.

use std::fmt;
use std::sync::Arc;

use waypost_core::time::Timestamp;

use crate::store::StoreError;

/// The server's interface to keys and the audit log.
pub trait Access: Send + Sync {
    /// Keeps a key. Refused where there is one of its id, revoked or not: the audit log names keys by
    /// their ids.
    fn add_key(&self, key: &NewKey) -> Result<(), StoreError>;

    /// Every key, revoked ones too, oldest first.
    fn keys(&self) -> Result<Vec<KeyRow>, StoreError>;

    /// Revokes a key from now on. `false` where there is none of this id; revoking twice keeps the
    /// first time.
    fn revoke_key(&self, id: &str) -> Result<bool, StoreError>;

    /// Adds to the audit log, durably, in order.
    fn record(&self, entries: &[AuditEntry]) -> Result<(), StoreError>;

    /// A page of the audit log, newest first.
    fn audit(&self, request: &AuditRequest) -> Result<AuditPage, StoreError>;
}

/// The rights of a key's holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Everything, keys included.
    Admin,
    /// Deploy, start and control.
    Operator,
    /// Look.
    Viewer,
    /// Take tasks and report on them.
    Worker,
    /// Publish events.
    Publisher,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] =
        [Self::Admin, Self::Operator, Self::Viewer, Self::Worker, Self::Publisher];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Worker => "worker",
            Self::Publisher => "publisher",
        }
    }

    /// The role of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewKey {
    /// The public part of the key, by which it is found.
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub role: Role,
    /// Of its secret.
    pub digest: [u8; 32],
}

/// A stored key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRow {
    pub key: NewKey,
    pub created_at: Timestamp,
    /// Since when it is worth nothing.
    pub revoked_at: Option<Timestamp>,
}

/// One action, or an attempt at one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// Who: a key's id, or `local`; `anonymous` if unknown.
    pub actor: Arc<str>,
    pub address: Arc<str>,
    /// The action, by the name of the route or command.
    pub action: Arc<str>,
    /// On what: an execution's key, a workflow, a key's id.
    pub subject: Option<Arc<str>>,
    /// The result: an HTTP status.
    pub status: u16,
}

/// Which part of the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditRequest {
    pub actor: Option<String>,
    /// Before this place, for paging.
    pub before: Option<u64>,
    pub limit: usize,
}

/// A page of the audit log.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// Entries with their places.
    pub rows: Vec<(u64, AuditEntry)>,
    pub more: bool,
}
