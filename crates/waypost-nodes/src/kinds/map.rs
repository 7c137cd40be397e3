//! `map`: runs the nodes of its body for each item.

use serde_json::Value;
use waypost_core::kind::{
    Behaviour, BodyKind, ConfigFault, Family, KindSpec, MapSpec, Shape, Tolerate,
};
use waypost_core::limits::{MAP_CONCURRENCY_DEFAULT, MAP_CONCURRENCY_MAX};

use crate::NodeKind;
use crate::config::{ConfigMap, fault_at, optional, required, required_template};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| read(config).map(Behaviour::Map).map_err(|fault| vec![fault]),
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "map",
    aliases: &[],
    family: Family::Logic,
    body: Some(BodyKind::Each),
    summary: "Runs the nodes of its body for each item, some at a time, and lists the results in order.",
    fields: &[
        required("items", Shape::Any, "A list, or a number n for the items 0 to n-1."),
        optional(
            "concurrency",
            Shape::Integer,
            "How many items may be open at once, 1 to 10,000; 100 if absent.",
        ),
        optional(
            "tolerate",
            Shape::Custom,
            "How many items may fail without the map failing: `{count: n}` or `{percent: n}`; none if absent.",
        ),
        optional(
            "stopOnFailure",
            Shape::Boolean,
            "Open no more items once more have failed than are tolerated; if false, all items run first.",
        ),
        optional(
            "collect",
            Shape::OneOf(&["results", "none"]),
            "Whether the output has the outputs of the items; `results` if absent.",
        ),
    ],
};

fn read(config: &ConfigMap) -> Result<MapSpec, ConfigFault> {
    let items = required_template(config, "items")?;
    if !config.get("items").is_some_and(may_be_items) {
        let message = "`items` must be a list, or a whole number that is not negative";
        let hint =
            "write a list, a number n for the items 0 to n-1, or `${{ … }}` that gives either";
        return Err(ConfigFault::at("items", message).hint(hint));
    }
    let collect = match config.get("collect").map(|value| value.as_str()) {
        None | Some(Some("results")) => true,
        Some(Some("none")) => false,
        Some(_) => return Err(ConfigFault::at("collect", "`collect` must be `results` or `none`")),
    };
    Ok(MapSpec {
        items,
        concurrency: concurrency(config)?,
        tolerate: tolerate(config)?,
        stop_on_failure: config.get("stopOnFailure").and_then(Value::as_bool).unwrap_or(false),
        collect,
    })
}

/// A text may be computed; anything else is known now.
fn may_be_items(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Number(number) => number.as_u64().is_some(),
        Value::String(text) => text.contains("${{"),
        Value::Null | Value::Bool(_) | Value::Object(_) => false,
    }
}

fn concurrency(config: &ConfigMap) -> Result<u32, ConfigFault> {
    let Some(value) = config.get("concurrency") else { return Ok(MAP_CONCURRENCY_DEFAULT) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (1..=MAP_CONCURRENCY_MAX).contains(number)).ok_or_else(|| {
        let message =
            format!("`concurrency` must be a whole number from 1 to {MAP_CONCURRENCY_MAX}");
        ConfigFault::at("concurrency", message)
            .hint(format!("without it, {MAP_CONCURRENCY_DEFAULT} items are open at once"))
    })
}

fn tolerate(config: &ConfigMap) -> Result<Tolerate, ConfigFault> {
    let Some(value) = config.get("tolerate").filter(|value| !value.is_null()) else {
        return Ok(Tolerate::Count(0));
    };
    let shape = || {
        ConfigFault::at("tolerate", "`tolerate` must be `{count: n}` or `{percent: n}`")
            .hint("for example `tolerate: {percent: 5}`")
    };
    let fields = value.as_object().ok_or_else(shape)?;
    match (fields.get("count"), fields.get("percent"), fields.len()) {
        (Some(count), None, 1) => count.as_u64().map(Tolerate::Count).ok_or_else(|| {
            let message = "`count` must be a whole number that is not negative";
            fault_at(&["tolerate", "count"], message)
                .hint("a share of the items is `tolerate: {percent: 5}`")
        }),
        (None, Some(percent), 1) => {
            let percent = percent.as_f64().filter(|percent| (0.0..=100.0).contains(percent));
            percent.map(Tolerate::Percent).ok_or_else(|| {
                fault_at(&["tolerate", "percent"], "`percent` must be a number from 0 to 100")
                    .hint("a number of items is `tolerate: {count: 5}`")
            })
        }
        _ => Err(shape()),
    }
}
