//! The inbox. A sender inserts mail, commits, and then makes the addressee ready if it is unowned.
//! A parking owner parks, commits, and then checks for mail. The second to commit sees the other's
//! row, so no wake-up is lost.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::store::{Mail, MailDelivery, MailOf};

use crate::blob_refs;
use crate::connection::Connection;
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{get, limit, text, text_or_none};

/// Puts mail into inboxes and makes ready who listens.
pub(crate) async fn deliver(db: &mut Connection, mail: &[Mail]) -> Result<Vec<MailDelivery>> {
    if mail.is_empty() {
        return Ok(Vec::new());
    }
    let mut deliveries = match mail.iter().all(|mail| mail.blobs.is_empty()) {
        true => put(db, mail).await?,
        false => put_with_blobs(db, mail).await?,
    };
    let executions = |are: fn(&MailDelivery) -> bool| -> Vec<i64> {
        let put = mail.iter().zip(&deliveries).filter(|(_, delivery)| are(delivery));
        put.map(|(mail, _)| mail.execution.0).collect()
    };
    // An end that was under way when earlier mail came may not have seen it: it goes now.
    let mut ended = executions(|delivery| *delivery == MailDelivery::Ended);
    let accepted = executions(|delivery| matches!(delivery, MailDelivery::Accepted { .. }));
    if accepted.is_empty() && ended.is_empty() {
        return Ok(deliveries);
    }
    db.execute(sql!("control_wake"), &[&accepted]).await?;
    let read = |row: &Row| Ok((get(row, 0)?, get::<Option<Uuid>>(row, 1)?.map(InstanceId)));
    let owners: HashMap<i64, _> = db.query_map(sql!("control_owners"), &[&accepted], read).await?;
    for (mail, delivery) in mail.iter().zip(&mut deliveries) {
        let MailDelivery::Accepted { owner } = delivery else { continue };
        match owners.get(&mail.execution.0) {
            Some(now) => *owner = *now,
            // It has ended meanwhile. The log shows whether it took this mail.
            None => {
                ended.push(mail.execution.0);
                *delivery = MailDelivery::Ended;
            }
        }
    }
    if !ended.is_empty() {
        db.execute(sql!("mail_discard"), &[&ended]).await?;
    }
    Ok(deliveries)
}

/// As `put`, in one transaction with the blobs that the mail names.
async fn put_with_blobs(db: &mut Connection, mail: &[Mail]) -> Result<Vec<MailDelivery>> {
    db.begin().await?;
    let deliveries = put(db, mail).await?;
    let accepted = mail
        .iter()
        .zip(&deliveries)
        .filter(|(_, delivery)| matches!(delivery, MailDelivery::Accepted { .. }));
    let named = accepted.map(|(mail, _)| (mail.execution, &mail.blobs[..]));
    blob_refs::insert(db, named).await?;
    db.commit().await?;
    Ok(deliveries)
}

/// The second half alone: makes ready who listens to mail that is there.
pub(crate) async fn wake(db: &mut Connection, mail: &[Mail]) -> Result<()> {
    let executions: Vec<i64> = mail.iter().map(|mail| mail.execution.0).collect();
    db.execute(sql!("control_wake"), &[&executions]).await?;
    Ok(())
}

/// The first half: the mail is durable where it was accepted.
pub(crate) async fn put(db: &mut Connection, mail: &[Mail]) -> Result<Vec<MailDelivery>> {
    let executions: Vec<i64> = mail.iter().map(|mail| mail.execution.0).collect();
    let urgencies: Vec<i16> = mail.iter().map(|mail| mail.body.urgency() as i16).collect();
    let messages: Vec<&[u8]> = mail.iter().map(|mail| mail.message.as_bytes()).collect();
    let actors: Vec<Option<&[u8]>> =
        mail.iter().map(|mail| mail.actor.as_ref().map(|actor| actor.as_bytes())).collect();
    let bodies = mail
        .iter()
        .map(|mail| serde_json::to_vec(&mail.body))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| DbError::Data(error.to_string()))?;
    let rows = db
        .query(sql!("mail_insert"), &[&executions, &urgencies, &messages, &actors, &bodies])
        .await?;
    let mut went_in: HashSet<(i64, Vec<u8>)> = HashSet::new();
    let mut refusals = vec![MailDelivery::Duplicate; mail.len()];
    for row in &rows {
        let Some(position) = get::<Option<i64>>(row, 0)? else {
            went_in.insert((get(row, 3)?, get(row, 4)?));
            continue;
        };
        let refusal = match (get::<Option<bool>>(row, 1)?, get::<Option<bool>>(row, 2)?) {
            (Some(true), _) => MailDelivery::Duplicate,
            (_, Some(true)) => MailDelivery::Ended,
            _ => MailDelivery::Unknown,
        };
        let position = usize::try_from(position).unwrap_or(0).saturating_sub(1);
        refusals.get_mut(position).into_iter().for_each(|place| *place = refusal.clone());
    }
    let deliveries = mail.iter().zip(refusals).map(|(mail, refusal)| {
        // Only the first of two equal ones went in.
        match went_in.remove(&(mail.execution.0, mail.message.as_bytes().to_vec())) {
            true => MailDelivery::Accepted { owner: None },
            false => refusal,
        }
    });
    Ok(deliveries.collect())
}

/// The mail of one execution, or of everything that an instance owns.
pub(crate) async fn collect(db: &mut Connection, of: MailOf, most: usize) -> Result<Vec<Mail>> {
    let mut asked = most;
    loop {
        let rows = match of {
            MailOf::Execution(execution) => {
                db.query(sql!("mail_load"), &[&vec![execution.0], &limit(asked)]).await?
            }
            MailOf::Owner(owner, share) => {
                let (of, at) = share.modulo().unzip();
                db.query(sql!("mail_collect"), &[&owner.0, &limit(asked), &of, &at]).await?
            }
        };
        let mut readable = Vec::with_capacity(rows.len());
        for row in &rows {
            match read(row) {
                Ok(mail) => readable.push(mail),
                // Other executions' mail must not wait for it. The row stays, and the next instance
                // that claims its execution quarantines it.
                Err(error) => {
                    tracing::warn!(execution = get::<i64>(row, 0)?, %error, "could not read mail");
                }
            }
        }
        // Fewer rows than the limit mean that there are no more: unreadable ones count as rows.
        if rows.len() < asked || readable.len() >= most {
            readable.truncate(most);
            return Ok(readable);
        }
        asked = asked.saturating_mul(2);
    }
}

/// A piece of mail in the columns of `mail_load`.
pub(crate) fn read(row: &Row) -> Result<Mail> {
    let body: &[u8] = get(row, 3)?;
    let body = serde_json::from_slice(body)
        .map_err(|error| DbError::Corrupt(format!("mail cannot be read: {error}")))?;
    Ok(Mail {
        execution: ExecutionNo(get(row, 0)?),
        message: text(row, 1)?,
        actor: text_or_none(row, 2)?,
        body,
        blobs: Vec::new(),
    })
}
