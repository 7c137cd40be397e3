//! API keys and the audit log, as the store in memory keeps them.

use super::MemoryStore;
use crate::access::{Access, AuditEntry, AuditPage, AuditRequest, KeyRow, NewKey};
use crate::store::StoreError;

impl Access for MemoryStore {
    fn add_key(&self, key: &NewKey) -> Result<(), StoreError> {
        self.with(|data, now| {
            if data.api_keys.iter().any(|row| row.key.id == key.id) {
                return Err(StoreError::Refused(format!(
                    "there is a key of id {} already",
                    key.id
                )));
            }
            data.api_keys.push(KeyRow { key: key.clone(), created_at: now, revoked_at: None });
            Ok(())
        })
    }

    fn keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.with(|data, _| Ok(data.api_keys.clone()))
    }

    fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|data, now| {
            let found = data.api_keys.iter_mut().find(|row| *row.key.id == *id);
            let revoked = found.map(|row| row.revoked_at.get_or_insert(now));
            Ok(revoked.is_some())
        })
    }

    fn record(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        self.with(|data, _| {
            data.audit.extend_from_slice(entries);
            Ok(())
        })
    }

    fn audit(&self, request: &AuditRequest) -> Result<AuditPage, StoreError> {
        self.with(|data, _| {
            let places = 1..=data.audit.len() as u64;
            let mut rows: Vec<_> = places
                .zip(data.audit.iter().cloned())
                .filter(|(place, _)| request.before.is_none_or(|before| *place < before))
                .filter(|(_, entry)| {
                    request.actor.as_deref().is_none_or(|who| *entry.actor == *who)
                })
                .collect();
            rows.reverse();
            let more = rows.len() > request.limit;
            rows.truncate(request.limit);
            Ok(AuditPage { rows, more })
        })
    }
}
