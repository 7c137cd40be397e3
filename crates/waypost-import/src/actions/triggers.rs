//! `on`: what starts the workflow; and `concurrency`.

use serde_json::{Map, Value, json};
use waypost_lang::{Tree, TreeValue};

use super::{ADVICE, Converter, JobScope};
use crate::expr::{Expr, quoted};
use crate::read::SourceFields;
use crate::report::shortened;
use crate::target::TargetDefinition;

impl Converter<'_, '_> {
    pub(super) fn triggers(&mut self, on: &Tree, definition: &mut TargetDefinition) {
        let mut events: Vec<(&str, &Tree)> = Vec::new();
        match &on.value {
            TreeValue::Text { text, .. } => events.push((text, on)),
            TreeValue::List(items) => {
                events.extend(items.iter().filter_map(|item| Some((item.as_text()?, item))));
            }
            _ => events.extend(on.entries().iter().map(|e| (e.key.as_str(), &e.value))),
        }
        let mut triggers = Vec::new();
        for (event, at) in events {
            match event {
                "schedule" => {
                    for (number, line) in at.items().iter().enumerate() {
                        let cron = line.text("cron").unwrap_or_default();
                        let name = format!("schedule_{}", number + 1);
                        triggers.push(json!({ "schedule": name, "cron": cron }));
                        self.report.leftovers(line, &["cron"]);
                    }
                    self.report.exact(at, "trigger `schedule`");
                }
                "push" => triggers.extend(self.push(at)),
                "workflow_dispatch" | "workflow_call" => {
                    self.report.leftovers(at, &["inputs"]);
                    self.inputs(at, definition);
                    self.report.exact(at, format!("`{event}`: every definition can be started so"));
                }
                other => {
                    let message = format!("the event `{}` has no counterpart", shortened(other));
                    self.report.different(
                        at,
                        format!("{message}: it starts nothing"),
                        "use a `webhook` trigger",
                    );
                }
            }
        }
        if !triggers.is_empty() {
            definition.fields.push(("on", Value::Array(triggers)));
        }
    }

    /// A push: what the repository's webhook sends.
    fn push(&mut self, at: &Tree) -> Option<Value> {
        self.by_push = true;
        let mut condition =
            Expr::atom("headers").field("x-github-event").compare("==", &Expr::atom("'push'"));
        let filters = at.entries();
        for filter in filters {
            let prefix = match filter.key.as_str() {
                "branches" => "refs/heads/",
                "tags" => "refs/tags/",
                other => {
                    let message = format!(
                        "the filter `{}` has no counterpart: the trigger is left out",
                        shortened(other)
                    );
                    self.report.different(
                        &filter.value,
                        message,
                        "write the trigger with an `if` of its own",
                    );
                    return None;
                }
            };
            let mut any: Option<Expr> = None;
            for pattern in filter.value.items().iter().filter_map(Tree::as_text) {
                let Some(test) = matches(prefix, pattern) else {
                    let message = format!(
                        "the pattern `{}` has no counterpart: the trigger is left out",
                        shortened(pattern)
                    );
                    self.report.different(
                        &filter.value,
                        message,
                        "write the trigger with an `if` of its own",
                    );
                    return None;
                };
                any = Some(any.map_or_else(|| test.clone(), |any| any.or(&test)));
            }
            condition = any.map_or(condition.clone(), |any| condition.and(&any));
        }
        let message = "pushes come by a webhook of the repository, whose body is the input";
        let advice =
            "deploy, add the trigger's URL as a webhook, and grant the secret `github_webhook`";
        self.report.different(at, message, advice);
        Some(json!({
            "webhook": "push", "verify": { "scheme": "github", "secret": "github_webhook" },
            "headers": ["x-github-event"], "if": condition.text(),
        }))
    }

    /// The inputs of a start by hand, as a schema.
    fn inputs(&mut self, at: &Tree, definition: &mut TargetDefinition) {
        let Some(inputs) = at.get("inputs") else { return };
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for input in inputs.entries() {
            let known =
                &["description", "required", "default", "type", "options", "deprecationMessage"];
            self.report.leftovers(&input.value, known);
            let kind = match input.value.text("type") {
                Some("boolean") => "boolean",
                Some("number") => "number",
                _ => "string",
            };
            let mut property = json!({ "type": kind });
            if let (Some(options), Some(property)) =
                (input.value.get("options"), property.as_object_mut())
            {
                property.insert("enum".to_owned(), options.json());
            }
            properties.insert(input.key.clone(), property);
            match input.value.get("default") {
                Some(default) => drop(self.inputs.insert(input.key.clone(), default.json())),
                None if input.value.flag("required") == Some(true) => {
                    required.push(input.key.clone())
                }
                None => {
                    let nothing = match kind {
                        "boolean" => json!(false),
                        "number" => json!(0),
                        _ => json!(""),
                    };
                    self.inputs.insert(input.key.clone(), nothing);
                }
            }
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        if let (false, Some(schema)) =
            (required.is_empty() || definition.has("on"), schema.as_object_mut())
        {
            schema.insert("required".to_owned(), json!(required));
        }
        if !definition.has("input") {
            definition.fields.push(("input", schema));
        }
    }

    pub(super) fn concurrency(&mut self, at: &Tree, definition: &mut TargetDefinition) {
        let group = at.get("group").unwrap_or(at);
        let cancels = at.flag("cancel-in-progress") == Some(true);
        match self.text(group, &JobScope::default()) {
            Ok(key) => {
                let policy = if cancels { "cancel-oldest" } else { "queue" };
                let block = json!({ "key": key.to_value(), "limit": 1, "policy": policy });
                definition.fields.push(("concurrency", block));
                let message = "executions that wait are kept, also when further ones come";
                self.report.different(at, message, "choose `policy`");
            }
            Err(problem) => self.report.lost(at, problem.message, ADVICE),
        }
    }
}

/// A pattern without wildcards, or with `*` or `**` at its end.
fn matches(prefix: &str, pattern: &str) -> Option<Expr> {
    let body = Expr::atom("body").field("ref");
    let start = pattern.strip_suffix("**").or_else(|| pattern.strip_suffix('*'));
    let start_is_plain = |text: &str| !text.contains(['*', '?', '[', '!', '+']);
    match start {
        Some(start) if start_is_plain(start) && pattern.ends_with("**") => {
            Some(body.is(&format!("startingwith({})", quoted(&format!("{prefix}{start}")))))
        }
        None if start_is_plain(pattern) => {
            Some(body.compare("==", &Expr::atom(quoted(&format!("{prefix}{pattern}")))))
        }
        _ => None,
    }
}
