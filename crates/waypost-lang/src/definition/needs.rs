//! A node's edges: what it needs, and how they join.

use waypost_core::plan::Join;

use super::Need;
use crate::diagnostics::{Code, Faults};
use crate::fields;
use crate::tree::{Tree, TreeValue};

/// `needs: a`, `needs: [a, { node: b, branch: "true" }]`, `needs: { node: b, branch: "true" }`.
/// Returns the edges, and whether all that are there could be read.
pub(super) fn read(tree: &Tree, faults: &mut Faults) -> (Vec<Need>, bool) {
    let items = tree.as_list().unwrap_or(std::slice::from_ref(tree));
    let needs: Vec<Need> = items.iter().filter_map(|item| read_one(item, faults)).collect();
    let all = needs.len() == items.len();
    (needs, all)
}

fn read_one(tree: &Tree, faults: &mut Faults) -> Option<Need> {
    let (node, branch) = match &tree.value {
        TreeValue::Text { .. } => (tree, None),
        TreeValue::Map(entries) => {
            fields::refuse_unknown(entries, &["node", "branch"], "an edge", faults);
            let Some(node) = fields::present(entries, "node") else {
                let message = "an edge needs `node`, the id of the node it comes from";
                faults.error(Code::MissingField, &tree.span, message);
                return None;
            };
            (&node.value, fields::present(entries, "branch"))
        }
        _ => {
            fields::wrong_type("an entry of `needs`", "the id of a node", tree, faults)
                .hint("write `needs: [a]` or `needs: [{ node: a, branch: \"true\" }]`");
            return None;
        }
    };
    Some(Need {
        node: fields::text("`node`", node, faults)?.to_owned(),
        node_span: node.span.clone(),
        branch: branch.and_then(|entry| fields::word("`branch`", &entry.value, faults)),
        branch_span: branch.map_or(0..0, |entry| entry.value.span.clone()),
    })
}

/// `all`, `any`, a number, or `{ count: …, cancelRest: … }`.
pub(super) fn read_join(tree: &Tree, faults: &mut Faults) -> Option<Join> {
    let TreeValue::Map(entries) = &tree.value else { return read_count(tree, faults) };
    fields::refuse_unknown(entries, &["count", "cancelRest"], "`join`", faults);
    let cancel = fields::present(entries, "cancelRest");
    let cancel_rest = fields::get(entries, "cancelRest", faults, fields::boolean) == Some(true);
    let Some(count) = fields::present(entries, "count") else {
        let hint = "`count` is `any`, `all` or a number";
        faults.error(Code::MissingField, &tree.span, "`join` needs a `count`").hint(hint);
        return None;
    };
    let join = read_count(&count.value, faults)?;
    match (join, cancel.filter(|_| cancel_rest)) {
        (Join::All, Some(entry)) => {
            let message = "`cancelRest` has no use with `all`: no node is left to cancel";
            let hint = "use it with `count: any` or a number";
            faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
            None
        }
        (Join::Count { count, .. }, _) => Some(Join::Count { count, cancel_rest }),
        (Join::All, None) => Some(Join::All),
    }
}

fn read_count(tree: &Tree, faults: &mut Faults) -> Option<Join> {
    let count = match &tree.value {
        TreeValue::Number(_) => fields::whole(1..=u32::MAX)("`join`", tree, faults)?,
        TreeValue::Text { .. } => match fields::one_of(&["all", "any"])("`join`", tree, faults)? {
            "all" => return Some(Join::All),
            _ => 1,
        },
        _ => {
            fields::wrong_type("`join`", "`all`, `any` or a whole number", tree, faults);
            return None;
        }
    };
    Some(Join::Count { count, cancel_rest: false })
}
