//! `waypost projections`.

use anyhow::Result;
use serde_json::json;

use super::{Context, Exit};
use crate::backend;
use crate::output::{print_line, progress_line};
use crate::target;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// Derive the read tables from the log again
    Rebuild,
}

pub(crate) fn run(action: &Action, context: &Context) -> Result<Exit> {
    let Action::Rebuild = action;
    target::home_only("projections rebuild", &context.settings)?;
    let store = backend::open_engine(&context.settings)?;
    let frames = store.rebuild(&mut |done, all| {
        progress_line(&format!("rebuilding: {done} of {all} commits"));
    })?;
    progress_line("");
    let result = json!({ "frames": frames });
    context.show(&result, || print_line(&format!("rebuilt from {frames} commits")))
}
