//! The inbox. There is one writer at a time, so a sender and a parking owner cannot miss each
//! other: the second to commit sees the first one's row.

use rusqlite::{Connection, Row, params};
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::store::{Mail, MailDelivery, MailOf};

use crate::connection::{all, first, run};
use crate::store::Write;
use crate::{blob_refs, queries};

/// Puts mail into inboxes and wakes who listens.
pub(crate) fn deliver(write: &Write<'_>, mail: &[Mail]) -> rusqlite::Result<Vec<MailDelivery>> {
    mail.iter().map(|mail| deliver_one(write, mail)).collect()
}

fn deliver_one(write: &Write<'_>, mail: &Mail) -> rusqlite::Result<MailDelivery> {
    let execution = mail.execution.0;
    let row = first(&write.tx, queries::CONTROL_LOAD, [execution], |row| owner(row, 0))?;
    let Some(owner) = row else {
        let mut frame = write.tx.prepare_cached(queries::FRAME_FIND)?;
        return Ok(match frame.exists([execution, 1])? {
            true => MailDelivery::Ended,
            false => MailDelivery::Unknown,
        });
    };
    let urgency = mail.body.urgency() as u8;
    let body = serde_json::to_string(&mail.body)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let row = params![execution, &*mail.message, mail.actor.as_deref(), urgency, body];
    if run(&write.tx, queries::MAIL_INSERT, row)? == 0 {
        return Ok(MailDelivery::Duplicate);
    }
    blob_refs::insert(write, mail.execution, &mail.blobs)?;
    run(&write.tx, queries::CONTROL_WAKE, params![execution, urgency])?;
    Ok(MailDelivery::Accepted { owner })
}

/// The mail of one execution, or of everything that an instance owns.
pub(crate) fn collect(
    connection: &Connection,
    of: MailOf,
    limit: usize,
) -> rusqlite::Result<Vec<Mail>> {
    let mut collect = connection.prepare_cached(match of {
        MailOf::Execution(_) => queries::MAIL_LOAD,
        MailOf::Owner(..) => queries::MAIL_COLLECT,
    })?;
    let mut asked = limit;
    loop {
        let mut rows = match of {
            MailOf::Execution(execution) => collect.query(params![execution.0, most(asked)])?,
            MailOf::Owner(owner, share) => {
                let (of, at) = share.modulo().unzip();
                collect.query(params![owner.0.as_bytes().as_slice(), most(asked), of, at])?
            }
        };
        let (mut found, mut readable) = (0, Vec::new());
        while let Some(row) = rows.next()? {
            found += 1;
            match read(row) {
                Ok(mail) => readable.push(mail),
                // Other executions' mail must not wait for it. The row stays, and the next instance
                // that claims its execution quarantines it.
                Err(error) => {
                    let execution: i64 = row.get(0)?;
                    tracing::warn!(execution, %error, "could not read mail");
                }
            }
        }
        // Fewer rows than the limit mean that there are no more: unreadable ones count as rows.
        if found < asked || readable.len() >= limit {
            readable.truncate(limit);
            return Ok(readable);
        }
        asked = asked.saturating_mul(2);
    }
}

/// The oldest mail of one execution. Fails where one of them cannot be read.
pub(crate) fn load(
    connection: &Connection,
    execution: ExecutionNo,
    limit: usize,
) -> rusqlite::Result<Vec<Mail>> {
    all(connection, queries::MAIL_LOAD, [execution.0, most(limit)], read)
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// An instance's id in a column, where there is one.
pub(crate) fn owner(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<InstanceId>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    Ok(bytes.map(|bytes| InstanceId(Uuid::from_bytes(bytes))))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Mail> {
    let (message, actor): (String, Option<String>) = (row.get(1)?, row.get(2)?);
    let body = serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(Mail {
        execution: ExecutionNo(row.get(0)?),
        message: message.into(),
        actor: actor.map(Into::into),
        body,
        blobs: Vec::new(),
    })
}
