//! A toy definition language, so that a flow is one line of a test:
//!
//! ```text
//!   a: task; ok: if input.yes <- a; b: task <- ok.true | retry=3 timeout=500
//!   └id      └kind and argument      └needs, with branches  └options
//! ```
//!
//! Kinds: `task`, `worker` (a task for workers elsewhere), `pass`, `if EXPRESSION`, `delay MS`, `wait SIGNAL [TIMEOUT_MS]`, `out EXPRESSION`.
//! Options: `retry=TRIES`, `timeout=MS`, `join=COUNT`, `once` (at most once), `handler=NAME`,
//! `config=EXPRESSION`, `on_error=continue`. An item `@MS` is the timeout of the execution, and
//! `%KEY [LIMIT [POLICY]]` its concurrency key.

use std::sync::Arc;

use serde_json::json;
use waypost_core::expr::{Expression, Template};
use waypost_core::id::{DefinitionHash, NodeIx};
use waypost_core::kind::{Behaviour, Delay, DurationTemplate, Family};
use waypost_core::plan::{
    Concurrency, ConcurrencyPolicy, Condition, Delivery, FailurePolicy, Join, OnError, Plan,
    PlanDraft, PlanNode,
};
use waypost_core::retry::RetryPolicy;
use waypost_core::time::Millis;

/// What `Plans` is given: the canonical form of a toy definition is its text.
pub(crate) fn compile(text: &str) -> Result<Plan, String> {
    let items: Vec<&str> = text.split(';').map(str::trim).filter(|item| !item.is_empty()).collect();
    let (settings, lines): (Vec<&str>, Vec<&str>) =
        items.into_iter().partition(|item| item.starts_with(['@', '%']));
    let keyed = settings.iter().find_map(|setting| setting.strip_prefix('%'));
    let timeout = settings
        .iter()
        .find(|setting| setting.starts_with('@'))
        .map(|setting| Ok::<_, String>(Millis(number(&setting[1..])?)));
    let ids: Vec<&str> = lines.iter().map(|line| id_of(line)).collect();
    let nodes = lines.iter().map(|line| node(line, &ids)).collect::<Result<_, _>>()?;
    Plan::build(PlanDraft {
        workflow: "flow".into(),
        hash: DefinitionHash::of(text.as_bytes()),
        nodes,
        failure_policy: FailurePolicy::FailFast,
        concurrency: keyed.map(concurrency).transpose()?,
        timeout: timeout.transpose()?,
        input_schema: None,
    })
    .map_err(|fault| fault.to_string())
}

fn concurrency(setting: &str) -> Result<Concurrency, String> {
    let mut words = setting.split(' ');
    let key = json!(words.next().unwrap_or_default());
    let key = Template::compile(&key).map_err(|fault| fault.message)?;
    let limit = words.next().map_or(Ok(1), number)?;
    let limit = u32::try_from(limit).map_err(|error| error.to_string())?;
    let policy = words.next().and_then(ConcurrencyPolicy::parse).unwrap_or_default();
    Ok(Concurrency { key, limit, policy })
}

fn id_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a number"))
}

fn node(line: &str, ids: &[&str]) -> Result<PlanNode, String> {
    let (_, rest) = line.split_once(':').ok_or_else(|| format!("no kind in {line:?}"))?;
    let (rest, options) = rest.split_once(" | ").unwrap_or((rest, ""));
    let (what, needs) = rest.split_once("<-").unwrap_or((rest, ""));
    let (kind, argument) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
    let id = id_of(line);
    let mut node = PlanNode {
        id: id.into(),
        label: None,
        kind: "toy",
        family: Family::Logic,
        registry_id: None,
        behaviour: behaviour(id, kind, argument.trim())?,
        needs: conditions(needs, ids)?,
        join: Join::All,
        retry: None,
        timeout: None,
        deadline: None,
        on_error: OnError::Fail,
        on_definition_errors: false,
        delivery: Delivery::AtLeastOnce,
        variables: Vec::new(),
        successors: Vec::new(),
        mentions: Vec::new(),
        only_here: Vec::new(),
    };
    options.split_whitespace().try_for_each(|option| set_option(&mut node, option))?;
    Ok(node)
}

fn behaviour(id: &str, kind: &str, argument: &str) -> Result<Behaviour, String> {
    let fixed = |text: &str| Ok::<_, String>(DurationTemplate::Fixed(Millis(number(text)?)));
    Ok(match kind {
        "pass" => Behaviour::Pass,
        "task" => Behaviour::Task {
            handler: "work".into(),
            foreign: false,
            config: template(&json!({ "node": id }))?,
        },
        "worker" => Behaviour::Task {
            handler: "far".into(),
            foreign: true,
            config: template(&json!({ "node": id }))?,
        },
        "if" => Behaviour::Condition(
            Expression::compile(argument).map_err(|fault| format!("{fault:?}"))?,
        ),
        "delay" => Behaviour::Delay(Delay::For(fixed(argument)?)),
        "wait" => {
            let (name, timeout) = argument.split_once(' ').unwrap_or((argument, ""));
            let timeout = if timeout.is_empty() { None } else { Some(fixed(timeout)?) };
            Behaviour::Signal { name: template(&json!(name))?, filter: None, timeout }
        }
        "out" => {
            let template = template(&json!(format!("${{{{ {argument} }}}}")))?;
            Behaviour::Value { template, result: true }
        }
        other => return Err(format!("no kind {other:?}")),
    })
}

fn template(value: &serde_json::Value) -> Result<Template, String> {
    Template::compile(value).map_err(|fault| fault.message)
}

fn conditions(needs: &str, ids: &[&str]) -> Result<Vec<Condition>, String> {
    let needs = needs.split(',').map(str::trim).filter(|need| !need.is_empty());
    needs
        .map(|need| {
            let (source, branch) = need.split_once('.').map_or((need, None), |(s, b)| (s, Some(b)));
            let at = ids.iter().position(|id| *id == source);
            let at = at.ok_or_else(|| format!("no node {source:?}"))?;
            Ok(Condition {
                source: NodeIx(u32::try_from(at).map_err(|error| error.to_string())?),
                unlabelled: branch.is_none(),
                branches: branch.map(Arc::from).into_iter().collect(),
            })
        })
        .collect()
}

fn set_option(node: &mut PlanNode, option: &str) -> Result<(), String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match (name, &mut node.behaviour) {
        ("retry", _) => {
            let max_attempts = u32::try_from(number(value)?).map_err(|error| error.to_string())?;
            node.retry = Some(RetryPolicy { max_attempts, ..RetryPolicy::default() });
        }
        ("timeout", _) => node.timeout = Some(Millis(number(value)?)),
        ("join", _) => {
            let count = u32::try_from(number(value)?).map_err(|error| error.to_string())?;
            node.join = Join::Count { count, cancel_rest: true };
        }
        ("once", _) => node.delivery = Delivery::AtMostOnce,
        ("on_error", _) => node.on_error = OnError::Continue,
        ("handler", Behaviour::Task { handler, .. }) => *handler = value.into(),
        ("config", Behaviour::Task { config, .. }) => {
            *config = template(&json!(format!("${{{{ {value} }}}}")))?;
        }
        _ => return Err(format!("no option {option:?} here")),
    }
    Ok(())
}
