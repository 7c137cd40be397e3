//! Definitions on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::payload::{Payload, Time};
use crate::problem::FaultAt;

/// What became of a deployment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    /// The workflow.
    pub workflow: String,
    /// The version that holds this content; absent after a dry run of something new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub version: Option<u32>,
    /// Identity of the content.
    pub hash: String,
    /// Is the version new? The same content again is the version it was.
    pub created: bool,
    /// What is probably not meant as it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FaultAt>,
}

/// One version of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// The workflow.
    pub workflow: String,
    /// From 1.
    pub version: u32,
    /// Identity of the content.
    pub hash: String,
    /// The content, in its canonical form.
    pub definition: Payload,
}

/// One version of a workflow, without its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionSummary {
    /// The workflow.
    pub workflow: String,
    /// From 1.
    pub version: u32,
    /// Identity of the content.
    pub hash: String,
    /// When it was deployed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub created_at: Option<Time>,
}

/// A page of definitions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionList {
    /// The page.
    pub definitions: Vec<DefinitionSummary>,
    /// Give this as `cursor` to go on; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next: Option<String>,
}
