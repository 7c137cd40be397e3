//! API keys, and the audit log of who did what.

use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Rig, START};
use crate::access::{Access, AuditEntry, AuditPage, AuditRequest, KeyRow, NewKey, Role};
use crate::store::StoreError;

fn key(id: &str, role: Role) -> NewKey {
    NewKey { id: id.into(), name: format!("the key {id}").into(), role, digest: [7; 32] }
}

fn add<B: StoreUnderTest>(rig: &Rig<B>, key: &NewKey) {
    rig.store().add_key(key).expect("the key is kept");
}

fn keys<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<KeyRow> {
    rig.store().keys().expect("the keys are answered")
}

fn entry(actor: &str, action: &str, status: u16) -> AuditEntry {
    AuditEntry {
        at: START,
        actor: actor.into(),
        address: "10.0.0.1".into(),
        action: action.into(),
        subject: Some("order-1".into()),
        status,
    }
}

fn record<B: StoreUnderTest>(rig: &Rig<B>, entries: &[AuditEntry]) {
    rig.store().record(entries).expect("the audit log is extended");
}

fn audit<B: StoreUnderTest>(rig: &Rig<B>, request: &AuditRequest) -> AuditPage {
    rig.store().audit(request).expect("the audit log is answered")
}

fn actions(page: &AuditPage) -> Vec<&str> {
    page.rows.iter().map(|(_, entry)| &*entry.action).collect()
}

pub fn keys_are_kept_exactly_and_in_order<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(keys(rig), []);
    let roles = ["z", "a", "m", "b", "c"].into_iter().zip(Role::ALL);
    let mut all: Vec<NewKey> = roles.map(|(id, role)| key(id, role)).collect();
    for (number, key) in (0..).zip(&mut all) {
        key.digest = [number; 32];
        add(rig, key);
        rig.advance(10);
    }
    rig.reopen();
    let row = |(created_at, key)| KeyRow { key, created_at, revoked_at: None };
    let times = (0..).map(|number| Timestamp(START.0 + 10 * number));
    assert_eq!(keys(rig), times.zip(all).map(row).collect::<Vec<_>>());
}

pub fn the_id_of_a_key_is_given_once<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &key("one", Role::Viewer));
    rig.store().revoke_key("one").expect("it is answered");
    let before = keys(rig);
    let again = rig.store().add_key(&key("one", Role::Admin));
    assert!(matches!(again, Err(StoreError::Refused(_))), "{again:?}");
    assert_eq!(keys(rig), before);
}

pub fn a_revoked_key_keeps_its_first_time<B: StoreUnderTest>(rig: &mut Rig<B>) {
    add(rig, &key("one", Role::Admin));
    add(rig, &key("two", Role::Worker));
    let revoke = |rig: &Rig<B>, id| rig.store().revoke_key(id).expect("it is answered");
    rig.advance(10);
    assert!(revoke(rig, "one"));
    rig.advance(10);
    assert!(revoke(rig, "one"), "it is there, if worth nothing");
    assert!(!revoke(rig, "three"));
    rig.reopen();
    let revoked: Vec<_> = keys(rig).into_iter().map(|row| row.revoked_at).collect();
    assert_eq!(revoked, [Some(Timestamp(START.0 + 10)), None]);
}

pub fn the_audit_log_is_kept_exactly_and_in_order<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let all = AuditRequest { limit: 10, ..AuditRequest::default() };
    assert!(audit(rig, &all).rows.is_empty());
    let first = entry("local", "start", 201);
    let second =
        AuditEntry { at: Timestamp(START.0 - 5), subject: None, ..entry("k", "list", 403) };
    let third = entry("local", "cancel", 202);
    record(rig, &[first.clone(), second.clone()]);
    record(rig, &[]);
    rig.reopen();
    record(rig, std::slice::from_ref(&third));
    let page = audit(rig, &all);
    assert!(!page.more);
    assert!(page.rows.windows(2).all(|pair| pair[0].0 > pair[1].0), "{page:?}");
    let entries: Vec<_> = page.rows.into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(entries, [third, second, first], "as they came, whatever their clocks say");
}

pub fn the_audit_log_is_filtered_and_paged<B: StoreUnderTest>(rig: &Rig<B>) {
    let actors = ["ann", "bob", "ann", "bob", "ann"];
    let entries: Vec<_> = actors
        .into_iter()
        .zip(["a", "b", "c", "d", "e"])
        .map(|(actor, action)| entry(actor, action, 200))
        .collect();
    record(rig, &entries);
    let two = AuditRequest { limit: 2, ..AuditRequest::default() };
    let page = audit(rig, &two);
    assert_eq!((actions(&page), page.more), (vec!["e", "d"], true));
    let before = page.rows.last().map(|(place, _)| *place);
    let page = audit(rig, &AuditRequest { before, limit: 3, ..two.clone() });
    assert_eq!((actions(&page), page.more), (vec!["c", "b", "a"], false));
    let ann = AuditRequest { actor: Some("ann".to_owned()), ..two };
    let page = audit(rig, &ann);
    assert_eq!((actions(&page), page.more), (vec!["e", "c"], true));
    let before = page.rows.last().map(|(place, _)| *place);
    let page = audit(rig, &AuditRequest { before, ..ann.clone() });
    assert_eq!((actions(&page), page.more), (vec!["a"], false));
    let unknown = AuditRequest { actor: Some("eve".to_owned()), ..ann };
    assert!(audit(rig, &unknown).rows.is_empty());
    let everything = AuditRequest { before: Some(u64::MAX), limit: usize::MAX, actor: None };
    assert_eq!(audit(rig, &everything).rows.len(), 5);
}
