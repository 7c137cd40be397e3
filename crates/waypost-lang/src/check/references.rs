//! References in expressions: names that they may use, nodes that are upstream.

use std::collections::HashSet;

use waypost_core::expr::NodeRef;
use waypost_core::kind::{Behaviour, Family};
use waypost_core::limits::SECRET_NAME_CHARS_MAX;

use super::paths::Paths;
use super::scopes::{PREVIOUS, Scopes, Visible};
use crate::definition::{ExpressionUse, Located, ParsedDefinition, ParsedNode, SeenNames};
use crate::diagnostics::{Code, Fault, Faults, did_you_mean, listed, quoted};
use crate::source::{Source, Span};

/// Names that every expression may use. `range` is the one function.
const NAMES: &[&str] = &["input", "trigger", "nodes", "variables", "execution", "secrets", "range"];
/// Names that the key of `concurrency` may use: nothing has run when it is evaluated.
const NAMES_OF_KEYS: &[&str] = &["input", "trigger", "execution", "range"];
/// Names that the body of a loop sees, and its config.
const NAMES_OF_LOOPS: &[&str] = &["iteration", "previous"];
/// Names that the body of a map sees.
const NAMES_OF_MAPS: &[&str] = &["item", "index"];
/// Names that some fields of some triggers see.
const NAMES_OF_TRIGGERS: &[&str] =
    &["body", "headers", "query", "status", "event", "events", "item", "cursor", "response"];

pub(super) fn check(
    definition: &ParsedDefinition<'_>,
    scopes: &Scopes<'_>,
    paths: &Paths<'_>,
    source: &Source<'_>,
    faults: &mut Faults,
) {
    let mut checker = Checker { scopes, paths, source, faults };
    for located in definition.concurrency.iter().flat_map(|block| &block.expressions) {
        checker.check_key(located);
    }
    for (at, node) in definition.nodes.iter().enumerate() {
        for located in &node.expressions {
            let hyphenated = checker.check_nodes(at, located);
            checker.check_names(at, located, &hyphenated);
            if may_see_secrets(node, located.place) {
                checker.check_secrets(located);
                checker.check_callbacks(located);
            }
        }
    }
}

/// Triggers see what they bring: nothing has run when they fire.
pub(super) fn check_triggers(
    definition: &ParsedDefinition<'_>,
    scopes: &Scopes<'_>,
    paths: &Paths<'_>,
    source: &Source<'_>,
    faults: &mut Faults,
) {
    let mut checker = Checker { scopes, paths, source, faults };
    let of_nodes = definition.nodes.iter().filter_map(|node| node.trigger.as_deref());
    for located in definition.on.iter().chain(of_nodes).flat_map(|trigger| &trigger.expressions) {
        if let ExpressionUse::Trigger(sees) = located.place {
            checker.check_trigger(located, sees);
        }
    }
}

struct Checker<'a> {
    scopes: &'a Scopes<'a>,
    paths: &'a Paths<'a>,
    source: &'a Source<'a>,
    faults: &'a mut Faults,
}

impl Checker<'_> {
    /// Checks the nodes that are mentioned. Returns the words that are the rest of a hyphenated id
    /// and not names of their own.
    fn check_nodes(&mut self, at: usize, located: &Located<'_>) -> HashSet<String> {
        let mut rests = HashSet::new();
        let mut seen = HashSet::new();
        for mention in &located.references.nodes {
            let span = located.span(self.source, &mention.range);
            if let Some(id) = self.hyphenated(mention, located) {
                let end = mention.range.end - mention.id.len() + id.len();
                let span = located.span(self.source, &(mention.range.start..end));
                rests.extend(id.split('-').skip(1).map(ToOwned::to_owned));
                let message = format!("`nodes.{id}` reads as a subtraction");
                let hint = format!("write `nodes['{id}']`");
                self.faults.error(Code::HyphenatedReference, &span, message).hint(hint);
            } else if seen.insert(&mention.id) {
                self.check_node(at, &mention.id, located, span);
            }
        }
        rests
    }

    /// The known hyphenated id that a mention was probably meant to be.
    fn hyphenated(&self, mention: &NodeRef, located: &Located<'_>) -> Option<String> {
        mention.hyphenated.as_ref()?;
        let from = mention.range.end.checked_sub(mention.id.len())?;
        let written: String = located
            .source
            .get(from..)?
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            .collect();
        let ends = written.match_indices('-').map(|(end, _)| end).chain([written.len()]);
        let mut candidates: Vec<&str> = ends.filter_map(|end| written.get(..end)).collect();
        candidates.reverse();
        candidates
            .into_iter()
            .find(|id| id.contains('-') && self.scopes.anywhere(id).is_some())
            .map(ToOwned::to_owned)
    }

    fn check_node(&mut self, at: usize, id: &str, located: &Located<'_>, span: Span) {
        let Some(Visible { node, seen_by }) = self.scopes.visible(at, id) else {
            let in_body = self.scopes.reference_into_body(at, id, span.clone());
            let fault = in_body.unwrap_or_else(|| {
                let message = format!("there is no node {}", quoted(id));
                let mut fault = Fault::error(Code::UnknownNode, span, message);
                fault.suggest(self.faults.likely(id, self.scopes.visible_ids(at)));
                fault
            });
            self.faults.add(fault);
            return;
        };
        let reader = quoted(&self.scopes.node(seen_by).id);
        if node == seen_by {
            let fault = self.own_result(at, node, span);
            self.faults.add(fault);
        } else if !self.paths.is_upstream(node, seen_by) {
            if !self.paths.is_incomplete(seen_by) {
                let message = format!("{} is not upstream of {reader}", quoted(id));
                let hint = format!("add `{id}` to the `needs` of {reader}");
                self.faults.error(Code::NotUpstream, &span, message).hint(hint);
            }
        } else if !self.paths.has_surely_run(node, seen_by)
            && !self.paths.is_incomplete(seen_by)
            && !handles_a_skip(located, id)
        {
            let message = format!(
                "{} is not on every path to {reader}: if it was skipped, its output is null",
                quoted(id)
            );
            let hint = "test its `status`, or give a value with `default(…, true)`";
            self.faults.warning(Code::MayBeSkipped, &span, message).hint(hint);
        }
    }

    /// The fault of an expression that reads the result of its own node, or of one around it.
    fn own_result(&self, at: usize, mentioned: usize, span: Span) -> Fault {
        let id = quoted(&self.scopes.node(mentioned).id);
        let message = match mentioned == at {
            true => format!("{id} cannot read its own result here"),
            false => format!("{id} has no result yet: {} is in its body", {
                quoted(&self.scopes.node(at).id)
            }),
        };
        let has_body = self.scopes.node(mentioned).kind.is_some_and(|kind| kind.body.is_some());
        let hint = match (has_body && self.scopes.may_repeat(mentioned), mentioned == at) {
            (true, _) => PREVIOUS,
            (false, true) => "in `variables`, the result of the node itself is `output`",
            (false, false) => "nodes of a body see each other, and what is upstream of it",
        };
        Fault::error(Code::NotUpstream, span, message).with_hint(hint)
    }

    /// Is the node in the body of an operation that waits for a callback?
    fn is_started_by(&self, at: usize) -> bool {
        let is_operation = |at: usize| match &self.scopes.node(at).behaviour {
            Some(behaviour) => matches!(behaviour, Behaviour::Operation(_)),
            None => true,
        };
        self.scopes.around(at).any(is_operation)
    }

    /// Is the expression in the body of a loop, or in the config of one?
    fn sees_iterations(&self, at: usize, place: ExpressionUse) -> bool {
        let own = (place == ExpressionUse::Config).then_some(at);
        own.into_iter().chain(self.scopes.around(at)).any(|at| self.scopes.may_repeat(at))
    }

    fn check_names(&mut self, at: usize, located: &Located<'_>, rests: &HashSet<String>) {
        let node = self.scopes.node(at);
        for (name, range) in &located.references.names {
            if rests.contains(name) {
                continue;
            }
            let span = located.span(self.source, range);
            let fault = match name.as_str() {
                "secrets" if !may_see_secrets(node, located.place) => {
                    let place = match located.place {
                        ExpressionUse::Variables => "`variables`",
                        ExpressionUse::With(_) => "an expression about a response or a signal",
                        ExpressionUse::Breaker => "the key of a breaker",
                        ExpressionUse::Config
                        | ExpressionUse::Concurrency
                        | ExpressionUse::Trigger(_) => "a node that the engine runs itself",
                    };
                    secrets_refused(place, span)
                }
                "callback" if self.is_started_by(at) && may_see_secrets(node, located.place) => {
                    continue;
                }
                "callback" => not_here(
                    name,
                    "is only available in the config of the action that an `async-operation` with \
                     `callback` starts",
                    span,
                )
                .with_hint(
                    "the result would be stored; `callback.url` is filled in only for tasks",
                ),
                known if NAMES.contains(&known) => continue,
                known if matches!(located.place, ExpressionUse::With(more) if more == known) => {
                    continue;
                }
                "event" if located.place == ExpressionUse::With("signal") => continue,
                "output" if located.place == ExpressionUse::Variables => continue,
                "signal" => not_here(name, "is only available in the `filter` of a wait", span),
                "response" => {
                    not_here(name, "is only available in `failWhen` and `retryWhen`", span)
                        .with_hint("the response of an earlier call is `nodes.<id>.output`")
                }
                "output" => not_here(name, "is only available in `variables`", span)
                    .with_hint("the output of another node is `nodes.<id>.output`"),
                known if NAMES_OF_LOOPS.contains(&known) => {
                    if self.sees_iterations(at, located.place) {
                        continue;
                    }
                    let where_it_is = "is only available in the body of a `loop` and in its config";
                    not_here(name, where_it_is, span)
                        .with_hint("the output of a loop is `nodes.<id>.output`")
                }
                known if NAMES_OF_MAPS.contains(&known) => {
                    if self.scopes.around(at).any(|at| self.scopes.may_have_items(at)) {
                        continue;
                    }
                    not_here(name, "is only available in the body of a `map`", span)
                        .with_hint("the outputs of all items are `nodes.<id>.output.results`")
                }
                _ => self.unknown_name(name, span, located.place),
            };
            self.faults.add(fault);
        }
    }

    /// Checks the key of `concurrency`.
    fn check_key(&mut self, located: &Located<'_>) {
        for (name, range) in &located.references.names {
            let span = located.span(self.source, range);
            let fault = match name.as_str() {
                known if NAMES_OF_KEYS.contains(&known) => continue,
                "secrets" => secrets_refused("a concurrency key", span),
                known if NAMES.contains(&known) => {
                    not_here(name, "is not available in a concurrency key: no node has run", span)
                        .with_hint("a key can use `input` and `execution`")
                }
                _ => self.unknown_name(name, span, located.place),
            };
            self.faults.add(fault);
        }
    }

    fn check_trigger(&mut self, located: &Located<'_>, sees: SeenNames) {
        for (name, range) in &located.references.names {
            let span = located.span(self.source, range);
            let fault = match name.as_str() {
                known if sees.contains(&known) || known == "range" => continue,
                "secrets" => secrets_refused("a field of a trigger", span)
                    .with_hint("the `request` of a poll can use secrets"),
                known if NAMES.contains(&known) || NAMES_OF_TRIGGERS.contains(&known) => {
                    let names = listed(sees.iter().copied(), "and");
                    not_here(name, "is not available in this field of a trigger", span)
                        .with_hint(format!("it sees {names}"))
                }
                _ => self.unknown_name(name, span, located.place),
            };
            self.faults.add(fault);
        }
        if sees.contains(&"secrets") {
            self.check_secrets(located);
        }
    }

    /// A secret is a placeholder in a config, not a value: a value computed from it could not be
    /// distinguished from other data, and would be stored and shown.
    fn check_secrets(&mut self, located: &Located<'_>) {
        for mention in &located.references.secrets {
            let span = located.span(self.source, &mention.range);
            match &mention.name {
                None => {
                    let message =
                        "a secret must stand alone in its `${{ }}`: expressions cannot use it";
                    self.faults.error(Code::SecretNotAlone, &span, message).hint(
                        "write `${{ secrets.name }}`, with text before and after it if needed; for \
                         Basic authentication `api-call` has `basicAuth`",
                    );
                }
                // The grammar ensures that it has only letters, digits and `_`.
                Some(name) if name.len() > SECRET_NAME_CHARS_MAX => {
                    let message = format!(
                        "the name of a secret may have at most {SECRET_NAME_CHARS_MAX} characters"
                    );
                    self.faults.error(Code::BadName, &span, message);
                }
                Some(_) => {}
            }
        }
    }

    /// As a secret, a callback's link is filled in by the worker, and no expression sees it.
    fn check_callbacks(&mut self, located: &Located<'_>) {
        for mention in &located.references.callbacks {
            let known = matches!(mention.name.as_deref(), Some("callback.url" | "callback.token"));
            if !known {
                let span = located.span(self.source, &mention.range);
                let message = "a callback's link must stand alone in its `${{ }}`";
                self.faults
                    .error(Code::SecretNotAlone, &span, message)
                    .hint("write `${{ callback.url }}` or `${{ callback.token }}`");
            }
        }
    }

    fn unknown_name(&mut self, name: &str, span: Span, place: ExpressionUse) -> Fault {
        let extra: &[&str] = match place {
            ExpressionUse::Config | ExpressionUse::Breaker | ExpressionUse::Concurrency => &[],
            ExpressionUse::With(name) => &[name],
            ExpressionUse::Variables => &["output"],
            ExpressionUse::Trigger(_) => &[],
        };
        let known = match place {
            ExpressionUse::Concurrency => NAMES_OF_KEYS,
            ExpressionUse::Trigger(sees) => sees,
            _ => NAMES,
        };
        let hint = match name {
            "null" | "nil" | "undefined" => "write `none`".to_owned(),
            "now" | "today" => "the time is `execution.now`".to_owned(),
            node if self.scopes.anywhere(node).is_some() => {
                format!("the output of a node is `nodes.{node}.output`")
            }
            _ => match self.faults.likely(name, known.iter().chain(extra).copied()) {
                Some(likely) => did_you_mean(likely),
                None if matches!(place, ExpressionUse::Trigger(_)) => {
                    format!("it sees {}; texts need quotes", listed(known.iter().copied(), "and"))
                }
                None => "names are `input`, `trigger`, `nodes`, `variables`, `execution` and \
                         `secrets`; texts need quotes"
                    .to_owned(),
            },
        };
        let message = format!("unknown name {}", quoted(name));
        Fault::error(Code::UnknownName, span, message).with_hint(hint)
    }
}

/// Does the expression do what the warning about skipped nodes advises: read the node's status or
/// failure, or have a default?
fn handles_a_skip(located: &Located<'_>, id: &str) -> bool {
    let references = &located.references;
    let asks_how_it_went = |mention: &NodeRef| {
        let rest = located.source.get(mention.range.end..).unwrap_or_default();
        mention.id == id && (rest.starts_with(".status") || rest.starts_with(".failure"))
    };
    let has_default = ["default", "d"].iter().any(|name| references.filters.contains_key(*name));
    has_default || references.nodes.iter().any(asks_how_it_went)
}

fn secrets_refused(place: &str, span: Span) -> Fault {
    let message = format!("`secrets` cannot be used in {place}");
    Fault::error(Code::SecretNotAllowed, span, message)
        .with_hint("the result would be stored; only the config of an action can use secrets")
}

fn not_here(name: &str, why: &str, span: Span) -> Fault {
    Fault::error(Code::NameNotAvailable, span, format!("`{name}` {why}"))
}

/// Only expressions that are rendered for a handler: all others are evaluated by the engine and
/// recorded.
fn may_see_secrets(node: &ParsedNode<'_>, place: ExpressionUse) -> bool {
    let runs_remote = match (&node.behaviour, node.kind) {
        (Some(behaviour), _) => matches!(behaviour, Behaviour::Task { .. }),
        (None, Some(kind)) => kind.family == Family::Action,
        (None, None) => true,
    };
    place == ExpressionUse::Config && runs_remote
}
