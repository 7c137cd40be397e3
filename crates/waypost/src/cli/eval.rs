//! `waypost eval`: an expression, or a text with expressions in it, evaluated as a definition's would be.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use waypost_core::expr::{Expression, Payloads, Scope, ScopeNode, Template};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::status::NodeStatus;
use waypost_core::trigger::Fired;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;

use super::{Context, Exit, Usage, input};
use crate::output::{Format, columns, complain, print_json};
use crate::target::{EventsOf, Target};

/// The beginning of an expression in a text.
const HOLE: &str = "${{";
/// Names whose values only an execution has.
const NAMES_OF_EXECUTIONS: &[&str] = &["nodes", "variables", "execution"];

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  waypost eval 'input.amount * 1.19' --input '{\"amount\": 100}'
  waypost eval 'Hello, ${{ input.name | upper }}!' --input @input.json
  waypost eval 'nodes.charge.output.json.receipt' --execution last")]
pub(crate) struct Args {
    /// An expression, or text with `${{ … }}` in it
    #[arg(value_name = "EXPRESSION", allow_hyphen_values = true)]
    expression: String,
    /// The value of `input`: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null", conflicts_with = "execution")]
    input: String,
    /// Evaluate with the input, variables and nodes of this execution; `last` is the newest
    #[arg(long, value_name = "EXECUTION")]
    execution: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let compiled = match Compiled::new(&args.expression) {
        Ok(compiled) => compiled,
        Err((message, range)) => return refuse(&args.expression, &message, &range, context),
    };
    if let Some((_, range)) = compiled.mention("secrets") {
        let message = "secrets are filled in only for tasks, and are never shown";
        return refuse(&args.expression, message, &range, context);
    }
    let scope = match &args.execution {
        Some(name) => scope_of(name, &compiled, context).await?,
        None => {
            let names = NAMES_OF_EXECUTIONS.iter();
            if let Some((name, range)) = names.filter_map(|name| compiled.mention(name)).next() {
                let message = format!("`{name}` needs an execution: name one with --execution");
                return refuse(&args.expression, &message, &range, context);
            }
            let mut scope = Scope::new();
            let input = input::payload("the input", &args.input)?;
            scope.json("input", &input);
            scope.json("trigger", &Fired::seen_as(None));
            scope
        }
    };
    match compiled.eval(&scope) {
        Ok(value) => {
            print_json(&value)?;
            Ok(Exit::Done)
        }
        Err(failure) => fail(&failure, context),
    }
}

/// The compiled argument of the command line.
enum Compiled {
    Expression(Box<Expression>),
    Template(Template),
}

impl Compiled {
    fn new(source: &str) -> Result<Self, (String, Range<usize>)> {
        match source.contains(HOLE) {
            true => Template::compile(&Value::from(source))
                .map(Self::Template)
                .map_err(|fault| (fault.message, fault.range)),
            false => Expression::compile(source)
                .map(|expression| Self::Expression(Box::new(expression)))
                .map_err(|fault| (fault.message, fault.range)),
        }
    }

    fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        match self {
            Self::Expression(expression) => found.push(&**expression),
            Self::Template(template) => template.visit(&mut |expression| found.push(expression)),
        }
        found
    }

    /// A top-level name and its position, if it is mentioned. Expressions in a text have no
    /// position.
    fn mention<'n>(&self, name: &'n str) -> Option<(&'n str, Range<usize>)> {
        let place = self
            .expressions()
            .into_iter()
            .find_map(|expression| expression.references().names.get(name).cloned())?;
        Some((name, if let Self::Expression(_) = self { place } else { 0..0 }))
    }

    fn eval(&self, scope: &Scope) -> Result<Json, Failure> {
        match self {
            Self::Expression(expression) => expression.eval(scope),
            Self::Template(template) => template.render(scope),
        }
    }
}

/// The scope of an expression in this execution's definition, as of now.
async fn scope_of(name: &str, compiled: &Compiled, context: &Context) -> Result<Scope> {
    let target = Target::open(&context.settings)?;
    let id = target.resolve(name).await?;
    let execution = target.execution(&id).await?;
    let mut scope = Scope::new();
    scope.json("input", &execution.input.0);
    let trigger = execution.trigger.as_ref().map(|trigger| trigger.0.clone());
    scope.json("trigger", &trigger.unwrap_or_else(|| Fired::seen_as(None)));
    let fields = [
        ("id", execution.id.clone()),
        ("workflow", execution.workflow.clone()),
        ("version", execution.version.to_string()),
        ("startedAt", execution.created_at.0.to_string()),
        ("now", SystemClock.now().to_string()),
    ];
    scope.fields("execution", &fields);
    let variables = execution.variables.iter();
    let variables: Payloads =
        Arc::new(variables.map(|(name, value)| (name.as_str().into(), value.0.clone())).collect());
    scope.shared("variables", &variables);
    if compiled.mention("nodes").is_some() {
        let nodes = target.nodes(&id).await?.nodes;
        let definition = target.definition(&execution.workflow, execution.version).await?;
        let definition = definition.definition.0.to_value().unwrap_or_default();
        let mut shown = Vec::new();
        for wanted in mentioned(compiled, &nodes, &id)? {
            shown.push((wanted.id.clone(), shown_node(&target, &id, wanted, &definition).await?));
        }
        scope.nodes(shown.into_iter());
    }
    Ok(scope)
}

/// The nodes that are mentioned; all must be there.
fn mentioned<'n>(
    compiled: &Compiled,
    nodes: &'n [wire::Node],
    id: &str,
) -> Result<Vec<&'n wire::Node>> {
    let mut found: Vec<&wire::Node> = Vec::new();
    for reference in compiled.expressions().iter().flat_map(|one| &one.references().nodes) {
        let hyphenated = reference.hyphenated.as_ref();
        match nodes.iter().find(|node| node.id == reference.id) {
            Some(node) if found.iter().any(|seen| seen.id == node.id) => {}
            Some(node) => found.push(node),
            None => {
                let hint = match hyphenated.filter(|id| nodes.iter().any(|node| node.id == **id)) {
                    Some(id) => format!("write `nodes['{id}']`"),
                    None => {
                        let names: Vec<_> = nodes.iter().map(|node| node.id.as_str()).collect();
                        format!("its nodes are {}", names.join(", "))
                    }
                };
                let name = &reference.id;
                let message = format!("execution {id} has no node `{name}`; {hint}");
                return Err(Usage(message).into());
            }
        }
    }
    Ok(found)
}

/// The value of `nodes.<id>`, as the engine computes it.
async fn shown_node(
    target: &Target,
    id: &str,
    node: &wire::Node,
    definition: &Value,
) -> Result<ScopeNode> {
    let status = node.status.0;
    let mut shown =
        ScopeNode { status: status.name(), output: Json::null(), failure: Json::null() };
    match status {
        NodeStatus::Failed | NodeStatus::TimedOut => {
            // The log has all of a failure, a view only what people need.
            shown.failure = last(target, id, node, "NodeFailed", "failure").await?;
            let mut nodes = definition["nodes"].as_array().into_iter().flatten();
            let written = nodes.find(|written| written["id"] == *node.id);
            if written.is_some_and(|written| written["onError"] == "continue") {
                shown.output = Json::parse(&format!("{{\"failure\":{}}}", shown.failure))?;
            }
        }
        _ => match &node.output {
            Some(output) => shown.output = output.0.clone(),
            // Left out of the list, which would be too large with it.
            None if status == NodeStatus::Completed => {
                shown.output = last(target, id, node, "NodeCompleted", "output").await?;
            }
            None => {}
        },
    }
    Ok(shown)
}

/// A field of a node's last event of a kind.
async fn last(
    target: &Target,
    id: &str,
    node: &wire::Node,
    kind: &str,
    field: &str,
) -> Result<Json> {
    let wanted = EventsOf {
        node: Some(node.id.clone()),
        kind: Some(kind.to_owned()),
        limit: usize::MAX,
        ..EventsOf::default()
    };
    let events = target.events(id, &wanted).await?.events;
    let Some(event) = events.last() else { return Ok(Json::null()) };
    let mut fields: BTreeMap<String, Json> = serde_json::from_str(event.data.0.text())?;
    Ok(fields.remove(field).unwrap_or_else(Json::null))
}

/// Prints the fault of the expression, and its position. Exit code 2.
fn refuse(source: &str, message: &str, range: &Range<usize>, context: &Context) -> Result<Exit> {
    if context.format == Format::Json {
        let place = json!([range.start, range.end]);
        print_json(
            &json!({ "error": { "kind": kind::EXPRESSION, "message": message, "range": place } }),
        )?;
        return Ok(Exit::Wrong);
    }
    complain(&format!("error[{}]: {message}", kind::EXPRESSION));
    let line_start = source.get(..range.start).and_then(|before| before.rfind('\n'));
    let line_start = line_start.map_or(0, |end| end + 1);
    let line = source.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
    if !line.trim().is_empty() {
        let before = columns(source.get(line_start..range.start).unwrap_or_default());
        let end = range.end.min(line_start + line.len());
        let marked = columns(source.get(range.start..end).unwrap_or_default()).max(1);
        complain(&format!("  {line}\n  {}{}", " ".repeat(before), "^".repeat(marked)));
    }
    Ok(Exit::Wrong)
}

/// Prints the failed evaluation, as an execution's failure. Exit code 1.
fn fail(failure: &Failure, context: &Context) -> Result<Exit> {
    match context.format {
        Format::Json => {
            print_json(&json!({ "error": { "kind": failure.kind, "message": failure.message } }))?;
        }
        Format::Text => complain(&format!("error[{}]: {}", failure.kind, failure.message)),
    }
    Ok(Exit::Failed)
}
