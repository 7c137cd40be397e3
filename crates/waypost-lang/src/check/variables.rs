//! Variables: two writers of one name must have an order, or else the last one to finish wins by
//! chance.

use std::collections::BTreeMap;

use super::paths::Paths;
use super::scopes::Scopes;
use crate::definition::ParsedDefinition;
use crate::diagnostics::{Code, Faults, quoted};
use crate::source::Span;

/// Writers of one variable that are compared with each other, pair by pair.
const WRITERS_MAX: usize = 1_000;

/// The nodes that set a variable, and where.
type Writers<'d> = Vec<(usize, &'d Span)>;

pub(super) fn check(
    definition: &ParsedDefinition<'_>,
    scopes: &Scopes<'_>,
    paths: &Paths<'_>,
    faults: &mut Faults,
) {
    // Variables of an item are not those outside of its map.
    let mut writers: BTreeMap<(&str, Option<usize>), Writers<'_>> = BTreeMap::new();
    for (at, node) in definition.nodes.iter().enumerate() {
        for variable in &node.variables {
            let scope = (variable.name.as_str(), scopes.map_around(at));
            writers.entry(scope).or_default().push((at, &variable.name_span));
        }
    }
    for ((name, map), inside) in &writers {
        let Some(map) = map else { continue };
        let outside = std::iter::successors(Some(scopes.map_around(*map)), |outer| {
            outer.map(|outer| scopes.map_around(outer))
        });
        for outer in outside {
            let Some((rival, _)) = writers.get(&(*name, outer)).and_then(|all| all.first()) else {
                continue;
            };
            for (at, span) in inside {
                let message = format!(
                    "{} sets {} in an item of {}, and {} sets it outside: variables of an item \
                     stay in the item",
                    quoted(&definition.nodes[*at].id),
                    quoted(name),
                    quoted(&definition.nodes[*map].id),
                    quoted(&definition.nodes[*rival].id)
                );
                let hint = "use another name; what the items give is in the map's output";
                faults.error(Code::UnorderedWriters, span, message).hint(hint);
            }
        }
    }
    for ((name, _), writers) in &writers {
        if writers.len() > WRITERS_MAX {
            refuse_too_many(name, writers, definition, faults);
            continue;
        }
        for (position, (later, span)) in writers.iter().enumerate() {
            let rival = writers
                .iter()
                .take(position)
                .map(|(at, _)| *at)
                .find(|earlier| compete(*earlier, *later, scopes, paths));
            let Some(rival) = rival else { continue };
            let message = format!(
                "{} and {} both set {}, and neither comes after the other",
                quoted(&definition.nodes[rival].id),
                quoted(&definition.nodes[*later].id),
                quoted(name)
            );
            let hint = "put one after the other, or write `merge: last` in both";
            faults.error(Code::UnorderedWriters, span, message).hint(hint);
        }
    }
}

fn refuse_too_many(
    name: &str,
    writers: &[(usize, &Span)],
    definition: &ParsedDefinition<'_>,
    faults: &mut Faults,
) {
    let careless = writers.iter().find(|(at, _)| !definition.nodes[*at].merge_last);
    if let Some((_, span)) = careless {
        let message = format!("{} nodes set {}, too many to order", writers.len(), quoted(name));
        let hint = "write `merge: last` in all of them";
        faults.error(Code::UnorderedWriters, span, message).hint(hint);
    }
}

/// Writers in different scopes are compared where their containers meet: bodies of groups and loops
/// set the variables of the scope around them.
fn compete(a: usize, b: usize, scopes: &Scopes<'_>, paths: &Paths<'_>) -> bool {
    let merges = scopes.node(a).merge_last && scopes.node(b).merge_last;
    let (a, b) = scopes.meet(a, b);
    // A container sets its own variables when its body has ended.
    !(a == b
        || merges
        || paths.is_upstream(a, b)
        || paths.is_upstream(b, a)
        || paths.is_incomplete(a)
        || paths.is_incomplete(b)
        || paths.exclude_each_other(a, b))
}
