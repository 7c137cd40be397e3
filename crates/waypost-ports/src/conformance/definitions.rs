//! Lists of definitions.

use waypost_core::id::DefinitionHash;
use waypost_core::time::Timestamp;

use super::Backend;
use super::rig::{Rig, START};
use crate::query::{DefinitionPage, DefinitionRow, DefinitionsRequest, Query};
use crate::store::{NewDefinition, Store};

fn define<B: Backend>(rig: &Rig<'_, B>, name: &str, canonical: &str) {
    let hash = DefinitionHash::of(canonical.as_bytes());
    let new = NewDefinition { name: name.into(), hash, canonical: canonical.into() };
    rig.store().define(&new).expect("the definition is kept");
}

/// Five versions of three workflows, one every ten milliseconds.
fn define_some<B: Backend>(rig: &Rig<'_, B>) {
    for (name, canonical) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", "4"), ("b", "5")] {
        define(rig, name, canonical);
        rig.advance(10);
    }
    define(rig, "b", "3");
}

fn list<B: Backend>(rig: &Rig<'_, B>, request: &DefinitionsRequest) -> DefinitionPage {
    rig.store().definitions(request).expect("the list is answered")
}

fn versions(page: &DefinitionPage) -> Vec<(&str, u32)> {
    page.rows.iter().map(|row| (&*row.workflow, row.version)).collect()
}

pub fn the_newest_version_of_each_is_listed<B: Backend>(backend: &B) {
    let mut rig = Rig::new(backend);
    let all = DefinitionsRequest { limit: 10, ..DefinitionsRequest::default() };
    assert!(list(&rig, &all).rows.is_empty());
    define_some(&rig);
    rig.reopen();
    let page = list(&rig, &all);
    assert_eq!((versions(&page), page.more), (vec![("a", 1), ("b", 3), ("c", 1)], false));
    let newest = DefinitionRow {
        workflow: "b".into(),
        version: 3,
        hash: DefinitionHash::of(b"5"),
        created_at: Some(Timestamp(START.0 + 40)),
    };
    assert_eq!(page.rows[1], newest);
    let latest = |name| rig.store().latest(name).expect("it is answered");
    assert_eq!(latest("b"), Some(newest));
    assert_eq!(latest("B"), None);
    let page = list(&rig, &DefinitionsRequest { limit: 2, ..all.clone() });
    assert_eq!((versions(&page), page.more), (vec![("a", 1), ("b", 3)], true));
    let page = list(&rig, &DefinitionsRequest { after: Some(("b".to_owned(), 3)), ..all.clone() });
    assert_eq!((versions(&page), page.more), (vec![("c", 1)], false));
    let page = list(&rig, &DefinitionsRequest { after: Some(("c".to_owned(), 1)), ..all });
    assert!(page.rows.is_empty());
}

pub fn the_versions_of_one_are_listed<B: Backend>(backend: &B) {
    let rig = Rig::new(backend);
    define_some(&rig);
    let of_b = DefinitionsRequest { workflow: Some("b".to_owned()), after: None, limit: 2 };
    let page = list(&rig, &of_b);
    assert_eq!((versions(&page), page.more), (vec![("b", 3), ("b", 2)], true));
    let page = list(&rig, &DefinitionsRequest { after: Some(("b".to_owned(), 2)), ..of_b.clone() });
    assert_eq!((versions(&page), page.more), (vec![("b", 1)], false));
    assert_eq!(page.rows[0].created_at, Some(START));
    let nobody = DefinitionsRequest { workflow: Some("nobody".to_owned()), ..of_b };
    assert!(list(&rig, &nobody).rows.is_empty());
}
