//! Signals by key: who waits for them, and what waits for a wait. Each side commits its row and looks for the
//! other's after that. One at a time routes a topic, so that a signal goes to each wait once, in order.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::limits::PUBLISHED_PER_KEY_MAX;
use waypost_core::published::{PublishedSignal, WaitRef};
use waypost_core::time::Millis;
use waypost_ports::store::{
    Append, Mail, MailDelivery, Publication, Published, Subscription, signal_mail,
};

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{from_stored, get, text, text_or_none};
use crate::{blob_refs, mail};

/// Topics that are routed in one transaction, which locks each of them.
const TOPICS_MAX: usize = 500;
/// Expired signals that one statement deletes.
const EXPIRED_MAX: i64 = 10_000;

/// Inside of a transaction: the changes that come with frames that went in.
pub(crate) async fn change(db: &mut Connection, appends: &[&Append]) -> Result<()> {
    let (mut opened, mut closed) = (Waits::default(), Waits::default());
    let mut topics: Vec<&[u8]> = Vec::new();
    let (mut hungry, mut messages): (Vec<i64>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for append in appends {
        let Some(of) = &append.side.topics else { continue };
        let execution = append.header.execution;
        for Subscription { wait, name } in &of.opened {
            opened.push(execution, *wait);
            topics.push(name.as_bytes());
        }
        for wait in &of.closed {
            closed.push(execution, *wait);
        }
        for message in append.side.consumed.iter().filter(|_| !of.open.is_empty()) {
            hungry.push(execution.0);
            messages.push(message.as_bytes());
        }
    }
    unsubscribe(db, &closed).await?;
    subscribe(db, &opened, &topics).await?;
    if !hungry.is_empty() {
        db.execute(sql!("subscriptions_hungry"), &[&hungry, &messages]).await?;
    }
    let published: Vec<&PublishedSignal> = appends
        .iter()
        .filter_map(|append| append.side.topics.as_ref())
        .flat_map(|topics| &topics.published)
        .collect();
    if !published.is_empty() {
        insert(db, &published, None, false).await?;
    }
    Ok(())
}

/// Publishes a signal from outside.
pub(crate) async fn publish(db: &mut Connection, publication: &Publication) -> Result<Published> {
    let Publication { signal, actor } = publication;
    if is_full(db, signal).await? {
        // They may be kept no longer: the sweep that forgets them comes once in a while.
        forget_expired(db).await?;
        if is_full(db, signal).await? {
            return Ok(Published::Full);
        }
    }
    if insert(db, &[signal], actor.as_deref(), true).await? == 0 {
        return Ok(Published::Duplicate);
    }
    let mail = route(db, &BTreeSet::from([&signal.name])).await?;
    let executions: Vec<i64> = mail.iter().map(|mail| mail.execution.0).collect();
    let read = |row: &Row| Ok((get(row, 0)?, get::<Option<Uuid>>(row, 1)?.map(InstanceId)));
    let owners: HashMap<i64, _> =
        db.query_map(sql!("control_owners"), &[&executions], read).await?;
    let owned =
        |execution: i64| (ExecutionNo(execution), owners.get(&execution).copied().flatten());
    Ok(Published::Accepted { receivers: executions.into_iter().map(owned).collect() })
}

/// Do as many signals of this name wait as may, without this one?
async fn is_full(db: &mut Connection, signal: &PublishedSignal) -> Result<bool> {
    let most = i64::try_from(PUBLISHED_PER_KEY_MAX).unwrap_or(i64::MAX);
    let params: Params<'_> = &[&signal.name.as_bytes(), &signal.message.as_bytes(), &most];
    Ok(get::<i64>(&db.query_one(sql!("published_count"), params).await?, 0)? >= most)
}

async fn forget_expired(db: &mut Connection) -> Result<()> {
    db.execute(sql!("published_expire"), &[&EXPIRED_MAX]).await.map(drop)
}

async fn insert(
    db: &mut Connection,
    signals: &[&PublishedSignal],
    actor: Option<&str>,
    from_outside: bool,
) -> Result<u64> {
    let topics: Vec<&[u8]> = signals.iter().map(|signal| signal.name.as_bytes()).collect();
    let messages: Vec<&[u8]> = signals.iter().map(|signal| signal.message.as_bytes()).collect();
    let bodies: Vec<&[u8]> = signals.iter().map(|signal| signal.body.text().as_bytes()).collect();
    let keep = |signal: &&PublishedSignal| i64::try_from(signal.keep.0).unwrap_or(i64::MAX / 2);
    let keeps: Vec<i64> = signals.iter().map(keep).collect();
    let actor = actor.map(str::as_bytes);
    let params: Params<'_> = &[&topics, &messages, &actor, &bodies, &keeps, &from_outside];
    db.execute(sql!("published_insert"), params).await
}

/// Sends the next signal of each of these topics to those who wait for it, and wakes them. Returns what was
/// sent.
pub(crate) async fn route(db: &mut Connection, names: &BTreeSet<&Arc<str>>) -> Result<Vec<Mail>> {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let mut sent = Vec::new();
    for topics in names.chunks(TOPICS_MAX) {
        sent.extend(route_some(db, topics).await?);
    }
    Ok(sent)
}

async fn route_some(db: &mut Connection, topics: &[&[u8]]) -> Result<Vec<Mail>> {
    db.begin().await?;
    db.execute(sql!("topics_lock"), &[&topics]).await?;
    let read = |row: &Row| {
        let (execution, body) = (ExecutionNo(get(row, 0)?), get::<&[u8]>(row, 4)?);
        let body = std::str::from_utf8(body).ok().and_then(|body| Json::parse_own(body).ok());
        let body = body.ok_or_else(|| DbError::Corrupt("a signal cannot be read".to_owned()))?;
        let (name, message, keep) = (text(row, 1)?, text(row, 2)?, Millis(0));
        let signal = PublishedSignal { name, message, body, keep };
        Ok(signal_mail(execution, &signal, text_or_none(row, 3)?))
    };
    let mail: Vec<Mail> = db.query_map(sql!("topics_route"), &[&topics], read).await?;
    if mail.is_empty() {
        db.commit().await?;
        return Ok(mail);
    }
    let deliveries = mail::put(db, &mail).await?;
    let put = mail.into_iter().zip(deliveries);
    let put = put.filter(|(_, delivery)| matches!(delivery, MailDelivery::Accepted { .. }));
    let mail: Vec<Mail> = put.map(|(mail, _)| mail).collect();
    blob_refs::insert(db, mail.iter().map(|mail| (mail.execution, &mail.blobs[..]))).await?;
    db.commit().await?;
    mail::wake(db, &mail).await?;
    Ok(mail)
}

/// The owners of executions that signals of these names are on their way to.
pub(crate) async fn owners(db: &mut Connection, names: &[Arc<str>]) -> Result<Vec<InstanceId>> {
    let topics: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    db.query_map(sql!("signal_owners"), &[&topics], |row| get(row, 0).map(InstanceId)).await
}

/// The executions that wait for signals with names between these bounds.
pub(crate) async fn subscribed(
    db: &mut Connection,
    between: &[Range<String>],
) -> Result<Vec<(ExecutionNo, Arc<str>)>> {
    let low: Vec<&[u8]> = between.iter().map(|range| range.start.as_bytes()).collect();
    let high: Vec<&[u8]> = between.iter().map(|range| range.end.as_bytes()).collect();
    let read = |row: &Row| Ok((ExecutionNo(get(row, 0)?), text(row, 1)?));
    db.query_map(sql!("subscribed"), &[&low, &high], read).await
}

/// Routes what was left behind by processes that died before they did, then forgets what is kept no longer.
pub(crate) async fn sweep(db: &mut Connection) -> Result<()> {
    let most = i64::try_from(TOPICS_MAX).unwrap_or(i64::MAX);
    let topics: Vec<Arc<str>> =
        db.query_map(sql!("topics_sweep"), &[&most], |row| text(row, 0)).await?;
    if !topics.is_empty() {
        route(db, &topics.iter().collect()).await?;
    }
    forget_expired(db).await
}

/// A wait in the columns of `subscriptions_load`.
pub(crate) fn read(row: &Row) -> Result<(ExecutionNo, Subscription)> {
    let which = u32::try_from(get::<i32>(row, 2)?).unwrap_or(u32::MAX);
    let wait = WaitRef { wait: from_stored(get(row, 1)?), which };
    Ok((ExecutionNo(get(row, 0)?), Subscription { wait, name: text(row, 3)? }))
}

/// Inside of a transaction: repairs the rows of an execution. What is on its way to one that stays is left.
pub(crate) async fn replace(
    db: &mut Connection,
    execution: ExecutionNo,
    all: &[Subscription],
) -> Result<()> {
    let found: Vec<(ExecutionNo, Subscription)> =
        db.query_map(sql!("subscriptions_load"), &[&vec![execution.0]], read).await?;
    let mut closed = Waits::default();
    for (_, subscription) in found.iter().filter(|(_, found)| !all.contains(found)) {
        closed.push(execution, subscription.wait);
    }
    unsubscribe(db, &closed).await?;
    let mut opened = Waits::default();
    all.iter().for_each(|subscription| opened.push(execution, subscription.wait));
    let names: Vec<&[u8]> = all.iter().map(|subscription| subscription.name.as_bytes()).collect();
    subscribe(db, &opened, &names).await
}

async fn unsubscribe(db: &mut Connection, closed: &Waits) -> Result<()> {
    if !closed.executions.is_empty() {
        let params: Params<'_> = &[&closed.executions, &closed.waits, &closed.which];
        db.execute(sql!("subscriptions_delete"), params).await?;
    }
    Ok(())
}

async fn subscribe(db: &mut Connection, opened: &Waits, names: &[&[u8]]) -> Result<()> {
    if !opened.executions.is_empty() {
        let params: Params<'_> = &[&opened.executions, &opened.waits, &opened.which, &names];
        db.execute(sql!("subscriptions_insert"), params).await?;
    }
    Ok(())
}

/// Waits, in columns.
#[derive(Default)]
struct Waits {
    executions: Vec<i64>,
    waits: Vec<i64>,
    which: Vec<i32>,
}

impl Waits {
    fn push(&mut self, execution: ExecutionNo, wait: WaitRef) {
        self.executions.push(execution.0);
        self.waits.push(i64::try_from(wait.wait).unwrap_or(i64::MAX));
        self.which.push(i32::try_from(wait.which).unwrap_or(i32::MAX));
    }
}
