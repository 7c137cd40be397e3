//! Limits, instances, keys and the audit log on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::payload::Time;
use super::request::RoleName;

/// Every limit by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Names end in their unit.
    pub limits: BTreeMap<String, u64>,
}

/// One running process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// New at every start.
    pub id: String,
    /// Does its lease last?
    pub alive: bool,
    /// When its lease ends unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub alive_until: Option<Time>,
    /// Unfinished executions that it owns.
    pub owned: u64,
    /// Attempts that run in it.
    pub running: u32,
    /// Which build it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Where it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub address: Option<String>,
    /// How long ago its lease was renewed, in milliseconds by the store's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub lag_ms: Option<u64>,
    /// Is it the instance that handles this request?
    pub me: bool,
}

/// The instances that are alive, or own something still.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceList {
    /// All of them.
    pub instances: Vec<Instance>,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub revoked_at: Option<Time>,
}

/// Every key, revoked ones too.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyList {
    /// All of them, oldest first.
    pub keys: Vec<ApiKey>,
}

/// A key that was just made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub subject: Option<String>,
    /// The result: an HTTP status.
    pub status: u16,
}

/// A page of the audit log, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    /// The page.
    pub entries: Vec<AuditRow>,
    /// Pass this as `cursor` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next: Option<String>,
}
