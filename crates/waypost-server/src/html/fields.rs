//! Fields of a form from its JSON Schema, and its value from what a browser posts.
//!
//! A schema of an object whose properties are texts, numbers, flags or choices becomes one field for each
//! property. For any other schema the person writes JSON. Either way the schema decides whether the value
//! is right; the fields are only a convenience.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::Text;
use crate::http::parameter::{Plus, decode};

/// Fields of one form; with more, the person writes JSON.
pub(crate) const FIELDS_MAX: usize = 50;
/// The name of the field for JSON, and what the names of other fields begin with.
const FORM: &str = "form";

/// Why writing HTML into a text cannot fail.
const TEXT: &str = "a text takes everything";

/// What a browser posted: values by the names of fields.
pub(crate) type Posted = BTreeMap<String, String>;

/// Reads the body of a form; `None` if it is not one.
pub(crate) fn posted(body: &[u8]) -> Option<Posted> {
    let text = std::str::from_utf8(body).ok()?;
    let mut values = Posted::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name, Plus::Space)?, decode(value, Plus::Space)?);
        // Browsers send lines as CR and LF.
        if values.insert(name, value.replace("\r\n", "\n")).is_some() {
            return None;
        }
    }
    Some(values)
}

enum FieldKind<'a> {
    Text,
    Number { whole: bool },
    Flag,
    Choice(&'a [Value]),
}

struct FormField<'a> {
    name: &'a str,
    label: &'a str,
    hint: Option<&'a str>,
    kind: FieldKind<'a>,
    required: bool,
    initial: Option<&'a Value>,
}

impl FormField<'_> {
    fn input(&self) -> String {
        format!("{FORM}.{}", self.name)
    }
}

/// The fields of a schema; `None` if it needs more than fields.
fn fields(schema: &Value) -> Option<Vec<FormField<'_>>> {
    let properties = schema.get("properties")?.as_object()?;
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || properties.is_empty() || properties.len() > FIELDS_MAX {
        return None;
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let mut all = Vec::with_capacity(properties.len());
    for (name, property) in properties {
        let kind = match (property.get("enum"), property.get("type").and_then(Value::as_str)) {
            (Some(choices), _) => FieldKind::Choice(choices.as_array()?),
            (None, Some("string")) => FieldKind::Text,
            (None, Some("integer")) => FieldKind::Number { whole: true },
            (None, Some("number")) => FieldKind::Number { whole: false },
            (None, Some("boolean")) => FieldKind::Flag,
            (None, _) => return None,
        };
        all.push(FormField {
            name,
            label: property.get("title").and_then(Value::as_str).unwrap_or(name),
            hint: property.get("description").and_then(Value::as_str),
            kind,
            required: is_required(name),
            initial: property.get("default"),
        });
    }
    Some(all)
}

/// The inputs of a form, with what was posted before.
pub(crate) fn inputs(schema: &Value, posted: &Posted) -> String {
    let mut html = String::new();
    let Some(fields) = fields(schema) else {
        let shown = serde_json::to_string_pretty(schema).unwrap_or_default();
        let given = posted.get(FORM).map_or("", String::as_str);
        let written: fmt::Result = write!(
            html,
            "<label for=\"{FORM}\">Form</label>\n<p class=\"hint\">JSON that fits this schema:</p>\n\
             <p class=\"hint lead\">{}</p>\n\
             <textarea class=\"code\" id=\"{FORM}\" name=\"{FORM}\" required>{}</textarea>\n",
            Text(&shown),
            Text(given),
        );
        written.expect(TEXT);
        return html;
    };
    for field in &fields {
        add_input(&mut html, field, posted);
    }
    html
}

fn add_input(html: &mut String, field: &FormField<'_>, posted: &Posted) {
    let name = field.input();
    let (name, label) = (Text(&name), Text(field.label));
    let required = if field.required { " required" } else { "" };
    let given = posted.get(&field.input()).cloned();
    let hint = field.hint.map(|hint| format!("<p class=\"hint\">{}</p>\n", Text(hint)));
    let hint = hint.unwrap_or_default();
    let initial = || match field.initial {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let written: fmt::Result = match &field.kind {
        FieldKind::Flag => {
            let on = match posted.is_empty() {
                true => field.initial == Some(&Value::Bool(true)),
                false => given.is_some(),
            };
            let on = if on { " checked" } else { "" };
            write!(
                html,
                "<label class=\"flag\"><input type=\"checkbox\" name=\"{name}\" value=\"true\"{on}> \
                 <span>{label}</span></label>\n{hint}"
            )
        }
        FieldKind::Choice(choices) => {
            let chosen = given.or_else(|| field.initial.map(Value::to_string));
            let mut options = String::from("<option value=\"\"></option>\n");
            for choice in *choices {
                let value = choice.to_string();
                let shown = choice.as_str().map_or_else(|| value.clone(), str::to_owned);
                let on = if chosen.as_ref() == Some(&value) { " selected" } else { "" };
                let written: fmt::Result = writeln!(
                    options,
                    "<option value=\"{}\"{on}>{}</option>",
                    Text(&value),
                    Text(&shown)
                );
                written.expect(TEXT);
            }
            write!(
                html,
                "<label for=\"{name}\">{label}</label>\n{hint}\
                 <select id=\"{name}\" name=\"{name}\"{required}>\n{options}</select>\n"
            )
        }
        FieldKind::Text | FieldKind::Number { .. } => {
            let value = given.unwrap_or_else(initial);
            let kind = match field.kind {
                FieldKind::Number { whole: true } => "type=\"number\" step=\"1\"",
                FieldKind::Number { whole: false } => "type=\"number\" step=\"any\"",
                FieldKind::Text | FieldKind::Flag | FieldKind::Choice(_) => "type=\"text\"",
            };
            write!(
                html,
                "<label for=\"{name}\">{label}</label>\n{hint}\
                 <input {kind} id=\"{name}\" name=\"{name}\" value=\"{}\"{required} autocomplete=\"off\">\n",
                Text(&value)
            )
        }
    };
    written.expect(TEXT);
}

/// The form that was posted, as JSON text. Fields that were left empty are left out.
pub(crate) fn value(schema: &Value, posted: &Posted) -> Result<String, String> {
    let Some(fields) = fields(schema) else {
        let text = posted.get(FORM).map_or("", String::as_str).trim();
        return match text {
            "" => Ok("null".to_owned()),
            // As it was written: numbers keep their digits.
            text => Ok(text.to_owned()),
        };
    };
    let mut form = Map::new();
    for field in &fields {
        let given = posted.get(&field.input()).map(String::as_str);
        let found = match (&field.kind, given) {
            (FieldKind::Flag, given) => Some(Value::Bool(given.is_some())),
            (_, None | Some("")) if !matches!(field.kind, FieldKind::Text) || !field.required => {
                None
            }
            (_, None) => None,
            (FieldKind::Text, Some(text)) => Some(text.into()),
            // What is no number stays text, and the schema says what is wrong.
            (FieldKind::Number { .. } | FieldKind::Choice(_), Some(text)) => {
                Some(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
            }
        };
        if let Some(found) = found {
            form.insert(field.name.to_owned(), found);
        }
    }
    serde_json::to_string(&form).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["account", "amount"],
            "properties": {
                "account": { "type": "string", "title": "Account <b>", "description": "of \"payee\"" },
                "amount": { "type": "integer", "default": 5 },
                "note": { "type": "string" },
                "urgent": { "type": "boolean" },
                "way": { "enum": ["wire", 2, "che'ck"] },
            },
        })
    }

    #[test]
    fn fields_of_a_simple_schema_become_inputs_and_are_read_back() {
        let html = inputs(&schema(), &Posted::new());
        for part in [
            "<label for=\"form.account\">Account &lt;b&gt;</label>",
            "of &quot;payee&quot;",
            "<input type=\"number\" step=\"1\" id=\"form.amount\" name=\"form.amount\" value=\"5\" required",
            "<input type=\"checkbox\" name=\"form.urgent\" value=\"true\">",
            "<option value=\"&quot;che&#39;ck&quot;\">che&#39;ck</option>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        let body = b"form.account=A-1+%26+B&form.amount=7&form.note=&form.urgent=true&form.way=2";
        let posted = posted(body).unwrap();
        let form: Value = serde_json::from_str(&value(&schema(), &posted).unwrap()).unwrap();
        let expected = json!({ "account": "A-1 & B", "amount": 7, "urgent": true, "way": 2 });
        assert_eq!(form, expected);
        assert!(inputs(&schema(), &posted).contains("value=\"A-1 &amp; B\""), "it is kept");
    }

    #[test]
    fn wrong_values_reach_the_schema_as_they_are() {
        let posted = posted(b"form.account=&form.amount=seven").unwrap();
        let form: Value = serde_json::from_str(&value(&schema(), &posted).unwrap()).unwrap();
        assert_eq!(form, json!({ "account": "", "amount": "seven", "urgent": false }));
    }

    #[test]
    fn other_schemas_are_filled_in_as_json() {
        let nested = json!({ "type": "object", "properties": { "a": { "type": "array" } } });
        for schema in [nested, json!({}), json!({ "type": "array" }), json!({ "type": "object" })] {
            let posted = posted(b"form=%5B1.50%5D").unwrap();
            assert!(inputs(&schema, &posted).contains(">[1.50]</textarea>"));
            assert_eq!(value(&schema, &posted).unwrap(), "[1.50]");
            assert_eq!(value(&schema, &Posted::new()).unwrap(), "null");
        }
    }

    #[test]
    fn bodies_that_are_no_form_are_refused() {
        for body in [&b"a=%zz"[..], b"a=1&a=2", b"a=\xff"] {
            assert!(posted(body).is_none(), "{body:?}");
        }
    }
}
