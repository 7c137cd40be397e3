//! Which frames of a batch share a statement.

use std::collections::HashMap;

use waypost_core::id::ExecutionNo;
use waypost_core::outbox::are_awaited;
use waypost_core::trigger::ItemDigest;
use waypost_ports::store::{Append, Appended, Side};
use waypost_ports::triggers::TriggerNo;

use super::rows;
use crate::triggers::fires;

/// Frames in one statement. Their places share 16 bits, and arrays of this length fill a round trip.
const FRAMES_MAX: usize = 2_000;

/// Bytes of bodies in one statement, beyond which it gets company no more.
const BYTES_MAX: usize = 16 << 20;

/// Frames by their positions in the batch, each execution, each name and each concurrency key at
/// most once in a round: of two frames with one name, the first in the batch gets it. The order is
/// preserved: it is that of their places in the feed. The statements ensure the order of locks.
pub(super) fn rounds(batch: &[Append], outcomes: &mut [Option<Appended>]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut next_of_execution: HashMap<ExecutionNo, usize> = HashMap::with_capacity(batch.len());
    let mut next_of_claim: HashMap<Claim<'_>, usize> = HashMap::new();
    for (index, append) in batch.iter().enumerate() {
        if let Err(error) = rows::check(append) {
            outcomes[index] = Some(Appended::Poisoned { reason: error.to_string() });
            continue;
        }
        let of_execution = next_of_execution.entry(append.header.execution).or_default();
        let of_claims = claims(append).filter_map(|claim| next_of_claim.get(&claim).copied());
        let round = of_claims.max().unwrap_or_default().max(*of_execution);
        *of_execution = round + 1;
        next_of_claim.extend(claims(append).map(|claim| (claim, round + 1)));
        if rounds.len() <= round {
            rounds.resize_with(round + 1, Vec::new);
        }
        rounds[round].push(index);
    }
    rounds
}

/// A resource that two frames of one statement must not both claim.
#[derive(PartialEq, Eq, Hash)]
enum Claim<'a> {
    Key(&'a str),
    Idempotency(&'a str),
    Permit(&'a str),
    Item(TriggerNo, ItemDigest),
    /// The cursor of a trigger.
    Cursor(TriggerNo),
    Group(TriggerNo, u64),
}

fn claims(append: &Append) -> impl Iterator<Item = Claim<'_>> {
    let names = append.side.submission.as_ref();
    let key = names.map(|names| Claim::Key(names.key.as_str()));
    let idempotency = names.and_then(|names| names.idempotency.as_ref());
    let idempotency = idempotency.map(|idempotency| Claim::Idempotency(&idempotency.key));
    let permit = append.side.permit.as_ref().map(|permit| Claim::Permit(&permit.key));
    let fire = fires::of(append);
    let item = fire.map(|fire| Claim::Item(fire.at.trigger, fire.item));
    let moving = fire.filter(|fire| fire.advance.is_some());
    let cursor = moving.map(|fire| Claim::Cursor(fire.at.trigger));
    let group = fire.and_then(|fire| Some(Claim::Group(fire.at.trigger, fire.group.as_ref()?.seq)));
    [key, idempotency, permit, item, cursor, group].into_iter().flatten()
}

/// A round in statements of bounded size; frames that want permits, name blobs, or come with births or mail
/// apart from the others, since they need a transaction.
pub(super) fn parts(batch: &[Append], round: &[usize]) -> Vec<Vec<usize>> {
    let (permits, others): (Vec<usize>, Vec<usize>) =
        round.iter().partition(|index| batch[**index].side.permit.is_some());
    let (in_transaction, others): (Vec<usize>, Vec<usize>) =
        others.into_iter().partition(|index| needs_transaction(&batch[*index].side));
    let mut parts = Vec::new();
    for kind in [others, in_transaction, permits] {
        let (mut part, mut frames, mut bytes) = (Vec::new(), 0, 0);
        for index in kind {
            let Append { body, side, .. } = &batch[index];
            let born: usize = side.births.iter().map(|birth| birth.body.len()).sum();
            let more = body.len() + born + side.snapshot.as_ref().map_or(0, Vec::len);
            let more_frames = 1 + side.births.len();
            if frames > 0 && (frames + more_frames > FRAMES_MAX || bytes + more > BYTES_MAX) {
                parts.push(std::mem::take(&mut part));
                (frames, bytes) = (0, 0);
            }
            part.push(index);
            frames += more_frames;
            bytes += more;
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

/// Does the frame have rows that further statements write, in one transaction with it?
pub(super) fn needs_transaction(side: &Side) -> bool {
    !side.blobs.is_empty()
        || !side.births.is_empty()
        || !side.mail.is_empty()
        || side.topics.is_some()
        || are_awaited(&side.messages)
        || side.submission.as_ref().is_some_and(|names| names.fire.is_some())
}
