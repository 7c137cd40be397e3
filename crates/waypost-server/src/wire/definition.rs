//! Definitions on the wire.

use super::payload::{Payload, Time};
use crate::problem::FaultAt;

wire! {
    /// The result of a deployment.
    pub struct Deployed {
        /// The workflow.
        pub workflow: String,
        /// The version that holds this content; absent after a dry run of something new.
        pub version?: u32,
        /// Identity of the content.
        pub hash: String,
        /// Whether this created a new version. Content that was deployed before keeps its version.
        pub created: bool,
        /// The version that starts use from now on when they name none; absent after a dry run of
        /// something new. After a dry run: the version that they would use.
        pub current?: u32,
        /// The version that they used before; absent where this is the workflow's first.
        pub previous?: u32,
        /// Its triggers, as they are now; after a dry run, those of the current version.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub triggers: Vec<DeployedTrigger>,
        /// Warnings about probable mistakes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub warnings: Vec<FaultAt>,
    }

    /// A trigger of a workflow that was deployed.
    pub struct DeployedTrigger {
        /// Its name, which is unique in the workflow.
        pub name: String,
        /// `schedule`, `webhook`, `event`, `poll`, `stream` or `workflow-ended`.
        pub kind: String,
        /// `active`, `paused` or `broken`.
        pub state: String,
        /// When it is due next.
        pub next_due_at?: Time,
    }
}

impl Deployed {
    /// The subject of the audit log's entry: the workflow, its version, and the previous current
    /// version if that changed.
    pub fn subject(&self) -> String {
        let Self { workflow, .. } = self;
        match (self.version, self.previous) {
            (Some(version), Some(previous)) if self.moved() => {
                format!("{workflow} v{version} (was v{previous})")
            }
            (Some(version), _) => format!("{workflow} v{version}"),
            (None, _) => workflow.clone(),
        }
    }

    /// Do starts use another version than before?
    pub fn moved(&self) -> bool {
        self.current.is_some() && self.current != self.previous
    }
}

wire! {
    /// One version of a workflow.
    pub struct Definition {
        /// The workflow.
        pub workflow: String,
        /// The number of the version, from 1.
        pub version: u32,
        /// The version of the workflow that starts use when they name none.
        pub current: u32,
        /// Identity of the content.
        pub hash: String,
        /// The definition, in its canonical form.
        pub definition: Payload,
    }

    /// One version of a workflow, without its content.
    pub struct DefinitionSummary {
        /// The workflow.
        pub workflow: String,
        /// The number of the version, from 1.
        pub version: u32,
        /// The version of the workflow that starts use when they name none.
        pub current: u32,
        /// Identity of the content.
        pub hash: String,
        /// When it was deployed, where that is known.
        pub created_at?: Time,
    }

    /// A page of definitions.
    pub struct DefinitionList {
        /// The definitions on this page.
        pub definitions: Vec<DefinitionSummary>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }
}
