//! `waypost deploy`: keep definitions, so that they can be started by name.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use waypost_lang::{Compiled, Diagnostics};
use waypost_server::problem::Code;
use waypost_server::wire;
use waypost_server::workflows::Deploy;

use super::input::Source;
use super::{Context, Exit};
use crate::client::{Refused, line_of};
use crate::output::{Format, complain, complain_painted, escape_control, print_json, print_line};
use crate::target::Target;
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Definition files, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print what would be deployed; store nothing and change no current version
    #[arg(long)]
    dry_run: bool,
    /// Store nothing if any of them has warnings, and exit with 1
    #[arg(long)]
    deny_warnings: bool,
    /// Leave the triggers of the definitions paused, until each is resumed
    #[arg(long)]
    paused: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    // All are read before any is stored: a wrong name changes nothing.
    let files = Source::read_all(&args.files)?;
    if args.deny_warnings && show_all_warnings(&files, context) {
        return Ok(Exit::Failed);
    }
    let target = Target::open_or_create(&context.settings)?;
    let mut exit = Exit::Done;
    let mut reports = Vec::new();
    for Source { name, bytes: source } in &files {
        let how = if args.dry_run { Deploy::DryRun } else { Deploy::MakeCurrent };
        let judged = judge(&target, source, how, args.paused).await?;
        match (context.format, &judged) {
            (Format::Json, Ok(deployed)) => {
                reports.push(json!({ "file": name, "deployed": deployed }))
            }
            (Format::Json, Err(faults)) => {
                reports.push(json!({ "file": name, "faults": faults.report() }));
            }
            (Format::Text, Ok(deployed)) => {
                warn(deployed, source, name, context);
                print_line(&sentence(deployed, name, how));
                deployed.triggers.iter().for_each(|trigger| print_line(&about_trigger(trigger)));
            }
            (Format::Text, Err(faults)) => faults.show(source, name, context)?,
        }
        if judged.is_err() {
            exit = Exit::Wrong;
        }
    }
    if context.format == Format::Json {
        print_json(&reports)?;
    }
    Ok(exit)
}

/// Prints the warnings of all files; true if there are any.
fn show_all_warnings(files: &[Source], context: &Context) -> bool {
    let mut found = false;
    for Source { name, bytes } in files {
        if let Ok(compiled) = wiring::compile(bytes)
            && !compiled.warnings.is_empty()
        {
            show_warnings(&compiled, bytes, name, context);
            found = true;
        }
    }
    found
}

fn sentence(deployed: &wire::Deployed, file: &str, how: Deploy) -> String {
    let (workflow, previous) = (&deployed.workflow, deployed.previous);
    let again = if deployed.created { "" } else { " again" };
    match (deployed.version, previous, how == Deploy::DryRun) {
        (None, None, _) => format!("{file}: would be the first version of workflow {workflow}"),
        (None, Some(previous), _) => {
            format!(
                "{file}: would be a new version of workflow {workflow} (v{previous} is current)"
            )
        }
        (Some(version), Some(previous), true) if deployed.moved() => {
            format!(
                "{file}: workflow {workflow} v{version} would be current{again} (v{previous} is)"
            )
        }
        (Some(version), Some(previous), false) if deployed.moved() => {
            format!("{file}: workflow {workflow} v{version} is current{again} (was v{previous})")
        }
        (Some(version), _, _) if deployed.created => {
            format!("{file}: workflow {workflow} v{version}")
        }
        (Some(version), ..) => format!("{file}: workflow {workflow} v{version}, as it was"),
    }
}

/// What a trigger does from now on.
fn about_trigger(trigger: &wire::DeployedTrigger) -> String {
    let wire::DeployedTrigger { name, kind, state, next_due_at } = trigger;
    match next_due_at {
        Some(due) => format!("  {kind} {name}: {state}, due at {}", due.0),
        None => format!("  {kind} {name}: {state}"),
    }
}

/// Stores one definition for a start that names its version, and prints its warnings; `None` if it
/// has faults, which are printed. The current version stays the same.
pub(super) async fn keep(
    target: &Target,
    source: &[u8],
    name: &str,
    context: &Context,
) -> Result<Option<wire::Deployed>> {
    match judge(target, source, Deploy::KeepCurrent, false).await? {
        Ok(deployed) => {
            warn(&deployed, source, name, context);
            Ok(Some(deployed))
        }
        Err(faults) => {
            faults.show(source, name, context)?;
            Ok(None)
        }
    }
}

/// The store's or server's verdict on a definition; problems other than the definition's faults are
/// errors.
async fn judge(
    target: &Target,
    source: &[u8],
    how: Deploy,
    paused: bool,
) -> Result<Result<wire::Deployed, Faults>> {
    let error = match target.deploy(source, how, paused).await {
        Ok(deployed) => return Ok(Ok(deployed)),
        Err(error) => error,
    };
    let refused = error.downcast::<Refused>()?;
    if refused.code() != Code::InvalidDefinition.name() {
        return Err(refused.into());
    }
    Ok(Err(match wiring::compile(source) {
        Err(faults) => Faults::Ours(faults),
        Ok(_) => Faults::Theirs(refused),
    }))
}

/// The faults of a definition.
enum Faults {
    /// This program finds them, too: shown in the source.
    Ours(Box<Diagnostics>),
    /// Of a server that is stricter than this program.
    Theirs(Refused),
}

impl Faults {
    fn report(&self) -> serde_json::Value {
        match self {
            Self::Ours(faults) => json!(faults),
            Self::Theirs(refused) => json!(refused.faults()),
        }
    }

    fn show(&self, source: &[u8], name: &str, context: &Context) -> Result<()> {
        match self {
            Self::Ours(faults) => return show_faults(faults, source, name, context),
            Self::Theirs(refused) if context.format == Format::Json => {
                print_json(&json!({ "valid": false, "diagnostics": refused.faults() }))?;
            }
            Self::Theirs(refused) => {
                complain("error: the server finds faults that this program does not know");
                for fault in refused.faults() {
                    complain(&format!("  {name}:{}", line_of(fault)));
                }
            }
        }
        Ok(())
    }
}

/// Shows faults as `validate` does.
pub(super) fn show_faults(
    faults: &Diagnostics,
    source: &[u8],
    name: &str,
    context: &Context,
) -> Result<()> {
    match context.format {
        Format::Json => print_json(&json!({ "valid": false, "diagnostics": faults }))?,
        Format::Text => complain_painted(rendered(faults, source, name, context).trim_end()),
    }
    Ok(())
}

/// Faults as they are shown on standard error.
fn rendered(faults: &Diagnostics, source: &[u8], name: &str, context: &Context) -> String {
    faults.render(source, &escape_control(name), context.color_errors)
}

/// Prints the warnings of a definition.
pub(super) fn show_warnings(compiled: &Compiled, source: &[u8], name: &str, context: &Context) {
    let warnings = rendered(&compiled.warnings, source, name, context);
    if !warnings.is_empty() {
        complain_painted(warnings.trim_end());
    }
}

fn warn(deployed: &wire::Deployed, source: &[u8], name: &str, context: &Context) {
    match wiring::compile(source) {
        Ok(compiled) => {
            show_warnings(&compiled, source, name, context);
            // About the other workflows of the store: not seen in the source.
            for fault in deployed.warnings.iter().filter(|fault| fault.span.is_none()) {
                complain(&format!("{name}:{}", line_of(fault)));
            }
        }
        Err(_) => {
            for fault in &deployed.warnings {
                complain(&format!("{name}:{}", line_of(fault)));
            }
        }
    }
}
