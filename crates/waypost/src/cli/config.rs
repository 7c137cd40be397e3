//! `waypost config`.

use anyhow::Result;

use super::{Context, Exit};
use crate::output::print_columns;
use crate::settings::ShownSetting;

pub(crate) fn run(context: &Context) -> Result<Exit> {
    let shown = &context.settings.shown;
    let columns = |setting: &ShownSetting| {
        let value = if setting.value.is_empty() { "(none)" } else { &setting.value };
        let (name, source) = (setting.name.to_string(), setting.source.to_string());
        vec![name, value.to_owned(), source, setting.variable.clone()]
    };
    let headings = ["SETTING", "VALUE", "FROM", "VARIABLE"];
    context.show(shown, || print_columns(&headings, shown, columns))
}
