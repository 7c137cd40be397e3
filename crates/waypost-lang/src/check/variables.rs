//! Variables: two writers of one name must have an order, or else the last one to finish wins by
//! chance.

use std::collections::BTreeMap;

use super::paths::Paths;
use crate::definition::Definition;
use crate::diagnostics::{Code, Fault, Faults, quoted};
use crate::source::Span;

pub(super) fn check(definition: &Definition<'_>, paths: &Paths<'_>, faults: &mut Faults) {
    let mut writers: BTreeMap<&str, Vec<(usize, &Span)>> = BTreeMap::new();
    for (at, node) in definition.nodes.iter().enumerate() {
        for variable in &node.variables {
            writers.entry(&variable.name).or_default().push((at, &variable.name_span));
        }
    }
    for (name, writers) in &writers {
        for (position, (later, span)) in writers.iter().enumerate() {
            let rival = writers
                .iter()
                .take(position)
                .map(|(at, _)| *at)
                .find(|earlier| compete(*earlier, *later, definition, paths));
            let Some(rival) = rival else { continue };
            let message = format!(
                "{} and {} both set {}, and neither comes after the other",
                quoted(&definition.nodes[rival].id),
                quoted(&definition.nodes[*later].id),
                quoted(name)
            );
            faults.add(
                Fault::error(Code::UnorderedWriters, (*span).clone(), message)
                    .hint("put one after the other, or write `merge: last` in both"),
            );
        }
    }
}

fn compete(a: usize, b: usize, definition: &Definition<'_>, paths: &Paths<'_>) -> bool {
    let merges = |at: usize| definition.nodes[at].merge_last;
    !(merges(a) && merges(b)
        || paths.is_upstream(a, b)
        || paths.is_upstream(b, a)
        || paths.is_incomplete(a)
        || paths.is_incomplete(b)
        || paths.exclude_each_other(a, b))
}
