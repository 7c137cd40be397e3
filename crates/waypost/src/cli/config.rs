//! `waypost config`.

use anyhow::Result;

use super::{Context, Exit};
use crate::output::{Format, print_columns, print_json};

pub(crate) fn run(context: &Context) -> Result<Exit> {
    let shown = &context.settings.shown;
    if context.format == Format::Json {
        print_json(shown)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = shown
        .iter()
        .map(|setting| {
            let value = if setting.value.is_empty() { "(none)" } else { &setting.value };
            vec![
                setting.name.to_string(),
                value.to_owned(),
                setting.source.to_string(),
                setting.variable.clone(),
            ]
        })
        .collect();
    print_columns(&["SETTING", "VALUE", "FROM", "VARIABLE"], &rows);
    Ok(Exit::Done)
}
