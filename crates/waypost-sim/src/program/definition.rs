//! The definition of a program: JSON as Waypost reads it, and an input to start it with.

use serde_json::{Map, Value as Json, json};

use super::budgets::model_config;
use super::graph::is_asked_for;
use super::messages::emit_config;
use super::{
    ChildCall, DelaySpan, Each, Ends, FailurePolicy, ItemSource, Join, Keyed, Kind, Loop, N_MAX,
    Need, Node, OnError, Program, RetryOn, RetryRule, Script, Setting, Test, Tie, Tolerated, Value,
};
use crate::random::Random;

/// The handler of tasks that remote workers make.
pub const HANDLER: &str = "far";
/// The kind of the failures that `fail` nodes make.
pub const FAILURE: &str = "refused_by_program";
/// The workflow's name, the same for all programs.
pub const NAME: &str = "program";

impl Program {
    /// The definition, as JSON text.
    pub fn definition(&self) -> String {
        self.definition_of(NAME)
    }

    /// The definition of a workflow of this name.
    pub fn definition_of(&self, name: &str) -> String {
        let nodes = PrintedScope::of(&self.nodes).json();
        let mut top = json!({
            "name": name,
            "description": self.to_string(),
            "input": { "type": "object", "required": ["n", "sink"] },
            "nodes": nodes,
        });
        if self.failure_policy == FailurePolicy::Partial {
            top["failurePolicy"] = json!("partial");
        }
        if let Some(timeout) = self.timeout_ms {
            top["timeout"] = json!(timeout);
        }
        if let Some(Keyed { limit, policy, split }) = self.keyed {
            let key = if split { "k-${{ input.n % 2 }}" } else { "k" };
            top["concurrency"] = json!({ "key": key, "limit": limit, "policy": policy.name() });
        }
        if let Some(budget) = self.budget {
            top["budget"] = budget.json();
        }
        top.to_string()
    }

    /// An input: a number that conditions, values and delays use, and the address that tasks call.
    pub fn input(&self, random: &mut Random, sink_url: &str) -> Json {
        json!({ "n": random.between(0, N_MAX), "sink": sink_url })
    }
}

/// Nodes that see each other.
struct PrintedScope<'p> {
    nodes: &'p [Node],
    /// The first node that the container needs.
    before: Option<&'p str>,
    /// The maps around, the outermost first.
    maps: Vec<&'p str>,
    /// Does the operation that its tasks start call back?
    calls_back: bool,
}

impl<'p> PrintedScope<'p> {
    fn of(nodes: &'p [Node]) -> Self {
        Self { nodes, before: None, maps: Vec::new(), calls_back: false }
    }

    fn json(&self) -> Json {
        (0..self.nodes.len()).map(|at| self.node_json(at)).collect()
    }

    fn node_json(&self, at: usize) -> Json {
        let node = &self.nodes[at];
        let mut fields = Map::new();
        fields.insert("id".into(), json!(node.id));
        let (kind, config) = self.kind_json(node);
        fields.insert("type".into(), json!(kind));
        fields.insert("config".into(), config);
        let mut set = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                fields.insert(name.into(), value);
            }
        };
        let needs: Vec<Json> = node.needs.iter().map(|need| self.need_json(need)).collect();
        set("needs", (!needs.is_empty()).then_some(Json::Array(needs)));
        set("join", join_json(node.join));
        set("retry", node.retry.map(|retry| retry_json(&retry)));
        set("timeout", node.timeout_ms.map(|ms| json!(ms)));
        set("deadline", node.deadline_ms.map(|ms| json!(ms)));
        set("onError", self.on_error_json(at));
        set("delivery", node.at_most_once.then(|| json!("at-most-once")));
        let breaker = json!({ "key": "storm", "failures": 2, "period": 60_000, "cooldown": 2_000 });
        set("breaker", (node.kind == Kind::Task(Script::Storm)).then_some(breaker));
        set("variables", node.sets.map(|setting| self.setting_json(setting)));
        set("merge", node.sets.map(|_| json!("last")));
        let before = node.needs.first().map(|need| &*self.nodes[need.source].id);
        let maps = self.maps_in(node);
        // The compiler makes the body of an operation.
        let body = node.body().filter(|_| !matches!(node.kind, Kind::Operation(_)));
        set("nodes", body.map(|nodes| Self { before, maps, ..Self::of(nodes) }.json()));
        Json::Object(fields)
    }

    /// The maps around the body of a node.
    fn maps_in(&self, node: &'p Node) -> Vec<&'p str> {
        let own = matches!(node.kind, Kind::Map(_)).then_some(&*node.id);
        self.maps.iter().copied().chain(own).collect()
    }

    /// The name of the variable: an item must not set that of the scope around its map.
    fn variable_name(&self) -> String {
        self.maps.last().map_or_else(|| "v".into(), |map| format!("v_{map}"))
    }

    /// The variable, as expressions read it.
    fn variable_text(&self) -> String {
        let root = "(variables.v | default(0))".to_owned();
        let inner = |outer, map: &&str| format!("(variables.v_{map} | default({outer}))");
        self.maps.iter().fold(root, inner)
    }

    fn setting_json(&self, setting: Setting) -> Json {
        let value = match setting {
            Setting::To(value) => json!(value),
            Setting::More => json!(format!("${{{{ {} + 1 }}}}", self.variable_text())),
        };
        json!({ self.variable_name(): value })
    }

    fn need_json(&self, need: &Need) -> Json {
        let source = &self.nodes[need.source].id;
        match &need.branch {
            Some(branch) => json!({ "node": source, "branch": branch }),
            None => json!(source),
        }
    }

    /// An edge on `error` implies that failures go there, so `onError` is left out.
    fn on_error_json(&self, at: usize) -> Option<Json> {
        let node = &self.nodes[at];
        let take = match &node.on_error {
            OnError::Fail => return None,
            OnError::Continue => "continue",
            OnError::Branch(branch) => branch,
        };
        match node.definition_errors {
            true => Some(json!({ "take": take, "definitionErrors": true })),
            false if take == "error" && is_asked_for(self.nodes, at, take) => None,
            false => Some(json!(take)),
        }
    }

    fn kind_json(&self, node: &Node) -> (&'static str, Json) {
        match &node.kind {
            Kind::Noop => ("noop", json!({})),
            Kind::Transform(values) => ("transform", json!({ "value": self.values_json(values) })),
            Kind::Output(values) => ("output", json!({ "value": self.values_json(values) })),
            Kind::Condition(test) => ("condition", json!({ "expression": self.test_text(*test) })),
            Kind::Switch { cases, default } => {
                let cases: Vec<Json> = cases
                    .iter()
                    .map(|case| json!({ "when": self.test_text(case.test), "branch": case.branch }))
                    .collect();
                let mut config = json!({ "cases": cases });
                if let Some(default) = default {
                    config["default"] = json!(default);
                }
                ("switch", config)
            }
            Kind::Join => ("join", json!({})),
            Kind::Fail => ("fail", json!({ "kind": FAILURE, "message": "n is ${{ input.n }}" })),
            Kind::Delay(DelaySpan::Fixed(ms)) => ("delay", json!({ "duration": ms })),
            Kind::Delay(DelaySpan::Computed { times, minus }) => {
                let computed = format!("${{{{ input.n * {times} - {minus} }}}}");
                ("delay", json!({ "duration": computed }))
            }
            Kind::Wait { signal, timeout_ms } => {
                let mut config = signal.config();
                if let Some(timeout) = timeout_ms {
                    config["timeout"] = json!(timeout);
                }
                ("wait-for-events", config)
            }
            Kind::Signals(signals) => ("wait-for-events", signals.config()),
            Kind::Approval(approval) => ("approval", approval.config()),
            Kind::Task(script) => self.task_json(node, *script),
            Kind::Operation(operation) => {
                let calls_back = !operation.polls();
                let print =
                    |nodes: &[Node]| PrintedScope { calls_back, ..PrintedScope::of(nodes) }.json();
                ("async-operation", operation.config(print))
            }
            Kind::Group(_) => ("group", json!({})),
            Kind::Loop(Loop { ends, max, delay_ms, all, .. }) => {
                let (name, test) = match ends {
                    Ends::Until(test) => ("until", test),
                    Ends::While(test) => ("while", test),
                };
                let mut config = json!({ name: self.test_text(*test), "maxIterations": max });
                if *delay_ms > 0 {
                    config["delay"] = json!(delay_ms);
                }
                if *all {
                    config["collect"] = json!("all");
                }
                ("loop", config)
            }
            Kind::Map(each) => ("map", self.map_json(each)),
            Kind::Child(call) => ("workflow", child_json(*call)),
            Kind::Notify(notify) => ("notify", notify.config(&self.values_json(&notify.values))),
            Kind::Emit(signal) => ("emit", emit_config(*signal, &node.id)),
        }
    }

    fn task_json(&self, node: &Node, script: Script) -> (&'static str, Json) {
        let path = match script {
            Script::Poll { done_at, refusals, .. } => {
                format!("poll/{done_at}/{refusals}/${{{{ iteration }}}}")
            }
            script => script.to_string(),
        };
        let url = format!("${{{{ input.sink }}}}/{path}");
        if script == Script::Model {
            return ("llm", model_config(&url));
        }
        let with_link = |mut value: Json| {
            if self.calls_back {
                value["callback"] = json!("${{ callback.token }}");
            }
            value
        };
        if node.remote {
            let input = with_link(json!({ "url": url }));
            return ("worker", json!({ "handler": HANDLER, "input": input }));
        }
        let body = with_link(json!({ "node": node.id }));
        ("api-call", json!({ "method": "POST", "url": url, "body": body }))
    }

    fn map_json(&self, each: &Each) -> Json {
        let items = match &each.items {
            ItemSource::List(values) => self.values_json(values),
            ItemSource::Of(value) => self.value_json(*value),
        };
        let mut config = json!({ "items": items, "concurrency": each.width });
        match each.tolerated {
            Tolerated::Count(0) => {}
            Tolerated::Count(count) => config["tolerate"] = json!({ "count": count }),
            Tolerated::Percent(percent) => config["tolerate"] = json!({ "percent": percent }),
        }
        if each.stops {
            config["stopOnFailure"] = json!(true);
        }
        if !each.collects {
            config["collect"] = json!("none");
        }
        config
    }

    fn values_json(&self, values: &[Value]) -> Json {
        values.iter().map(|value| self.value_json(*value)).collect()
    }

    fn value_json(&self, value: Value) -> Json {
        let id = |at: usize| &self.nodes[at].id;
        match value {
            Value::Constant(number) => json!(number),
            Value::Plus(more) => json!(format!("${{{{ input.n + {more} }}}}")),
            Value::Text => json!("n is ${{ input.n }}"),
            Value::OutputOf(at) => json!(format!("${{{{ nodes.{}.output }}}}", id(at))),
            Value::ResultsOf(at) => json!(format!("${{{{ nodes.{}.output.results }}}}", id(at))),
            Value::StatusOf(at) => json!(format!("${{{{ nodes.{}.status }}}}", id(at))),
            Value::Before => match self.before {
                Some(id) => json!(format!("${{{{ nodes.{id}.output }}}}")),
                None => Json::Null,
            },
            Value::Iteration => json!("${{ iteration }}"),
            Value::Previous => json!("${{ previous }}"),
            Value::Item => json!("${{ item }}"),
            Value::Index => json!("${{ index }}"),
            Value::Variable => json!(format!("${{{{ {} }}}}", self.variable_text())),
            Value::Broken => json!("${{ input.absent }}"),
        }
    }

    fn test_text(&self, test: Test) -> String {
        match test {
            Test::AtLeast(least) => format!("input.n >= {least}"),
            Test::Completed(at) => format!("nodes.{}.status == 'COMPLETED'", self.nodes[at].id),
            Test::Iteration(least) => format!("iteration >= {least}"),
            Test::Below(limit) => format!("iteration < {limit}"),
            Test::Previous => "previous is not none".into(),
            Test::Done => Test::DONE.into(),
            Test::Index(least) => format!("index >= {least}"),
            Test::Variable(least) => format!("{} >= {least}", self.variable_text()),
            Test::Broken => "input.n".into(),
        }
    }
}

fn child_json(ChildCall { of, tie }: ChildCall) -> Json {
    let input = json!({ "n": "${{ input.n }}", "sink": "${{ input.sink }}" });
    let mut config = json!({ "workflow": of.name(), "input": input });
    match tie {
        Tie::Awaited => {}
        Tie::Left => config["onParentEnd"] = json!("leave"),
        Tie::Detached => config["wait"] = json!(false),
    }
    config
}

fn join_json(join: Join) -> Option<Json> {
    match join {
        Join::All => None,
        Join::Count { count: 1, cancel_rest: false } => Some(json!("any")),
        Join::Count { count, cancel_rest: false } => Some(json!(count)),
        Join::Count { count, cancel_rest } => {
            Some(json!({ "count": count, "cancelRest": cancel_rest }))
        }
    }
}

fn retry_json(retry: &RetryRule) -> Json {
    let mut block = json!({
        "maxAttempts": retry.max_attempts,
        "waitDuration": retry.wait_ms,
        "exponentialBackoff": retry.backoff,
    });
    let only = match retry.on {
        RetryOn::Transient => return block,
        RetryOn::ServerErrors => "5xx",
        RetryOn::ClientErrors => "4xx",
        RetryOn::Timeouts => "timeout",
    };
    block["retryOn"] = json!([only]);
    block
}
