//! The block `concurrency`: how many executions with equal keys may run at once.

use waypost_core::expr::Template;
use waypost_core::plan::ConcurrencyPolicy;

use super::{ExpressionUse, Located, ReadContext, config};
use crate::diagnostics::Code;
use crate::fields;
use crate::tree::TreeEntry;

pub(crate) const CONCURRENCY_FIELDS: &[&str] = &["key", "limit", "policy"];
pub(crate) const POLICIES: &[&str] = &["queue", "reject", "cancel-oldest"];

#[derive(Debug)]
pub(crate) struct ConcurrencyBlock<'t> {
    pub(crate) key: String,
    pub(crate) template: Template,
    /// Those of the key.
    pub(crate) expressions: Vec<Located<'t>>,
    pub(crate) limit: u32,
    pub(crate) policy: ConcurrencyPolicy,
}

/// Reads the block; `None` where it has no key to go by.
pub(super) fn read<'t>(
    entry: &'t TreeEntry,
    context: &mut ReadContext<'_>,
) -> Option<ConcurrencyBlock<'t>> {
    let faults = &mut *context.faults;
    let entries = fields::map("`concurrency`", &entry.value, faults)?;
    let meant = fields::refuse_unknown(entries, CONCURRENCY_FIELDS, "`concurrency`", faults);
    let limit = fields::get(entries, "limit", faults, fields::whole(1..=u32::MAX));
    let policy = fields::get(entries, "policy", faults, fields::one_of(POLICIES));
    let Some(key) = fields::present(entries, "key") else {
        if !meant.contains(&"key") {
            let hint =
                "executions with equal keys share the limit; with `key: all`, all of them do";
            let message = "`concurrency` needs `key`";
            faults.error(Code::MissingField, &entry.key_span, message).hint(hint);
        }
        return None;
    };
    let text = fields::word("`key`", &key.value, faults)?;
    if text.is_empty() {
        let message = "`key` must not be empty";
        faults.error(Code::BadValue, &key.value.span, message);
        return None;
    }
    let expressions = config::template(&key.value, ExpressionUse::Concurrency, context);
    // A template that cannot be compiled was reported with its position.
    let template = Template::compile(&serde_json::Value::from(text.as_str())).ok()?;
    let policy = policy.and_then(ConcurrencyPolicy::parse).unwrap_or_default();
    Some(ConcurrencyBlock { key: text, template, expressions, limit: limit.unwrap_or(1), policy })
}
