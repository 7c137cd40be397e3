//! `waypost webhooks` and `dead-letters`: webhook endpoints of a server, and their messages.

use anyhow::Result;
use serde_json::json;
use waypost_server::reader::PAGE_MAX;
use waypost_server::wire;
use waypost_server::wire::payload::{Short, Time};

use super::{Context, Exit, input, when};
use crate::client::{Ask, Client};
use crate::output::{complain, print_columns, print_line, print_table};
use crate::target::server_only;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// Register an endpoint; its secret is shown only once
    Create(CreateArgs),
    /// List all endpoints, without their secrets
    List,
    /// Show an endpoint
    Show {
        /// The endpoint's id
        id: String,
    },
    /// Delete an endpoint with all its messages
    Delete {
        /// The endpoint's id
        id: String,
    },
    /// Pause an endpoint; its messages wait
    Pause {
        /// The endpoint's id
        id: String,
    },
    /// Resume an endpoint that is paused, disabled or cools
    Resume {
        /// The endpoint's id
        id: String,
    },
    /// Give an endpoint a new secret; the former one signs for another day
    Rotate {
        /// The endpoint's id
        id: String,
    },
    /// Send a test message, and print the result
    Test {
        /// The endpoint's id
        id: String,
    },
    /// Send settled messages again, under the same ids
    Replay(ReplayArgs),
    /// List the messages of an endpoint, or about an execution, newest first
    Messages {
        /// The endpoint's id
        #[arg(required_unless_present = "execution", conflicts_with = "execution")]
        id: Option<String>,
        /// The messages about this execution, to all endpoints
        #[arg(long, value_name = "EXECUTION")]
        execution: Option<String>,
        /// Only messages of the endpoint that are `pending`, `delivered` or `dead`
        #[arg(long, conflicts_with = "execution")]
        state: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct CreateArgs {
    /// Where messages are sent
    url: String,
    /// Only messages about executions of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only messages of this type; may be repeated
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// What the endpoint is for
    #[arg(long)]
    description: Option<String>,
    /// Include the output in messages about the end of an execution
    #[arg(long)]
    include_output: bool,
    /// Include a link for each approver in messages about approvals
    #[arg(long)]
    include_links: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Which {
    /// All dead letters
    #[arg(long)]
    dead: bool,
    /// Messages about what was committed since then: a time, or an age such as 2h
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// The message of this id; may be repeated
    #[arg(long = "id", value_name = "MESSAGE")]
    ids: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The endpoint's id
    id: String,
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    before: Option<u64>,
}

pub(crate) async fn run(action: &Action, context: &Context) -> Result<Exit> {
    let client = server_only("webhooks", &context.settings)?;
    match action {
        Action::Create(args) => create(&client, args, context).await,
        Action::List => list(&client, context).await,
        Action::Show { id } => {
            let endpoint: wire::WebhookEndpoint = client.get(&["webhook-endpoints", id]).await?;
            context.show(&endpoint, || print_endpoint(&endpoint))
        }
        Action::Delete { id } => {
            client.tell(Ask::delete(&["webhook-endpoints", id])).await?;
            let result = json!({ "id": id, "deleted": true });
            context.show(&result, || print_line(&format!("{id} is deleted")))
        }
        Action::Pause { id } => change(&client, id, "pause", context).await,
        Action::Resume { id } => change(&client, id, "resume", context).await,
        Action::Rotate { id } => {
            let path = ["webhook-endpoints", id, "rotate"];
            let made: wire::WebhookSecret = client.ask(Ask::post(&path)).await?.body;
            show_secret(&made, context)
        }
        Action::Test { id } => test(&client, id, context).await,
        Action::Replay(args) => replay(&client, args, context).await,
        Action::Messages { id, execution, state, page } => {
            let path = match (id, execution) {
                (_, Some(execution)) => ["executions", execution.as_str(), "messages"],
                (id, None) => ["webhook-endpoints", id.as_deref().unwrap_or_default(), "messages"],
            };
            let ask = Ask::get(&path).query("state", state.clone());
            let list: wire::WebhookMessageList = client.ask(paged(ask, page)).await?.body;
            context.show(&list, || print_messages(&list.messages, list.next.as_deref()))
        }
    }
}

fn paged<'a>(ask: Ask<'a>, page: &PageArgs) -> Ask<'a> {
    ask.query("cursor", page.before).query("limit", Some(page.limit.min(PAGE_MAX)))
}

async fn create(client: &Client, args: &CreateArgs, context: &Context) -> Result<Exit> {
    let short = |text: &String| Short(text.clone());
    let asked = wire::NewWebhookEndpoint {
        url: Short(args.url.clone()),
        workflow: args.workflow.as_ref().map(short),
        events: (!args.events.is_empty())
            .then(|| args.events.iter().map(|event| Short(event.clone())).collect()),
        description: args.description.clone().map(Short),
        include_output: args.include_output.then_some(true),
        include_links: args.include_links.then_some(true),
    };
    let ask = Ask::post(&["webhook-endpoints"]).json(&asked)?;
    let made: wire::WebhookSecret = client.ask(ask).await?.body;
    show_secret(&made, context)
}

fn show_secret(made: &wire::WebhookSecret, context: &Context) -> Result<Exit> {
    context.show(made, || {
        print_table(&[("endpoint", made.endpoint.id.clone()), ("secret", made.secret.clone())]);
        complain("This is the only time that the secret is shown.");
    })
}

async fn list(client: &Client, context: &Context) -> Result<Exit> {
    let list: wire::WebhookEndpointList = client.get(&["webhook-endpoints"]).await?;
    let columns = |endpoint: &wire::WebhookEndpoint| {
        vec![
            endpoint.id.clone(),
            shown_state(endpoint).to_owned(),
            endpoint.workflow.clone().unwrap_or_else(|| "(all)".to_owned()),
            endpoint.failures.to_string(),
            endpoint.url.clone(),
        ]
    };
    context.show(&list, || match list.endpoints.as_slice() {
        [] => print_line("no endpoints; `waypost webhooks create URL` registers one"),
        all => print_columns(&["ID", "STATE", "WORKFLOW", "FAILURES", "URL"], all, columns),
    })
}

fn shown_state(endpoint: &wire::WebhookEndpoint) -> &str {
    match endpoint.probe_at {
        Some(_) if endpoint.state == "active" => "cooling",
        _ => &endpoint.state,
    }
}

fn print_endpoint(endpoint: &wire::WebhookEndpoint) {
    let mut rows = vec![
        ("id", endpoint.id.clone()),
        ("url", endpoint.url.clone()),
        ("state", shown_state(endpoint).to_owned()),
        ("workflow", endpoint.workflow.clone().unwrap_or_else(|| "(all)".to_owned())),
        ("events", endpoint.events.join(", ")),
        ("failures", endpoint.failures.to_string()),
        ("created", endpoint.created_at.0.to_string()),
    ];
    rows.extend(endpoint.probe_at.map(|at| ("next probe", at.0.to_string())));
    rows.extend(endpoint.description.clone().map(|text| ("description", text)));
    print_table(&rows);
}

async fn change(client: &Client, id: &str, what: &str, context: &Context) -> Result<Exit> {
    let path = ["webhook-endpoints", id, what];
    let endpoint: wire::WebhookEndpoint = client.ask(Ask::post(&path)).await?.body;
    context.show(&endpoint, || print_line(&format!("{id} is {}", endpoint.state)))
}

async fn test(client: &Client, id: &str, context: &Context) -> Result<Exit> {
    let path = ["webhook-endpoints", id, "test"];
    let tested: wire::WebhookTested = client.ask(Ask::post(&path)).await?.body;
    context.show(&tested, || match &tested.reason {
        None => print_line(&format!("delivered in {} ms", tested.took_ms)),
        Some(reason) => print_line(&format!("not delivered: {reason}")),
    })?;
    Ok(if tested.delivered { Exit::Done } else { Exit::Failed })
}

async fn replay(client: &Client, args: &ReplayArgs, context: &Context) -> Result<Exit> {
    let Which { dead, since, ids } = &args.which;
    let asked = wire::WebhookReplay {
        dead: dead.then_some(true),
        since: since.as_deref().map(|text| when::parse("--since", text)).transpose()?.map(Time),
        ids: (!ids.is_empty()).then(|| ids.iter().map(|id| Short(id.clone())).collect()),
    };
    let path = ["webhook-endpoints", args.id.as_str(), "replay"];
    let replayed: wire::WebhookReplayed = client.ask(Ask::post(&path).json(&asked)?).await?.body;
    context.show(&replayed, || {
        print_line(&format!("{} messages will be sent again", replayed.replayed));
    })
}

pub(crate) async fn dead_letters(page: &PageArgs, context: &Context) -> Result<Exit> {
    let client = server_only("dead-letters", &context.settings)?;
    let list: wire::DeadLetterList =
        client.ask(paged(Ask::get(&["dead-letters"]), page)).await?.body;
    context.show(&list, || print_messages(&list.dead_letters, list.next.as_deref()))
}

fn print_messages(messages: &[wire::WebhookMessage], next: Option<&str>) {
    let columns = |message: &wire::WebhookMessage| {
        vec![
            message.at.0.to_string(),
            message.state.clone(),
            message.kind.clone(),
            message.execution.clone(),
            message.attempts.to_string(),
            message.id.clone(),
            message.reason.clone().unwrap_or_default(),
        ]
    };
    if messages.is_empty() {
        return print_line("no messages");
    }
    let headings = ["AT", "STATE", "TYPE", "EXECUTION", "ATTEMPTS", "ID", "REASON"];
    print_columns(&headings, messages, columns);
    if let Some(next) = next {
        print_line(&format!("more: the same with --before {next}"));
    }
}
