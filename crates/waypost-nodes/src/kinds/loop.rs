//! `loop`: runs the nodes of its body again and again.

use waypost_core::kind::{
    Behaviour, BodyKind, Collect, ConfigFault, Family, KindSpec, Loop, LoopTest, Shape,
};
use waypost_core::limits::{ITERATIONS_DEFAULT, ITERATIONS_MAX};

use crate::NodeKind;
use crate::config::{ConfigMap, duration, exactly_one, expression, missing, optional};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| read(config).map(Behaviour::Loop).map_err(|fault| vec![fault]),
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "loop",
    aliases: &[],
    family: Family::Logic,
    body: Some(BodyKind::Repeated),
    summary: "Runs the nodes of its body again and again, one iteration at a time.",
    fields: &[
        optional(
            "while",
            Shape::Expression,
            "Evaluated before each iteration; the loop ends when it is false.",
        ),
        optional(
            "until",
            Shape::Expression,
            "Evaluated after each iteration; the loop ends when it is true.",
        ),
        optional(
            "maxIterations",
            Shape::Integer,
            "The loop fails instead of beginning one more; 1,000 if absent.",
        ),
        optional("delay", Shape::Duration, "How long to wait between two iterations."),
        optional(
            "collect",
            Shape::OneOf(&["last", "all"]),
            "The loop's output: that of the last iteration, or a list of all; `last` if absent.",
        ),
    ],
};

fn read(config: &ConfigMap) -> Result<Loop, ConfigFault> {
    exactly_one(config, "while", "until").map_err(|fault| {
        fault
            .hint("`while` is evaluated before each iteration, `until` after it: write one of them")
    })?;
    let test = match (expression(config, "while")?, expression(config, "until")?) {
        (Some(holds), _) => LoopTest::While(holds),
        (None, Some(holds)) => LoopTest::Until(holds),
        (None, None) => return Err(missing("while")),
    };
    let collect = match config.get("collect").map(|value| value.as_str()) {
        None | Some(Some("last")) => Collect::Last,
        Some(Some("all")) => Collect::All,
        Some(_) => return Err(ConfigFault::at("collect", "`collect` must be `last` or `all`")),
    };
    let iterations_max = iterations_max(config)?;
    Ok(Loop { test, iterations_max, delay: duration(config, "delay", None)?, collect })
}

fn iterations_max(config: &ConfigMap) -> Result<u64, ConfigFault> {
    let Some(value) = config.get("maxIterations") else { return Ok(ITERATIONS_DEFAULT) };
    value.as_u64().filter(|count| (1..=ITERATIONS_MAX).contains(count)).ok_or_else(|| {
        let message = format!("`maxIterations` must be a whole number from 1 to {ITERATIONS_MAX}");
        ConfigFault::at("maxIterations", message)
            .hint(format!("without it, a loop has at most {ITERATIONS_DEFAULT} iterations"))
    })
}
