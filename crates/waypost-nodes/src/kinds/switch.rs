//! `switch`: selects the branch of the first case that holds.

use serde_json::Value;
use waypost_core::kind::{Behaviour, Case, ConfigFault, Family, KindSpec, Shape};

use crate::NodeKind;
use crate::config::{ConfigMap, bare_expression, fault_at, missing, optional, required};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "switch",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Selects the branch of the first case that holds; fails with `no_case` if none does.",
    fields: &[
        required("cases", Shape::Custom, "A list of `{when: expression, branch: name}`."),
        optional("default", Shape::Name, "The branch to select when no case holds."),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults = Vec::new();
    let cases = match config.get("cases") {
        None => vec![Err(vec![missing("cases")])],
        Some(Value::Array(cases)) if !cases.is_empty() => {
            cases.iter().enumerate().map(|(at, case)| compile_case(at, case)).collect()
        }
        Some(_) => {
            let message = "`cases` must be a list of at least one `{when, branch}`";
            vec![Err(vec![ConfigFault::at("cases", message)])]
        }
    };
    let cases = cases
        .into_iter()
        .filter_map(|case| case.map_err(|found| faults.extend(found)).ok())
        .collect();
    let default = config
        .get("default")
        .map(|name| branch_name(name, &["default"]))
        .transpose()
        .unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
    if faults.is_empty() { Ok(Behaviour::Switch { cases, default }) } else { Err(faults) }
}

fn compile_case(at: usize, case: &Value) -> Result<Case, Vec<ConfigFault>> {
    let at = at.to_string();
    let Value::Object(fields) = case else {
        return Err(vec![fault_at(&["cases", &at], "a case must be `{when, branch}`")]);
    };
    let mut faults: Vec<ConfigFault> = fields
        .keys()
        .filter(|key| !matches!(key.as_str(), "when" | "branch"))
        .map(|key| {
            fault_at(&["cases", &at, key], format!("a case has no field `{key}`"))
                .hint("it has `when` and `branch`")
        })
        .collect();
    let when = match fields.get("when") {
        Some(when) => bare_expression(when, &["cases", &at, "when"]),
        None => Err(fault_at(&["cases", &at], "a case needs `when`")),
    };
    let branch = match fields.get("branch") {
        Some(branch) => branch_name(branch, &["cases", &at, "branch"]),
        None => Err(fault_at(&["cases", &at], "a case needs `branch`")),
    };
    match (when, branch) {
        (Ok(when), Ok(branch)) if faults.is_empty() => Ok(Case { when, branch }),
        (when, branch) => {
            faults.extend(when.err());
            faults.extend(branch.err());
            Err(faults)
        }
    }
}

/// YAML reads an unquoted `true` as a boolean and `1` as a number; both mean the name as written.
fn branch_name(value: &Value, path: &[&str]) -> Result<String, ConfigFault> {
    match value {
        Value::String(name) if name.contains("${{") => {
            Err(fault_at(path, "a branch's name cannot be computed")
                .hint("edges must name it, so it has to be known when the definition is read"))
        }
        Value::String(name) if !name.trim().is_empty() => Ok(name.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err(fault_at(path, "a branch's name must be text and not empty")),
    }
}
