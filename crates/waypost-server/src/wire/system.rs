//! Limits, instances, keys and the audit log on the wire.

use std::collections::BTreeMap;

use super::payload::Time;
use super::request::RoleName;

wire! {
    /// Every limit by name.
    pub struct Limits {
        /// Names end in their unit.
        pub limits: BTreeMap<String, u64>,
    }

    /// One running process.
    pub struct Instance {
        /// New at every start.
        pub id: String,
        /// Does its lease last?
        pub alive: bool,
        /// When its lease ends unless it is renewed.
        pub alive_until?: Time,
        /// Unfinished executions that it owns.
        pub owned: u64,
        /// Attempts that run in it.
        pub running: u32,
        /// Which build it is.
        pub version?: String,
        /// Where it listens.
        pub address?: String,
        /// How long ago its lease was renewed, in milliseconds by the store's time.
        pub lag_ms?: u64,
        /// Is it the instance that handles this request?
        pub me: bool,
    }

    /// The instances that are alive, or own something still.
    pub struct InstanceList {
        /// All of them.
        pub instances: Vec<Instance>,
    }

    /// A key, without its secret.
    pub struct ApiKey {
        /// Its public part.
        pub id: String,
        /// Its name.
        pub name: String,
        /// Its holder's rights.
        pub role: RoleName,
        /// Since when.
        pub created_at: Time,
        /// Since when it is worth nothing.
        pub revoked_at?: Time,
    }

    /// Every key, revoked ones too.
    pub struct ApiKeyList {
        /// All of them, oldest first.
        pub keys: Vec<ApiKey>,
    }

    /// A key that was just made.
    pub struct MadeKey {
        /// Its public part.
        pub id: String,
        /// Its name.
        pub name: String,
        /// Its holder's rights.
        pub role: RoleName,
        /// The key itself: shown this once.
        pub key: String,
    }

    /// An action, done or attempted.
    pub struct AuditRow {
        /// Its place in the audit log.
        pub place: u64,
        /// When.
        pub at: Time,
        /// Who: `key:<id>`, `local` or `anonymous`.
        pub actor: String,
        /// From where.
        pub address: String,
        /// The action, by the name of the route or command.
        pub action: String,
        /// On what.
        pub subject?: String,
        /// The result: an HTTP status.
        pub status: u16,
    }

    /// A page of the audit log, newest first.
    pub struct AuditList {
        /// The page.
        pub entries: Vec<AuditRow>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }
}
