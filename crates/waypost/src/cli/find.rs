//! Finding the execution that a user means.

use anyhow::Result;

use super::Context;
use crate::target::Target;

/// An execution, by name.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Named {
    /// The execution's id, or `last` for the newest one
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
}

impl Named {
    /// Opens the target, and returns the execution's id.
    pub(crate) async fn open(&self, context: &Context) -> Result<(Target, String)> {
        let target = Target::open(&context.settings)?;
        let id = target.resolve(&self.execution).await?;
        Ok((target, id))
    }
}
