//! Writes a definition as YAML: nodes as blocks, short values in one line.

use serde_json::{Map, Value};

use super::{NeedEdge, TargetDefinition, TargetNode};

/// Columns that a value in one line may fill.
const WIDTH: usize = 100;

pub(super) fn write(definition: &TargetDefinition) -> String {
    let mut out = String::new();
    notes(&definition.notes, 0, &mut out);
    field("name", &Value::from(definition.name.as_str()), 0, &mut out);
    for (name, value) in &definition.fields {
        field(name, value, 0, &mut out);
    }
    out.push_str("nodes:\n");
    nodes(&definition.nodes, 2, &mut out);
    out
}

fn nodes(all: &[TargetNode], indent: usize, out: &mut String) {
    for node in all {
        write_node(node, indent, out);
    }
}

fn write_node(node: &TargetNode, indent: usize, out: &mut String) {
    notes(&node.notes, indent, out);
    let start = out.len();
    let inner = indent + 2;
    field("id", &Value::from(node.id.as_str()), inner, out);
    field("type", &Value::from(node.kind), inner, out);
    if let Some(label) = &node.label {
        field("label", &Value::from(label.as_str()), inner, out);
    }
    needs(&node.needs, inner, out);
    if let Some(join) = &node.join {
        field("join", join, inner, out);
    }
    for (name, value) in &node.fields {
        field(name, value, inner, out);
    }
    if !node.config.is_empty() {
        field("config", &Value::Object(node.config.clone()), inner, out);
    }
    if !node.variables.is_empty() {
        field("variables", &Value::Object(node.variables.clone()), inner, out);
    }
    if !node.nodes.is_empty() {
        out.push_str(&format!("{:inner$}nodes:\n", ""));
        nodes(&node.nodes, inner + 2, out);
    }
    // The first field has the dash of the list.
    out.replace_range(start + indent..start + indent + 1, "-");
}

fn needs(edges: &[NeedEdge], indent: usize, out: &mut String) {
    if edges.is_empty() {
        return;
    }
    let one = |edge: &NeedEdge| match &edge.branch {
        None => inline(&Value::from(edge.node.as_str())),
        Some(branch) => {
            let text = |text: &str| inline(&Value::from(text));
            format!("{{ node: {}, branch: {} }}", text(&edge.node), text(branch))
        }
    };
    let all: Vec<String> = edges.iter().map(one).collect();
    let line = format!("{:indent$}needs: [{}]\n", "", all.join(", "));
    if line.len() <= WIDTH {
        out.push_str(&line);
        return;
    }
    out.push_str(&format!("{:indent$}needs:\n", ""));
    all.iter().for_each(|edge| out.push_str(&format!("{:indent$}  - {edge}\n", "")));
}

fn notes(lines: &[String], indent: usize, out: &mut String) {
    for line in lines.iter().flat_map(|note| note.lines()) {
        let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        out.push_str(format!("{:indent$}# {clean}", "").trim_end());
        out.push('\n');
    }
}

/// `key: value` at this indent, with its line end.
fn field(key: &str, value: &Value, indent: usize, out: &mut String) {
    out.push_str(&format!("{:indent$}{}:", "", key_text(key)));
    block(value, indent, key.len() + 1, out);
}

/// The value after a `:` or a `-`, in the same line if it is short.
fn block(value: &Value, indent: usize, used: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block_text(text) => {
            let strip = if text.ends_with('\n') { "|" } else { "|-" };
            out.push_str(&format!(" {strip}\n"));
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                let pad = if line.is_empty() { 0 } else { indent + 2 };
                out.push_str(&format!("{:pad$}{line}\n", ""));
            }
        }
        Value::Object(map) if !map.is_empty() => object(value, map, indent, used, out),
        Value::Array(items) if !items.is_empty() => {
            if fits(value, indent + used) {
                out.push_str(&format!(" {}\n", inline(value)));
                return;
            }
            out.push('\n');
            for item in items {
                let start = out.len();
                match item {
                    Value::Object(map) if !map.is_empty() && !fits(item, indent + 4) => {
                        map.iter().for_each(|(key, value)| field(key, value, indent + 4, out));
                        out.replace_range(start + indent + 2..start + indent + 3, "-");
                    }
                    _ => {
                        out.push_str(&format!("{:indent$}  -", ""));
                        block(item, indent + 2, 1, out);
                    }
                }
            }
        }
        _ => out.push_str(&format!(" {}\n", inline(value))),
    }
}

fn object(value: &Value, map: &Map<String, Value>, indent: usize, used: usize, out: &mut String) {
    if fits(value, indent + used) {
        out.push_str(&format!(" {}\n", inline(value)));
        return;
    }
    out.push('\n');
    map.iter().for_each(|(key, value)| field(key, value, indent + 2, out));
}

/// Does the value fit into the rest of a line?
fn fits(value: &Value, used: usize) -> bool {
    let mut left = WIDTH.saturating_sub(used);
    is_short(value, &mut left) && !has_block_text(value) && used + inline(value).len() < WIDTH
}

/// Has the value few enough characters that writing it in one line is worth a try?
fn is_short(value: &Value, left: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        _ => 1,
    };
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| is_short(item, left)),
        Value::Object(map) => map.values().all(|value| is_short(value, left)),
        _ => true,
    }
}

fn has_block_text(value: &Value) -> bool {
    match value {
        Value::String(text) => is_block_text(text),
        Value::Array(items) => items.iter().any(has_block_text),
        Value::Object(map) => map.values().any(has_block_text),
        _ => false,
    }
}

/// Can the text be a block, as it is? Its first line must not begin with a space, which would be read
/// as indentation, and other characters than printable ones need escapes.
fn is_block_text(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\n', '\t', '#'])
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && text.split('\n').all(|line| !line.ends_with(' ') && !line.starts_with('\t'))
        && text.split('\n').all(|line| line.is_empty() || !line.trim().is_empty())
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a1}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{10000}'..='\u{10ffff}')
        && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// A value in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let one =
                |(key, value): (&String, &Value)| format!("{}: {}", key_text(key), inline(value));
            let fields: Vec<String> = map.iter().map(one).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// The name of a field.
fn key_text(key: &str) -> String {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let plain = key.starts_with(first)
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && !["null", "true", "false"].contains(&key.to_ascii_lowercase().as_str());
    if plain { key.to_owned() } else { scalar(key) }
}

/// A text, in quotes where YAML would read it as something else.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if is_printable(c) => quoted.push(c),
            c if u32::from(c) > 0xffff => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Is it read as this text without quotes, also inside of braces? Rather too careful than not.
fn is_plain(text: &str) -> bool {
    const WORDS: &[&str] =
        &["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '/';
    let rest = |c: char| c.is_ascii_alphanumeric() || " _-./$@+".contains(c);
    text.starts_with(first)
        && text.chars().all(rest)
        && !text.ends_with([' '])
        && text.len() <= 120
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        || is_duration(text)
}

/// `30s`: begins with a digit, and cannot be a number.
fn is_duration(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < text.len() && matches!(digits, "ms" | "s" | "m" | "h" | "d")
}
