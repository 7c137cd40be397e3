//! Messages that nodes wait for: what became of them is mail.

use waypost_core::id::ExecutionNo;
use waypost_ports::outbox::{AwaitedResult, frame_mark};
use waypost_ports::store::{Append, Mail};

use super::rows;
use crate::connection::Connection;
use crate::error::Result;
use crate::mail;
use crate::queries::sql;
use crate::text::to_stored;

/// Keeps which messages of frames that went in are awaited by their nodes. Inside of a transaction.
pub(crate) async fn await_results(db: &mut Connection, went_in: &[&Append]) -> Result<()> {
    let (mut executions, mut seqs, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for append in went_in {
        for message in append.side.messages.iter().filter(|message| message.awaited) {
            executions.push(append.header.execution.0);
            seqs.push(to_stored(message.seq)?);
            marks.push(i64::from(frame_mark(append.header.append_id.0)));
        }
    }
    if executions.is_empty() {
        return Ok(());
    }
    db.execute(sql!("awaited_add"), &[&executions, &seqs, &marks]).await?;
    // Where no endpoint gets the message, that is the result. The executions are woken after the commit.
    put_results(db, Some(&executions)).await.map(drop)
}

/// Mails what became of the messages that nodes wait for. Inside of a transaction; to be woken after it.
pub(super) async fn put_results(db: &mut Connection, of: Option<&Vec<i64>>) -> Result<Vec<Mail>> {
    let settled: Vec<AwaitedResult> =
        db.query_map(sql!("awaited_settled"), &[&of], rows::awaited).await?;
    let sent: Vec<Mail> = settled.iter().map(AwaitedResult::mail).collect();
    if !sent.is_empty() {
        mail::put(db, &sent).await?;
    }
    Ok(sent)
}

/// Wakes the executions that got results, and returns them.
pub(super) async fn wake_for_results(
    db: &mut Connection,
    sent: &[Mail],
) -> Result<Vec<ExecutionNo>> {
    if !sent.is_empty() {
        mail::wake(db, sent).await?;
    }
    Ok(sent.iter().map(|mail| mail.execution).collect())
}
