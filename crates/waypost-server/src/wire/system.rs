//! Limits, instances, keys and the audit log on the wire.

use std::collections::BTreeMap;

use super::payload::Time;
use super::request::RoleName;

wire! {
    /// Every limit by name.
    pub struct Limits {
        /// All limits by name. Names end in their unit.
        pub limits: BTreeMap<String, u64>,
    }

    /// One running process.
    pub struct Instance {
        /// The instance's id, new at every start.
        pub id: String,
        /// Whether its lease is valid.
        pub alive: bool,
        /// When its lease ends unless it is renewed.
        pub alive_until?: Time,
        /// Unfinished executions that it owns.
        pub owned: u64,
        /// Attempts that run in it.
        pub running: u32,
        /// The version of its build.
        pub version?: String,
        /// The address of its HTTP API.
        pub address?: String,
        /// How long ago its lease was renewed, in milliseconds by the store's time.
        pub lag_ms?: u64,
        /// Is it the instance that handles this request?
        pub me: bool,
    }

    /// The instances that are alive, or own something still.
    pub struct InstanceList {
        /// All instances.
        pub instances: Vec<Instance>,
    }

    /// A key, without its secret.
    pub struct ApiKey {
        /// The key's id, which is no secret.
        pub id: String,
        /// Its name, for people.
        pub name: String,
        /// Its holder's rights.
        pub role: RoleName,
        /// When it was created.
        pub created_at: Time,
        /// When it was revoked.
        pub revoked_at?: Time,
    }

    /// Every key, revoked ones too.
    pub struct ApiKeyList {
        /// All keys, oldest first.
        pub keys: Vec<ApiKey>,
    }

    /// A key that was just made.
    pub struct MadeKey {
        /// The key's id, which is no secret.
        pub id: String,
        /// Its name, for people.
        pub name: String,
        /// Its holder's rights.
        pub role: RoleName,
        /// The key itself: shown only in this response.
        pub key: String,
    }

    /// An action, done or attempted.
    pub struct AuditRow {
        /// Its position in the audit log.
        pub place: u64,
        /// When it happened.
        pub at: Time,
        /// The actor: `key:<id>`, `local` or `anonymous`.
        pub actor: String,
        /// The client's address.
        pub address: String,
        /// The action, by the name of the route or command.
        pub action: String,
        /// The execution, workflow or key that it concerned.
        pub subject?: String,
        /// The HTTP status of the response.
        pub status: u16,
    }

    /// A page of the audit log, newest first.
    pub struct AuditList {
        /// The entries on this page.
        pub entries: Vec<AuditRow>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }
}
