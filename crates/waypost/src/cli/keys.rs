//! `waypost keys` and `audit`: API keys, and the audit log.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use waypost_ports::access::{AuditRequest, Role};
use waypost_server::wire;
use waypost_server::wire::request::RoleName;

use super::{Context, Exit, Usage, input};
use crate::output::{complain, print_columns, print_line};
use crate::target::AdminTarget;

/// Longest name of a key.
const NAME_CHARS_MAX: usize = 128;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// Create a key; it is shown only once
    Create {
        /// What its holder may do
        #[arg(long, value_enum)]
        role: RoleArg,
        /// The key's display name; the role's name if absent
        #[arg(long)]
        name: Option<String>,
    },
    /// List all keys, without their secrets
    List,
    /// Revoke a key
    Revoke {
        /// The key's id, as `keys list` shows it
        id: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    /// Everything, keys included
    Admin,
    /// Deploy, start and control
    Operator,
    /// Read everything, change nothing
    Viewer,
    /// Poll for tasks and report on them
    Worker,
}

impl From<RoleArg> for RoleName {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Admin => Self::Admin,
            RoleArg::Operator => Self::Operator,
            RoleArg::Viewer => Self::Viewer,
            RoleArg::Worker => Self::Worker,
        }
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct AuditArgs {
    /// Only what this actor did: `key:<id>`, `local` or `anonymous`
    #[arg(long)]
    actor: Option<String>,
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    before: Option<u64>,
}

pub(crate) async fn run(action: &Action, context: &Context) -> Result<Exit> {
    match action {
        Action::Create { role, name } => create(*role, name.as_deref(), context).await,
        Action::List => list(context).await,
        Action::Revoke { id } => revoke(id, context).await,
    }
}

async fn create(role: RoleArg, name: Option<&str>, context: &Context) -> Result<Exit> {
    let role = RoleName::from(role);
    let name = name.unwrap_or(Role::from(role).name());
    let fits = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    if !fits || name.chars().any(char::is_control) {
        let message = format!("--name must be 1 to {NAME_CHARS_MAX} characters, none of control");
        return Err(Usage(message).into());
    }
    let made = AdminTarget::open_or_create(&context.settings)?.create_key(name, role).await?;
    context.show(&made, || {
        print_line(&made.key);
        // Standard output holds the key and nothing else.
        complain("This is the only time that it is shown. Give it to commands as WAYPOST_KEY.");
    })
}

async fn list(context: &Context) -> Result<Exit> {
    let list = AdminTarget::open(&context.settings)?.keys().await?;
    let columns = |key: &wire::ApiKey| {
        let revoked = key.revoked_at.map(|at| at.0.to_string()).unwrap_or_default();
        let role = Role::from(key.role).to_string();
        vec![key.id.clone(), role, key.name.clone(), key.created_at.0.to_string(), revoked]
    };
    context.show(&list, || match list.keys.as_slice() {
        [] => print_line("no keys; `waypost keys create --role admin` makes one"),
        keys => print_columns(&["ID", "ROLE", "NAME", "CREATED", "REVOKED"], keys, columns),
    })
}

async fn revoke(id: &str, context: &Context) -> Result<Exit> {
    let target = AdminTarget::open(&context.settings)?;
    target.revoke_key(id).await?;
    let delay = match target {
        AdminTarget::Remote(_) => "",
        AdminTarget::Folder(_) => "; a running server knows it within 5 seconds",
    };
    let result = json!({ "id": id, "revoked": true });
    context.show(&result, || print_line(&format!("{id} is revoked{delay}")))
}

pub(crate) async fn audit(args: &AuditArgs, context: &Context) -> Result<Exit> {
    let request =
        AuditRequest { actor: args.actor.clone(), before: args.before, limit: args.limit };
    let list = AdminTarget::open(&context.settings)?.audit(request).await?;
    let columns = |row: &wire::AuditRow| {
        vec![
            row.at.0.to_string(),
            row.actor.clone(),
            row.address.clone(),
            row.action.clone(),
            row.status.to_string(),
            row.subject.clone().unwrap_or_default(),
        ]
    };
    context.show(&list, || {
        if list.entries.is_empty() {
            return print_line("nothing was done yet");
        }
        let headings = ["AT", "ACTOR", "FROM", "ACTION", "STATUS", "SUBJECT"];
        print_columns(&headings, &list.entries, columns);
        if let Some(next) = &list.next {
            print_line(&format!("more: the same with --before {next}"));
        }
    })
}
