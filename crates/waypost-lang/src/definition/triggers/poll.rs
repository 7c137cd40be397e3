//! Triggers that fire with the items of an HTTP resource.

use waypost_core::expr::Template;
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_core::limits::{LOOKBACK_MAX, POLL_INTERVAL_MIN};
use waypost_core::time::Millis;
use waypost_core::trigger::{PollTrigger, TriggerKind};

use super::super::{ExpressionUse, config};
use super::{Block, SeenNames};
use crate::diagnostics::Code;
use crate::fields;
use crate::tree::{self, TreeEntry};

const REQUEST: SeenNames = &["cursor", "secrets"];
const RESPONSE: SeenNames = &["response"];
const PAGE: SeenNames = &["body", "headers", "status", "cursor"];
const AFTER_PAGE: SeenNames = &["body", "headers", "status", "cursor", "item"];
/// The longest interval of a poll.
const EVERY_MAX: Millis = Millis::from_secs(366 * 24 * 3_600);
/// Fields of an `api-call` that a poll cannot have: its page is read here.
const NOT_FOR_PAGES: &[&str] = &["download", "upload", "retry"];

pub(super) fn read(block: &mut Block<'_, '_, '_>) -> Option<TriggerKind> {
    block.required("every", "how often it is read: `every: 1m`");
    let every = block.duration_within("every", (POLL_INTERVAL_MIN, EVERY_MAX), Code::BadInterval);
    let request = block.required("request", "`request: { url: https://api.example.com/tickets }`");
    let request = request.and_then(|entry| page_request(block, entry));
    block.required("items", "the list of items in a page: `items: body.tickets`");
    let items = block.expression("items", PAGE);
    let key = block.expression("key", &["item"]);
    let cursor_only = block.flag("cursorOnly", false);
    let next = block.template("next", AFTER_PAGE);
    let more = block.expression("more", AFTER_PAGE);
    let lookback = block.duration_within("lookback", (Millis(1), LOOKBACK_MAX), Code::BadDuration);
    let start = block.present("start").and_then(|entry| {
        let value = entry.value.to_json();
        block.keep("start", value.clone());
        Json::parse(&value.to_string()).ok()
    });
    check_identity(block, cursor_only);
    let own = PollTrigger {
        every: every?,
        request: request?,
        items: items?,
        key,
        next,
        more,
        lookback,
        start,
    };
    Some(TriggerKind::Poll(Box::new(own)))
}

/// An item is known by its key, or because it is behind the cursor.
fn check_identity(block: &mut Block<'_, '_, '_>, cursor_only: bool) {
    let [key, flag, next, lookback] =
        ["key", "cursorOnly", "next", "lookback"].map(|name| block.present(name));
    let span = block.span.clone();
    let faults = &mut *block.context.faults;
    match (key, flag.filter(|_| cursor_only)) {
        (None, None) => {
            let message = "a poll needs `key`, by which an item is known when it is read again";
            let hint = "write `key: item.id`, or `cursorOnly: true` if the cursor leaves out what was read";
            faults.error(Code::MissingKey, &span, message).hint(hint);
        }
        (Some(_), Some(flag)) => {
            let message = "`cursorOnly` says that items have no key, and there is a `key`";
            faults.error(Code::BadValue, &flag.key_span, message).hint("take one of them out");
        }
        (None, Some(flag)) if next.is_none() => {
            let message = "with `cursorOnly`, a poll needs `next`: every page would be new";
            let hint = "write `next: { since: \"${{ item.id }}\" }`";
            faults.error(Code::MissingField, &flag.key_span, message).hint(hint);
        }
        (None, Some(_)) => {
            if let Some(lookback) = lookback {
                let message =
                    "`lookback` reads items again, which only a `key` tells from new ones";
                faults
                    .error(Code::MissingKey, &lookback.key_span, message)
                    .hint("write `key: item.id`");
            }
        }
        (Some(_), None) => {}
    }
}

/// The config of an `api-call`, checked as one.
fn page_request<'t>(block: &mut Block<'t, '_, '_>, entry: &'t TreeEntry) -> Option<Template> {
    let fields = fields::map("`request`", &entry.value, block.context.faults)?;
    for name in NOT_FOR_PAGES {
        if let Some(field) = tree::find(fields, name) {
            let message = format!("`{name}` is not allowed in the `request` of a poll");
            block.context.faults.error(Code::BadValue, &field.key_span, message);
        }
    }
    let value = entry.value.to_json();
    let Some(kind) = block.context.catalog.find("api-call") else {
        block.keep("request", value);
        return block.compiled(&entry.value, REQUEST);
    };
    let read = config::read(kind, &entry.key_span, Some(entry), block.context);
    block.add_expressions(read.expressions.into_iter().map(|mut located| {
        let sees = if located.place == ExpressionUse::Config { REQUEST } else { RESPONSE };
        located.place = ExpressionUse::Trigger(sees);
        located
    }));
    block.keep("request", value);
    match read.behaviour {
        Some(Behaviour::Task { config, .. }) => Some(config),
        _ => None,
    }
}
