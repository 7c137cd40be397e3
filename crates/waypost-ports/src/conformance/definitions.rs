//! Lists of definitions.

use waypost_core::id::DefinitionHash;
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Rig, START, new_definition};
use crate::query::{DefinitionPage, DefinitionRow, DefinitionsRequest, Query};
use crate::store::{Defined, NewDefinition, Store};

/// Five versions of three workflows, one every ten milliseconds.
fn define_some<B: StoreUnderTest>(rig: &Rig<B>) {
    for (name, canonical) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", "4"), ("b", "5")] {
        rig.define(name, canonical);
        rig.advance(10);
    }
    rig.define("b", "3");
}

fn list<B: StoreUnderTest>(rig: &Rig<B>, request: &DefinitionsRequest) -> DefinitionPage {
    rig.store().definitions(request).expect("the list is answered")
}

fn versions(page: &DefinitionPage) -> Vec<(&str, u32)> {
    page.rows.iter().map(|row| (&*row.workflow, row.version)).collect()
}

pub fn the_newest_version_of_each_is_listed<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let all = DefinitionsRequest { limit: 10, ..DefinitionsRequest::default() };
    assert!(list(rig, &all).rows.is_empty());
    define_some(rig);
    rig.reopen();
    let page = list(rig, &all);
    assert_eq!((versions(&page), page.more), (vec![("a", 1), ("b", 3), ("c", 1)], false));
    let newest = DefinitionRow {
        workflow: "b".into(),
        version: 3,
        hash: DefinitionHash::of(b"5"),
        created_at: Some(Timestamp(START.0 + 40)),
        current: 2,
    };
    assert_eq!(page.rows[1], newest);
    let page = list(rig, &DefinitionsRequest { limit: 2, ..all.clone() });
    assert_eq!((versions(&page), page.more), (vec![("a", 1), ("b", 3)], true));
    let page = list(rig, &DefinitionsRequest { after: Some(("b".to_owned(), 3)), ..all.clone() });
    assert_eq!((versions(&page), page.more), (vec![("c", 1)], false));
    let page = list(rig, &DefinitionsRequest { after: Some(("c".to_owned(), 1)), ..all });
    assert!(page.rows.is_empty());
}

pub fn the_versions_of_one_are_listed<B: StoreUnderTest>(rig: &Rig<B>) {
    define_some(rig);
    let of_b = DefinitionsRequest { workflow: Some("b".to_owned()), after: None, limit: 2 };
    let page = list(rig, &of_b);
    assert_eq!((versions(&page), page.more), (vec![("b", 3), ("b", 2)], true));
    let page = list(rig, &DefinitionsRequest { after: Some(("b".to_owned(), 2)), ..of_b.clone() });
    assert_eq!((versions(&page), page.more), (vec![("b", 1)], false));
    assert_eq!(page.rows[0].created_at, Some(START));
    let unknown = DefinitionsRequest { workflow: Some("unknown".to_owned()), ..of_b };
    assert!(list(rig, &unknown).rows.is_empty());
}

fn current<B: StoreUnderTest>(rig: &Rig<B>, name: &str) -> Option<u32> {
    let row = rig.store().current(name).expect("it is answered")?;
    assert_eq!((&*row.workflow, row.version), (name, row.current));
    Some(row.version)
}

pub fn every_define_moves_the_current_version<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(current(rig, "a"), None);
    let outcome = |defined: Defined| {
        (defined.definition.version, defined.created, defined.previous, defined.current)
    };
    assert_eq!(outcome(rig.define("a", "1")), (1, true, None, 1));
    assert_eq!(outcome(rig.define("a", "2")), (2, true, Some(1), 2));
    rig.define("b", "3");
    assert_eq!(outcome(rig.define("a", "1")), (1, false, Some(2), 1), "known content, too");
    assert_eq!(outcome(rig.define("a", "1")), (1, false, Some(1), 1));
    rig.reopen();
    assert_eq!((current(rig, "a"), current(rig, "b")), (Some(1), Some(1)));
    assert_eq!(current(rig, "A"), None);
    assert_eq!(
        outcome(rig.define("a", "4")),
        (3, true, Some(1), 3),
        "the next number, not the next but one"
    );
    let of_a = DefinitionsRequest { workflow: Some("a".to_owned()), after: None, limit: 9 };
    assert!(list(rig, &of_a).rows.iter().all(|row| row.current == 3));
}

pub fn a_definition_may_be_kept_without_becoming_current<B: StoreUnderTest>(rig: &Rig<B>) {
    let keep = |canonical: &str| {
        let new = NewDefinition { make_current: false, ..new_definition("a", canonical) };
        let defined = rig.store().define(&new).expect("the definition is kept");
        (defined.definition.version, defined.created, defined.previous, defined.current)
    };
    assert_eq!(keep("1"), (1, true, None, 1), "there must be one");
    assert_eq!(keep("2"), (2, true, Some(1), 1));
    assert_eq!(keep("2"), (2, false, Some(1), 1));
    assert_eq!(current(rig, "a"), Some(1));
    assert_eq!(rig.define("a", "2").current, 2);
    assert_eq!(keep("1"), (1, false, Some(2), 2));
}

/// Each of them returns the version that was current before it: together they must form one
/// sequence.
pub fn defines_of_one_workflow_take_turns<B: StoreUnderTest>(rig: &Rig<B>) {
    const EACH: usize = 10;
    rig.define("a", "0");
    let mut moves: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let threads = ["1", "2", "3", "4"].map(|canonical| {
            let store = rig.store();
            scope.spawn(move || {
                let one = |_| {
                    let defined =
                        store.define(&new_definition("a", canonical)).expect("it is kept");
                    assert_eq!(defined.current, defined.definition.version);
                    (defined.previous.expect("there was one"), defined.current)
                };
                (0..EACH).map(one).collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("it ended")).collect()
    });
    moves.push((current(rig, "a").expect("there is one"), 1));
    for version in 1..=5 {
        let left = moves.iter().filter(|(before, _)| *before == version).count();
        let entered = moves.iter().filter(|(_, after)| *after == version).count();
        assert_eq!(left, entered, "version {version}: {moves:?}");
    }
}
