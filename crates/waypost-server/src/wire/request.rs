//! Bodies of requests. Unknown fields are rejected: a misspelt one would otherwise be ignored
//! silently.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::id::{DefinitionHash, ExecutionId};
use waypost_core::plan::Plan;
use waypost_engine::StartRequest;
use waypost_ports::store::Idempotency;

use super::payload::{Count, Labels, OwnId, Payload, Short, word};

/// A version of a workflow.
pub type Version = Count<1, 2_147_483_647>;

wire! {
    /// A submission.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "StartRequest")]
    pub struct Start {
        /// The workflow's name.
        pub workflow: Short<128>,
        /// The version to start; default: the current one.
        pub version?: Version,
        /// The input; `null` if there is none.
        #[serde(default)]
        pub input: Payload,
        /// The execution's id; made where none is named.
        pub id?: OwnId,
        /// Labels to find it by.
        #[serde(default)]
        pub labels: Labels,
        /// A signal that is there before the first node begins. If there is an execution of this id and
        /// workflow already, none is started, and the signal goes to that one.
        pub signal?: super::Signal,
    }
}

impl Start {
    /// The digest of a submission, independent of its spelling: the order of fields and white space
    /// do not matter.
    pub fn digest(&self) -> [u8; 32] {
        let value = serde_json::to_value(self).unwrap_or_default();
        DefinitionHash::of(value.to_string().as_bytes()).0
    }

    /// This submission under an idempotency key.
    pub fn idempotency(&self, key: &str) -> Idempotency {
        Idempotency { key: key.into(), digest: self.digest() }
    }

    /// As the engine takes it, with the plan of the workflow that it names.
    pub fn into_request(self, plan: Arc<Plan>, version: u32) -> StartRequest {
        StartRequest {
            key: self.id.map(|id| ExecutionId(id.0.into())),
            labels: self.labels.0,
            ..StartRequest::new(plan, version, self.input.0)
        }
    }
}

wire! {
    /// A request for a key.
    #[serde(deny_unknown_fields)]
    pub struct NewApiKey {
        /// Its name.
        pub name: Short<128>,
        /// Its holder's rights.
        #[serde(deserialize_with = "word")]
        pub role: RoleName,
    }
}

/// The rights of a key's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Role")]
pub enum RoleName {
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

impl From<RoleName> for waypost_ports::access::Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Admin => Self::Admin,
            RoleName::Operator => Self::Operator,
            RoleName::Viewer => Self::Viewer,
            RoleName::Worker => Self::Worker,
            RoleName::Publisher => Self::Publisher,
        }
    }
}

impl From<waypost_ports::access::Role> for RoleName {
    fn from(role: waypost_ports::access::Role) -> Self {
        use waypost_ports::access::Role;
        match role {
            Role::Admin => Self::Admin,
            Role::Operator => Self::Operator,
            Role::Viewer => Self::Viewer,
            Role::Worker => Self::Worker,
            Role::Publisher => Self::Publisher,
        }
    }
}
