//! Definitions, as the store keeps them.

use std::sync::Arc;

use waypost_core::id::DefinitionHash;

use crate::triggers::NewTrigger;

/// A definition to keep.
#[derive(Clone, Debug)]
pub struct NewDefinition {
    pub name: Arc<str>,
    pub hash: DefinitionHash,
    /// The content: canonical JSON.
    pub canonical: Arc<str>,
    /// Do starts that name no version use this one from now on?
    pub make_current: bool,
    /// What it declares, registered if it becomes the current version, also if it is known; triggers that the
    /// version before had and this one has not are retired.
    pub triggers: Vec<NewTrigger>,
    /// Are its triggers paused by this deploy? Those that were paused stay so in any case.
    pub paused: bool,
}

/// The result of storing a definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defined {
    pub definition: Definition,
    /// Is the version new?
    pub created: bool,
    /// The version of the workflow that was current before; absent with the workflow's first version.
    pub previous: Option<u32>,
    pub current: u32,
}

/// A stored definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    pub name: Arc<str>,
    /// From 1.
    pub version: u32,
    pub hash: DefinitionHash,
    pub canonical: Arc<str>,
}

/// How a definition is looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefinitionRef {
    /// By content.
    Hash(DefinitionHash),
    Version(Arc<str>, u32),
    /// The version that starts use which name none.
    Current(Arc<str>),
}
