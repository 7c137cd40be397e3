//! Fires: first frames that begin with one, and items that start nothing.
//!
//! ```text
//!   BEGIN, fires_admit: locks, items ─▶ frames ─▶ items of frames that did not go in are deleted again
//!            │                                 cursors of those that did
//!            └─ not taken: the item is known, or the fire is stale; looked up after the commit
//! ```
//!
//! Parts without a fire only begin their transaction here.

use std::collections::{BTreeSet, HashSet};

use waypost_core::trigger::ItemDigest;
use waypost_ports::store::{Append, Appended, TakenName};
use waypost_ports::triggers::{
    Fire, FireOutcome, FireRow, GroupFence, LAST_FIRED_STEP, SettledFire, TriggerNo,
};

use super::{rows, windows};
use crate::append::Inserted;
use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::queries::sql;
use crate::text::{array, get, to_stored};

/// The fire that an execution begins with.
pub(crate) fn of(append: &Append) -> Option<&Fire> {
    let names = append.side.submission.as_ref().filter(|_| append.header.parent.is_none());
    names?.fire.as_deref()
}

/// What a statement has taken of the fires of some frames.
#[derive(Default)]
pub(crate) struct Admitted {
    /// The frames that may go in.
    pub(crate) entering: Vec<usize>,
    /// Executions whose fires were not taken.
    pub(crate) refused: HashSet<i64>,
    /// Triggers whose last fire was written down some time ago.
    overdue: BTreeSet<i64>,
}

/// Begins the transaction of frames, and takes the items of their fires. The locks that it takes keep the triggers
/// as they are until the commit.
pub(crate) async fn begin(
    db: &mut Connection,
    batch: &[Append],
    part: &[usize],
) -> Result<Admitted> {
    let mut items = FireColumns::default();
    for index in part {
        if let Some(fire) = of(&batch[*index]) {
            items.push(fire, batch[*index].header.execution.0)?;
        }
    }
    let mut admitted = Admitted { entering: part.to_vec(), ..Admitted::default() };
    if items.execution.is_empty() {
        db.begin().await?;
        return Ok(admitted);
    }
    let mut taken = HashSet::new();
    for row in items.take(db).await? {
        taken.extend(get::<Option<i64>>(&row, 0)?);
        admitted.overdue.extend(get::<Option<i64>>(&row, 1)?);
    }
    let refused = items.execution.iter().filter(|execution| !taken.contains(execution));
    admitted.refused = refused.copied().collect();
    admitted.entering.retain(|index| !admitted.refused.contains(&batch[*index].header.execution.0));
    Ok(admitted)
}

/// Inside of the transaction, after its frames: nothing stays of the fires of frames that did not go in, and the
/// others move their cursors and empty their groups.
pub(crate) async fn finish(
    db: &mut Connection,
    batch: &[Append],
    admitted: &Admitted,
    inserted: &Inserted,
) -> Result<()> {
    let fires = admitted.entering.iter().filter_map(|index| {
        let append = &batch[*index];
        Some((of(append)?, inserted.at.contains_key(&append.header.execution.0)))
    });
    let (went_in, refused): (Vec<_>, Vec<_>) = fires.partition(|(_, went_in)| *went_in);
    retract(db, refused.iter().map(|(fire, _)| (fire.at.trigger, fire.item))).await?;
    let (mut numbers, mut cursors, mut due) = (Vec::new(), Vec::new(), Vec::new());
    let (mut groups, mut fired) = (Vec::new(), BTreeSet::new());
    for (fire, _) in went_in {
        let trigger = fire.at.trigger;
        groups.extend(fire.group.as_ref().map(|group| (trigger, group)));
        fired.extend(admitted.overdue.get(&trigger.0));
        if let Some(advance) = &fire.advance {
            numbers.push(trigger.0);
            cursors.push(rows::written(&advance.cursor)?);
            due.push(advance.next_due.map(|at| at.0));
        }
    }
    if !groups.is_empty() {
        windows::delete(db, &groups, true).await?;
    }
    fired.retain(|trigger| !numbers.contains(trigger));
    if !fired.is_empty() {
        let fired: Vec<i64> = fired.into_iter().collect();
        let step = to_stored(LAST_FIRED_STEP.0)?;
        db.execute(sql!("triggers_fired"), &[&fired, &step]).await?;
    }
    if !numbers.is_empty() {
        db.execute(sql!("triggers_advance"), &[&numbers, &cursors, &due]).await?;
    }
    Ok(())
}

/// The outcomes of first frames whose fires were not taken, in order.
pub(crate) async fn outcomes(db: &mut Connection, refused: &[&Fire]) -> Result<Vec<Appended>> {
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<_> = refused.iter().map(|fire| (fire.at.trigger, fire.item)).collect();
    let outcome = |known: Option<FireRow>| match known {
        None => Appended::Stale,
        Some(FireRow { execution: Some(execution), .. }) => {
            Appended::Duplicate { execution, taken: TakenName::Item }
        }
        Some(row) => Appended::ItemSettled(row.outcome),
    };
    Ok(known(db, &items).await?.into_iter().map(outcome).collect())
}

/// Which of these items are known, in order.
pub(super) async fn known(
    db: &mut Connection,
    of: &[(TriggerNo, ItemDigest)],
) -> Result<Vec<Option<FireRow>>> {
    let triggers: Vec<i64> = of.iter().map(|(trigger, _)| trigger.0).collect();
    let items: Vec<&[u8]> = of.iter().map(|(_, item)| item.0.as_slice()).collect();
    let mut known = vec![None; of.len()];
    for row in db.query(sql!("fires_find"), &[&triggers, &items]).await? {
        let position = usize::try_from(get::<i64>(&row, 8)?).unwrap_or(0).saturating_sub(1);
        if let Some(place) = known.get_mut(position) {
            *place = Some(rows::fire(&row)?);
        }
    }
    Ok(known)
}

/// Deletes items that the transaction itself has inserted.
pub(super) async fn retract(
    db: &mut Connection,
    of: impl Iterator<Item = (TriggerNo, ItemDigest)>,
) -> Result<()> {
    let (triggers, items): (Vec<i64>, Vec<Vec<u8>>) =
        of.map(|(trigger, item)| (trigger.0, item.0.to_vec())).unzip();
    if !triggers.is_empty() {
        db.execute(sql!("fires_retract"), &[&triggers, &items]).await?;
    }
    Ok(())
}

/// Changes what became of known items of a trigger.
pub(super) async fn change(
    db: &mut Connection,
    trigger: TriggerNo,
    items: &[ItemDigest],
    outcome: FireOutcome,
    reason: &str,
) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let items: Vec<&[u8]> = items.iter().map(|item| item.0.as_slice()).collect();
    let outcome = i16::from(outcome.code());
    let params: Params<'_> = &[&trigger.0, &items, &outcome, &reason.as_bytes()];
    db.execute(sql!("fires_change"), params).await.map(drop)
}

/// Inside of a transaction: items that start nothing, and their dead letters. A known item stays as it is.
pub(super) async fn settle(
    db: &mut Connection,
    trigger: TriggerNo,
    fires: &[SettledFire],
) -> Result<()> {
    let mut settled = Settled::default();
    for fire in fires {
        let reason = fire.reason.as_ref().map(|reason| reason.as_bytes());
        settled.triggers.push(trigger.0);
        settled.items.push(&fire.item.0);
        settled.labels.push(fire.label.as_bytes());
        settled.nominal.push(fire.nominal.map(|at| at.0));
        settled.outcomes.push(fire.outcome.code().into());
        settled.reasons.push(reason);
    }
    let mut new = settled.insert(db).await?;
    // Of an item that is there twice, the first is the one that was stored.
    let dead = fires.iter().filter(|fire| new.remove(&(trigger, fire.item)));
    let dead = dead.filter_map(|fire| {
        let payload = &*fire.dead.as_ref()?.payload;
        Some((fire.item, &*fire.label, fire.reason.as_deref().unwrap_or_default(), payload))
    });
    bury(db, trigger, dead).await
}

/// Dead letters: their items, labels, reasons and payloads.
pub(super) async fn bury<'a>(
    db: &mut Connection,
    trigger: TriggerNo,
    dead: impl Iterator<Item = (ItemDigest, &'a str, &'a str, &'a str)>,
) -> Result<()> {
    let (mut items, mut labels) = (Vec::<Vec<u8>>::new(), Vec::<&[u8]>::new());
    let (mut reasons, mut payloads) = (Vec::<&[u8]>::new(), Vec::<&[u8]>::new());
    for (item, label, reason, payload) in dead {
        items.push(item.0.to_vec());
        labels.push(label.as_bytes());
        reasons.push(reason.as_bytes());
        payloads.push(payload.as_bytes());
    }
    if !items.is_empty() {
        let params: Params<'_> = &[&trigger.0, &items, &labels, &reasons, &payloads];
        db.execute(sql!("dead_fires_insert"), params).await?;
    }
    Ok(())
}

/// FireColumns that start nothing, as arrays.
#[derive(Default)]
pub(super) struct Settled<'a> {
    triggers: Vec<i64>,
    items: Vec<&'a [u8]>,
    labels: Vec<&'a [u8]>,
    nominal: Vec<Option<i64>>,
    outcomes: Vec<i16>,
    reasons: Vec<Option<&'a [u8]>>,
}

impl<'a> Settled<'a> {
    /// An event that waits in a window.
    pub(super) fn collect(&mut self, trigger: TriggerNo, item: &'a ItemDigest, label: &'a str) {
        self.triggers.push(trigger.0);
        self.items.push(&item.0);
        self.labels.push(label.as_bytes());
        self.nominal.push(None);
        self.outcomes.push(FireOutcome::Collected.code().into());
        self.reasons.push(None);
    }

    /// Returns those that were not known.
    pub(super) async fn insert(
        &self,
        db: &mut Connection,
    ) -> Result<HashSet<(TriggerNo, ItemDigest)>> {
        if self.items.is_empty() {
            return Ok(HashSet::new());
        }
        let Self { triggers, items, labels, nominal, outcomes, reasons } = self;
        let params: Params<'_> = &[triggers, items, labels, nominal, outcomes, reasons];
        db.query_map(sql!("fires_settle"), params, |row| {
            Ok((TriggerNo(get(row, 0)?), ItemDigest(array(row, 1)?)))
        })
        .await
    }
}

/// Fires of frames, as arrays.
#[derive(Default)]
struct FireColumns<'a> {
    trigger: Vec<i64>,
    item: Vec<&'a [u8]>,
    label: Vec<&'a [u8]>,
    nominal: Vec<Option<i64>>,
    revision: Vec<i64>,
    seq: Vec<Option<i64>>,
    execution: Vec<i64>,
    group_seq: Vec<Option<i64>>,
    group_key: Vec<Option<&'a [u8]>>,
}

impl<'a> FireColumns<'a> {
    fn push(&mut self, fire: &'a Fire, execution: i64) -> Result<()> {
        let advance = fire.advance.as_ref();
        let group = fire.group.as_ref();
        self.trigger.push(fire.at.trigger.0);
        self.item.push(&fire.item.0);
        self.label.push(fire.label.as_bytes());
        self.nominal.push(fire.nominal.map(|at| at.0));
        self.revision.push(to_stored(fire.at.revision)?);
        self.seq.push(advance.map(|advance| to_stored(advance.seq)).transpose()?);
        self.execution.push(execution);
        self.group_seq.push(group.map(|group: &GroupFence| to_stored(group.seq)).transpose()?);
        self.group_key.push(group.map(|group| group.group.as_bytes()));
        Ok(())
    }

    /// In the order of `fires_admit`.
    async fn take(&self, db: &mut Connection) -> Result<Vec<tokio_postgres::Row>> {
        let moves = self.trigger.iter().zip(&self.seq).filter(|(_, seq)| seq.is_some());
        let moving: BTreeSet<i64> = moves.map(|(trigger, _)| *trigger).collect();
        let standing: BTreeSet<i64> = self.trigger.iter().copied().collect();
        let standing: Vec<i64> = standing.difference(&moving).copied().collect();
        let moving: Vec<i64> = moving.into_iter().collect();
        let groups = self.trigger.iter().zip(&self.group_seq);
        let (of, seqs): (Vec<i64>, Vec<i64>) =
            groups.filter_map(|(trigger, seq)| Some((*trigger, (*seq)?))).unzip();
        let step = to_stored(LAST_FIRED_STEP.0)?;
        let Self { trigger, item, label, nominal, revision, seq, execution, .. } = self;
        let params: Params<'_> = &[
            trigger,
            item,
            label,
            nominal,
            revision,
            seq,
            execution,
            &self.group_seq,
            &self.group_key,
            &moving,
            &standing,
            &of,
            &seqs,
            &step,
        ];
        db.begin_with(sql!("fires_admit"), params).await
    }
}
