//! Signals by key: who waits for them, and what waits for a wait. There is one writer at a time, so that both
//! sides find each other in the transaction of the second.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use uuid::Uuid;
use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::limits::PUBLISHED_PER_KEY_MAX;
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
    if is_full(write, signal)? {
        forget_expired(write)?;
        if is_full(write, signal)? {
            return Ok(Published::Full);
        }
    }
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

/// Do as many signals of this name wait as may, without this one?
fn is_full(write: &Write<'_>, signal: &PublishedSignal) -> rusqlite::Result<bool> {
    let most = to_stored(PUBLISHED_PER_KEY_MAX)?;
    let params = (&*signal.name, &*signal.message, most);
    let count = first(&write.tx, queries::PUBLISHED_COUNT, params, |row| row.get(0))?;
    Ok(count >= Some(most))
}

fn forget_expired(write: &Write<'_>) -> rusqlite::Result<()> {
    run(&write.tx, queries::PUBLISHED_EXPIRE, [write.now.0]).map(drop)
}

/// Returns false if its message is known.
fn insert(
    write: &Write<'_>,
    signal: &PublishedSignal,
    actor: Option<&str>,
    from_outside: bool,
) -> rusqlite::Result<bool> {
    forget_expired(write)?;
    let PublishedSignal { name, message, body, keep } = signal;
    let (now, expires_at) = (write.now.0, write.now.plus(*keep).0);
    let row = params![&**name, &**message, actor, body.text(), expires_at, from_outside, now];
    Ok(run(&write.tx, queries::PUBLISHED_INSERT, row)? == 1)
}

struct PublishedRow {
    id: i64,
    signal: PublishedSignal,
    actor: Option<Arc<str>>,
    /// Does it stay to recognise a repetition?
    from_outside: bool,
    is_kept: bool,
    /// It is for waits that began no later than this.
    before: i64,
    /// Its place among the signals of its topic that were given to a wait; if it is new, the one that it would
    /// have.
    turn: i64,
    is_new: bool,
}

/// Each wait for a topic that nothing is on its way to gets its next signal: one that others have got already,
/// in their order, or else the oldest that nothing has got.
fn route(write: &Write<'_>, name: &Arc<str>) -> rusqlite::Result<Vec<(Mail, MailDelivery)>> {
    let mut sent = Vec::new();
    let read = |row: &Row<'_>| read(write, name, row);
    let mut turn = 0;
    while let Some(row) = first(&write.tx, queries::PUBLISHED_GIVEN, (&**name, turn), read)? {
        turn = row.turn;
        give(write, &row, &mut sent)?;
    }
    let mut id = 0;
    while let Some(row) = first(&write.tx, queries::PUBLISHED_NEXT, (&**name, id), read)? {
        id = row.id;
        give(write, &row, &mut sent)?;
        // One that is kept was for all who still wanted one.
        if row.is_kept {
            break;
        }
    }
    Ok(sent)
}

/// Gives a signal to those who may have it. It is gone when no other is to get it.
fn give(
    write: &Write<'_>,
    row: &PublishedRow,
    sent: &mut Vec<(Mail, MailDelivery)>,
) -> rusqlite::Result<()> {
    let PublishedRow { id, signal, turn, before, .. } = row;
    let fed = params![&*signal.name, &*signal.message, turn, before];
    let receivers: Vec<i64> = all(&write.tx, queries::SUBSCRIPTIONS_FEED, fed, |row| row.get(0))?;
    let receivers: BTreeSet<i64> = receivers.into_iter().collect();
    if receivers.is_empty() && row.is_new {
        return Ok(());
    }
    let is_lacking = || {
        let lack = params![&*signal.name, turn, before];
        first(&write.tx, queries::SUBSCRIPTIONS_LACK, lack, |_| Ok(())).map(|found| found.is_some())
    };
    if is_lacking()? {
        for to in &receivers {
            run(&write.tx, queries::SUBSCRIPTIONS_PASS, params![&*signal.name, to, turn])?;
        }
    }
    match (is_lacking()?, row.from_outside) {
        (true, _) => run(&write.tx, queries::PUBLISHED_TURN, [id, turn])?,
        (false, true) => run(&write.tx, queries::PUBLISHED_TAKEN, [id])?,
        (false, false) => run(&write.tx, queries::PUBLISHED_DELETE, [id])?,
    };
    let mail =
        receivers.into_iter().map(|to| signal_mail(ExecutionNo(to), signal, row.actor.clone()));
    let mail: Vec<Mail> = mail.collect();
    let deliveries = mail::deliver(write, &mail)?;
    sent.extend(mail.into_iter().zip(deliveries));
    Ok(())
}

fn read(write: &Write<'_>, name: &Arc<str>, row: &Row<'_>) -> rusqlite::Result<PublishedRow> {
    let body = Json::parse_own(row.get_ref(3)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, Box::new(error))
    })?;
    let message = row.get_ref(1)?.as_str()?.into();
    let is_kept = write.now.0 < row.get(5)?;
    Ok(PublishedRow {
        id: row.get(0)?,
        signal: PublishedSignal { name: Arc::clone(name), message, body, keep: Millis(0) },
        actor: row.get_ref(2)?.as_str_or_null()?.map(Arc::from),
        from_outside: row.get(4)?,
        before: if is_kept { i64::MAX } else { row.get(6)? },
        is_kept,
        turn: row.get(7)?,
        is_new: row.get(8)?,
    })
}

/// The owners of executions that signals of these names are on their way to.
pub(crate) fn owners(
    connection: &Connection,
    names: &[Arc<str>],
) -> rusqlite::Result<Vec<InstanceId>> {
    let mut owners = BTreeSet::new();
    for name in names {
        let read = |row: &Row<'_>| Ok(InstanceId(Uuid::from_bytes(row.get(0)?)));
        owners.extend(all(connection, queries::SIGNAL_OWNERS, [&**name], read)?);
    }
    Ok(owners.into_iter().collect())
}

/// The executions that wait for signals with names between these bounds.
pub(crate) fn subscribed(
    connection: &Connection,
    between: &[Range<String>],
) -> rusqlite::Result<Vec<(ExecutionNo, Arc<str>)>> {
    let read = |row: &Row<'_>| Ok((ExecutionNo(row.get(0)?), row.get_ref(1)?.as_str()?.into()));
    let mut found = BTreeSet::new();
    for Range { start, end } in between {
        found.extend(all(connection, queries::SUBSCRIBED, [start, end], read)?);
    }
    Ok(found.into_iter().collect())
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
    let row = params![execution.0, to_stored(wait.wait)?, wait.which, &**name, write.now.0];
    run(&write.tx, queries::SUBSCRIPTION_INSERT, row).map(drop)
}

fn unsubscribe(write: &Write<'_>, execution: ExecutionNo, wait: WaitRef) -> rusqlite::Result<()> {
    let row = params![execution.0, to_stored(wait.wait)?, wait.which];
    run(&write.tx, queries::SUBSCRIPTION_DELETE, row).map(drop)
}
