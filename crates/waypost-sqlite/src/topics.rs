//! Signals by key: who waits for them, and what waits for a wait. There is one writer at a time, so that both
//! sides find each other in the transaction of the second.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::published::{PublishedSignal, WaitRef};
use waypost_core::time::Millis;
use waypost_ports::store::{
    Mail, MailDelivery, Publication, Published, Subscription, Topics, signal_mail,
};

use crate::connection::{all, first, from_stored, run, to_stored};
use crate::store::Write;
use crate::{mail, queries};

/// The changes that come with a frame.
pub(crate) fn change(
    write: &Write<'_>,
    header: &FrameHeader,
    (changes, consumed): (&Topics, &[MessageId]),
) -> rusqlite::Result<()> {
    let Topics { opened, closed, open, published } = changes;
    let execution = header.execution;
    closed.iter().try_for_each(|wait| unsubscribe(write, execution, *wait))?;
    opened.iter().try_for_each(|subscription| subscribe(write, execution, subscription))?;
    for message in consumed.iter().filter(|_| !open.is_empty()) {
        run(&write.tx, queries::SUBSCRIPTION_HUNGRY, params![execution.0, &**message])?;
    }
    for signal in published {
        insert(write, signal, None, false)?;
    }
    let names: BTreeSet<_> = changes.names().collect();
    for name in names {
        route(write, name)?;
    }
    Ok(())
}

/// Publishes a signal from outside.
pub(crate) fn publish(
    write: &Write<'_>,
    Publication { signal, actor }: &Publication,
) -> rusqlite::Result<Published> {
    if !insert(write, signal, actor.as_deref(), true)? {
        return Ok(Published::Duplicate);
    }
    let mail = route(write, &signal.name)?;
    let receivers = mail.into_iter().filter_map(|(mail, delivery)| match delivery {
        MailDelivery::Accepted { owner } => Some((mail.execution, owner)),
        MailDelivery::Duplicate | MailDelivery::Ended | MailDelivery::Unknown => None,
    });
    Ok(Published::Accepted { receivers: receivers.collect() })
}

/// Returns false if its message is known.
fn insert(
    write: &Write<'_>,
    signal: &PublishedSignal,
    actor: Option<&str>,
    from_outside: bool,
) -> rusqlite::Result<bool> {
    run(&write.tx, queries::PUBLISHED_EXPIRE, [write.now.0])?;
    let PublishedSignal { name, message, body, keep } = signal;
    let expires_at = write.now.plus(*keep).0;
    let row = params![&**name, &**message, actor, body.text(), expires_at, from_outside];
    Ok(run(&write.tx, queries::PUBLISHED_INSERT, row)? == 1)
}

/// Sends the oldest signal of a topic to the waits for it that nothing is on its way to.
fn route(write: &Write<'_>, name: &Arc<str>) -> rusqlite::Result<Vec<(Mail, MailDelivery)>> {
    let next = (&**name, write.now.0);
    let next = first(&write.tx, queries::PUBLISHED_NEXT, next, |row| {
        let (id, outside): (i64, bool) = (row.get(0)?, row.get(4)?);
        let actor = row.get_ref(2)?.as_str_or_null()?.map(Arc::from);
        Ok((id, outside, actor, signal(row, name)?))
    })?;
    let Some((id, from_outside, actor, signal)) = next else { return Ok(Vec::new()) };
    let fed = params![&**name, &*signal.message];
    let receivers: Vec<i64> = all(&write.tx, queries::SUBSCRIPTIONS_FEED, fed, |row| row.get(0))?;
    let receivers: BTreeSet<i64> = receivers.into_iter().collect();
    if receivers.is_empty() {
        return Ok(Vec::new());
    }
    let gone = if from_outside { queries::PUBLISHED_TAKEN } else { queries::PUBLISHED_DELETE };
    run(&write.tx, gone, [id])?;
    let receivers = receivers.into_iter().map(ExecutionNo);
    let mail: Vec<Mail> = receivers.map(|to| signal_mail(to, &signal, actor.clone())).collect();
    let deliveries = mail::deliver(write, &mail)?;
    Ok(mail.into_iter().zip(deliveries).collect())
}

fn signal(row: &Row<'_>, name: &Arc<str>) -> rusqlite::Result<PublishedSignal> {
    let body = Json::parse_own(row.get_ref(3)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, Box::new(error))
    })?;
    let message = row.get_ref(1)?.as_str()?.into();
    Ok(PublishedSignal { name: Arc::clone(name), message, body, keep: Millis(0) })
}

/// The waits for signals by key that an execution has.
pub(crate) fn of_execution(
    connection: &Connection,
    execution: ExecutionNo,
) -> rusqlite::Result<Vec<Subscription>> {
    all(connection, queries::SUBSCRIPTIONS_OF_EXECUTION, [execution.0], |row| {
        let wait = WaitRef { wait: from_stored(row.get(0)?), which: row.get(1)? };
        Ok(Subscription { wait, name: row.get_ref(2)?.as_str()?.into() })
    })
}

/// Repairs the rows of an execution; what is on its way to one that stays is left.
pub(crate) fn replace(
    write: &Write<'_>,
    execution: ExecutionNo,
    all: &[Subscription],
) -> rusqlite::Result<()> {
    for found in of_execution(&write.tx, execution)? {
        if !all.contains(&found) {
            unsubscribe(write, execution, found.wait)?;
        }
    }
    all.iter().try_for_each(|subscription| subscribe(write, execution, subscription))
}

fn subscribe(
    write: &Write<'_>,
    execution: ExecutionNo,
    Subscription { wait, name }: &Subscription,
) -> rusqlite::Result<()> {
    let row = params![execution.0, to_stored(wait.wait)?, wait.which, &**name];
    run(&write.tx, queries::SUBSCRIPTION_INSERT, row).map(drop)
}

fn unsubscribe(write: &Write<'_>, execution: ExecutionNo, wait: WaitRef) -> rusqlite::Result<()> {
    let row = params![execution.0, to_stored(wait.wait)?, wait.which];
    run(&write.tx, queries::SUBSCRIPTION_DELETE, row).map(drop)
}
