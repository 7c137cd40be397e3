//! A node's `config`, checked against the fields of its kind.
//!
//! The shapes define which values a field may have and whether it may contain expressions.
//! Expressions are compiled here for their positions; then the kind itself compiles the config to a
//! behaviour, and its faults are located by path.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use waypost_core::expr::{Expression, Template, TemplateFault};
use waypost_core::kind::{Behaviour, Field, Kind, Shape};
use waypost_core::trigger::TriggerKindName;

use super::{ExpressionUse, Located, ReadContext};
use crate::diagnostics::{Code, Faults, quoted};
use crate::fields;
use crate::input;
use crate::tree::{self, Tree, TreeEntry, TreeValue};

const OPEN: &str = "${{";
/// Operators of other languages, and their equivalents here.
const OPERATORS_OF_OTHERS: &[(&str, &str)] = &[
    ("&&", "and"),
    ("||", "or"),
    ("===", "=="),
    ("!==", "!="),
    (" = ", "=="),
    (" ? ", "a if condition else b"),
    ("=>", "a filter such as `map` or `select`"),
    ("`", "\" or '"),
];

/// A config after reading.
#[derive(Default)]
pub(super) struct NodeConfig<'t> {
    pub(super) value: serde_json::Map<String, serde_json::Value>,
    pub(super) behaviour: Option<Behaviour>,
    pub(super) expressions: Vec<Located<'t>>,
    /// The long form's `config.retry`, which is the node's.
    pub(super) retry: Option<&'t TreeEntry>,
}

/// Reads the config of a node of this kind; `kind_span` is where the kind is named.
pub(super) fn read<'t>(
    kind: &dyn Kind,
    kind_span: &Range<usize>,
    entry: Option<&'t TreeEntry>,
    context: &mut ReadContext<'_>,
) -> NodeConfig<'t> {
    let spec = kind.spec();
    if TriggerKindName::parse(spec.name).is_some() {
        return of_trigger(kind, entry);
    }
    let errors_before = context.faults.errors();
    let entries = match entry.map(|entry| fields::map("`config`", &entry.value, context.faults)) {
        None => &[],
        Some(Some(entries)) => entries,
        Some(None) => return NodeConfig::default(),
    };
    let owns_retry = spec.fields.iter().any(|field| field.name == "retry");
    let mut config = NodeConfig {
        retry: tree::find(entries, "retry").filter(|_| !owns_retry),
        ..NodeConfig::default()
    };
    let names: Vec<&str> = spec.fields.iter().map(|field| field.name).collect();
    let mut meant = Vec::new();
    for entry in entries {
        if config.retry.is_some() && entry.key == "retry" {
            continue;
        }
        config.value.insert(entry.key.clone(), entry.value.to_json());
        match spec.fields.iter().find(|field| field.name == entry.key) {
            Some(field) => config.expressions.extend(check_field(field, &entry.value, context)),
            None => {
                let of = format!("the config of `{}`", spec.name);
                let one = std::slice::from_ref(entry);
                meant.extend(fields::refuse_unknown(one, &names, &of, context.faults));
            }
        }
    }
    let missing = spec.fields.iter().filter(|field| {
        field.required && !meant.contains(&field.name) && tree::find(entries, field.name).is_none()
    });
    for field in missing {
        let message = format!("`{}` needs `{}` in its config", spec.name, field.name);
        let span = entry.map_or_else(|| kind_span.clone(), |entry| entry.key_span.clone());
        let hint = format!("`{}`: {}", field.name, field.summary);
        context.faults.error(Code::MissingField, &span, message).hint(hint);
    }
    if context.faults.errors() == errors_before {
        let fallback = entry.map_or(kind_span, |entry| &entry.key_span);
        compile(kind, entry.map(|entry| &entry.value), fallback, &mut config, context.faults);
    }
    config
}

/// The config of a trigger has been read as one.
fn of_trigger<'t>(kind: &dyn Kind, entry: Option<&TreeEntry>) -> NodeConfig<'t> {
    let value = match entry.map(|entry| entry.value.to_json()) {
        Some(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    NodeConfig { behaviour: kind.compile(&value).ok(), value, ..NodeConfig::default() }
}

fn compile<'t>(
    kind: &dyn Kind,
    tree: Option<&'t Tree>,
    fallback: &Range<usize>,
    config: &mut NodeConfig<'t>,
    faults: &mut Faults,
) {
    match kind.compile(&config.value) {
        Ok(behaviour) => {
            if let Some(tree) = tree {
                add_expressions_of_the_kind(tree, &behaviour, config);
            }
            config.behaviour = Some(behaviour);
        }
        Err(found) => {
            for fault in found {
                let path = fault.path.iter().map(String::as_str);
                let span = match tree {
                    Some(tree) if !fault.path.is_empty() => {
                        let culprit = tree.at(path);
                        // The whole config is no help: its name is.
                        if std::ptr::eq(culprit, tree) { fallback } else { &culprit.span }
                    }
                    _ => fallback,
                };
                faults.error(Code::BadConfig, span, fault.message).hint = fault.hint;
            }
        }
    }
}

/// Finds the expressions in fields whose shape only the kind defines, by their text.
fn add_expressions_of_the_kind<'t>(
    tree: &'t Tree,
    behaviour: &Behaviour,
    config: &mut NodeConfig<'t>,
) {
    let known: HashSet<&str> =
        config.expressions.iter().map(|located| located.source.as_str()).collect();
    let mut unknown: Vec<&Expression> = Vec::new();
    behaviour.visit(&mut |expression| {
        if !known.contains(expression.source().trim()) {
            unknown.push(expression);
        }
    });
    if unknown.is_empty() {
        return;
    }
    // The position of each text, and of the expressions in it.
    let mut places = HashMap::new();
    tree.visit_texts(&mut |tree, text| {
        let leading = text.len() - text.trim_start().len();
        places.entry(text.to_owned()).or_insert((tree, 0));
        places.entry(text.trim().to_owned()).or_insert((tree, leading));
        for hole in holes(tree, text, ExpressionUse::Config).into_iter().flatten() {
            places.entry(hole.source).or_insert((tree, hole.offset));
        }
    });
    for expression in unknown {
        // An expression that is not written there was generated by the kind from ones that are
        // known.
        let Some((tree, offset)) = places.get(expression.source()).copied() else { continue };
        let place = if behaviour.is_signal_filter(expression) {
            ExpressionUse::With("signal")
        } else {
            ExpressionUse::Config
        };
        config.expressions.push(Located::new(expression, tree, offset, place));
    }
}

fn check_field<'t>(
    field: &Field,
    tree: &'t Tree,
    context: &mut ReadContext<'_>,
) -> Vec<Located<'t>> {
    let what = format!("`{}`", field.name);
    let faults = &mut *context.faults;
    let has_hole = tree.as_text().is_some_and(|text| text.contains(OPEN));
    match field.shape {
        Shape::Custom => return Vec::new(),
        Shape::Schema => {
            if !context.is_stored {
                input::check_schema(&what, tree, faults);
            }
            return Vec::new();
        }
        Shape::Any => {}
        Shape::Scalar => {
            let scalar = matches!(
                tree.value,
                TreeValue::Text { .. } | TreeValue::Number(_) | TreeValue::Bool(_)
            );
            if !scalar {
                fields::wrong_type(&what, "a text, a number or a boolean", tree, faults);
            }
        }
        Shape::Object => {
            fields::map(&what, tree, faults);
        }
        Shape::List => {
            if tree.as_list().is_none() {
                fields::wrong_type(&what, "a list", tree, faults);
            }
        }
        Shape::Expression | Shape::ExpressionWith(_) => {
            let place = match field.shape {
                Shape::ExpressionWith(name) => ExpressionUse::With(name),
                _ => ExpressionUse::Config,
            };
            return match fields::text(&what, tree, faults) {
                Some(text) => bare_expression(tree, text, place, context).into_iter().collect(),
                None => Vec::new(),
            };
        }
        Shape::Name | Shape::OneOf(_) if has_hole => {
            let message = format!("{what} must be a fixed value: `${{{{ }}}}` is not allowed here");
            faults.error(Code::HoleNotAllowed, &tree.span, message);
            return Vec::new();
        }
        Shape::Text | Shape::Name => {
            fields::text(&what, tree, faults);
        }
        Shape::OneOf(words) => {
            fields::one_of(words)(&what, tree, faults);
        }
        Shape::Integer => {
            check_integer(&what, tree, faults);
        }
        Shape::Boolean => {
            fields::boolean(&what, tree, faults);
        }
        Shape::Number if !has_hole => {
            fields::number(f64::MIN..=f64::MAX)(&what, tree, faults);
        }
        Shape::Duration if !has_hole => {
            fields::duration(&what, tree, faults);
        }
        Shape::Number | Shape::Duration => {}
    }
    template(tree, ExpressionUse::Config, context)
}

fn check_integer(what: &str, tree: &Tree, faults: &mut Faults) {
    match &tree.value {
        TreeValue::Number(number) if number.is_u64() => {}
        TreeValue::Number(number) => {
            let message = format!("{what} must be a whole number, zero or more, not {number}");
            faults.error(Code::BadValue, &tree.span, message);
        }
        _ => {
            fields::wrong_type(what, "a whole number", tree, faults);
        }
    }
}

pub(super) fn bare_expression<'t>(
    tree: &'t Tree,
    text: &str,
    place: ExpressionUse,
    context: &mut ReadContext<'_>,
) -> Option<Located<'t>> {
    if text.contains(OPEN) {
        let message = "this field is an expression: write it without `${{ }}`";
        let inner = text.trim().trim_start_matches(OPEN).trim_end_matches("}}").trim();
        let hint = format!("write {}", quoted(inner));
        context.faults.error(Code::HoleNotAllowed, &tree.span, message).hint(hint);
        return None;
    }
    match Expression::compile(text) {
        Ok(expression) => {
            // References count from the start of the text, blanks included.
            let located = Located::new(&expression, tree, 0, place);
            Some(Located { source: text.trim().to_owned(), ..located })
        }
        Err(fault) => {
            bad_expression(tree, &fault.range, &fault.message, context);
            None
        }
    }
}

/// Compiles the holes in every text of a tree and returns the expressions in them.
pub(super) fn template<'t>(
    tree: &'t Tree,
    place: ExpressionUse,
    context: &mut ReadContext<'_>,
) -> Vec<Located<'t>> {
    let mut found = Vec::new();
    tree.visit_texts(&mut |tree, text| match holes(tree, text, place) {
        Ok(holes) => found.extend(holes),
        Err(fault) => bad_expression(tree, &fault.range, &fault.message, context),
    });
    found
}

/// The expressions in the holes of a text.
fn holes<'t>(
    tree: &'t Tree,
    text: &str,
    place: ExpressionUse,
) -> Result<Vec<Located<'t>>, TemplateFault> {
    let mut found = Vec::new();
    if text.contains(OPEN) {
        let mut after = 0;
        Template::compile(&serde_json::Value::from(text))?.visit(&mut |expression| {
            let offset = hole_start(text, after);
            after = offset + expression.source().len();
            found.push(Located::new(expression, tree, offset, place));
        });
    }
    Ok(found)
}

/// The first byte of the expression in the next hole.
fn hole_start(text: &str, after: usize) -> usize {
    let rest = text.get(after..).unwrap_or_default();
    let inside = rest.find(OPEN).map_or(rest, |open| rest.get(open + OPEN.len()..).unwrap_or(""));
    text.len() - inside.trim_start().len()
}

fn bad_expression(tree: &Tree, range: &Range<usize>, message: &str, context: &mut ReadContext<'_>) {
    let span = tree.span_within(context.source, range);
    let message = format!("not a valid expression: {message}");
    let text = tree.as_text().unwrap_or_default();
    let advice = OPERATORS_OF_OTHERS.iter().find(|(operator, _)| text.contains(operator));
    context.faults.error(Code::BadExpression, &span, message).hint =
        advice.map(|(operator, ours)| format!("instead of `{operator}` write `{ours}`"));
}
