//! Finding the execution that a user means.

use anyhow::Result;

use super::Context;
use crate::door::Door;

/// An execution, by name.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Named {
    /// The execution's id, or `last` for the newest one
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
}

impl Named {
    /// Opens the door, and gives the execution's id.
    pub(crate) async fn open(&self, context: &Context) -> Result<(Door, String)> {
        let door = Door::open(&context.settings)?;
        let id = door.resolve(&self.execution).await?;
        Ok((door, id))
    }
}
