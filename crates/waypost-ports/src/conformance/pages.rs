//! Long logs and full inboxes, which are read in pages.

use waypost_core::frame::FrameHeader;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, mail, signal};
use crate::store::{
    Append, ControlChange, History, LOG_PAGE_BYTES, LogReader, MAIL_PAGE_MAX, Mail, MailOf, Store,
    StoreError, StoredFrame,
};

const MIB: usize = 1024 * 1024;

/// A frame of two events whose body has so many bytes.
fn large(hand: &mut Hand, bytes: usize) -> Append {
    let mut append = Append::from(hand.next(2));
    append.body.resize(bytes, b' ');
    append
}

fn bytes_of(frames: &[StoredFrame]) -> usize {
    frames.iter().map(|frame| frame.body.as_ref().map_or(0, Vec::len)).sum()
}

type Read = Result<Vec<StoredFrame>, StoreError>;

/// The headers and sizes of all frames that a reader returns.
fn read(log: LogReader<'_>) -> Vec<(FrameHeader, usize)> {
    let frames = log.collect::<Read>().expect("the log is read");
    let size = |frame: StoredFrame| (frame.header, frame.body.expect("it is intact").len());
    frames.into_iter().map(size).collect()
}

/// An execution with frames of these sizes, the `snapshot`-th of them with a snapshot.
fn write<B: StoreUnderTest>(
    rig: &Rig<B>,
    sizes: &[usize],
    snapshot: Option<usize>,
) -> (Hand, Vec<(FrameHeader, usize)>) {
    let mut hand = rig.start(ONE);
    let mut written: Vec<_> = read(LogReader::whole(rig.store(), hand.execution));
    for (number, size) in sizes.iter().enumerate() {
        let mut append = large(&mut hand, *size);
        append.side.snapshot = (snapshot == Some(number)).then(|| b"state".to_vec());
        written.push((append.header, append.body.len()));
        rig.commit(append);
    }
    (hand, written)
}

pub fn a_log_longer_than_a_page_is_read_whole_and_in_order<B: StoreUnderTest>(rig: &Rig<B>) {
    let sizes = [MIB, MIB + 1, 2 * MIB, 2 * MIB, 100, LOG_PAGE_BYTES + MIB, 100, 100];
    let (hand, written) = write(rig, &sizes, None);
    let mut history = rig.load(hand.execution);
    assert!(history.frames.len() > 1 && history.frames.len() < written.len());
    assert!(bytes_of(&history.frames) < LOG_PAGE_BYTES + 2 * MIB, "a page is bounded");
    assert_eq!(history.last, written.last().map(|(header, _)| *header));
    assert_eq!(read(history.whole_log(rig.store())), written);
    assert_eq!(read(history.take_log(rig.store())), written);
    assert_eq!(read(LogReader::whole(rig.store(), hand.execution)), written);
    // From every place, also within a frame that is larger than a page.
    for (number, (header, _)) in written.iter().enumerate() {
        let page = rig.store().load_after(hand.execution, header.last_seq).expect("it is read");
        let next = page.first().map(|frame| frame.header);
        assert_eq!(next, written.get(number + 1).map(|(header, _)| *header));
    }
    let nothing = rig.store().load_after(hand.execution, u64::MAX).expect("it is read");
    assert!(nothing.is_empty());
}

pub fn a_log_that_fits_a_page_has_no_other_end<B: StoreUnderTest>(rig: &Rig<B>) {
    let (hand, written) = write(rig, &[100, MIB], None);
    let mut history = rig.load(hand.execution);
    assert_eq!((history.frames.len(), history.last), (written.len(), None));
    assert_eq!(history.last_header(), written.last().map(|(header, _)| header));
    assert_eq!(read(history.take_log(rig.store())), written);
}

pub fn pages_end_where_the_log_ended_when_the_first_was_read<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut hand, written) = write(rig, &[3 * MIB, 3 * MIB, 100], None);
    let mut history = rig.load(hand.execution);
    rig.commit(large(&mut hand, 100));
    assert_eq!(read(history.whole_log(rig.store())), written);
    assert_eq!(read(history.take_log(rig.store())), written);
    assert_eq!(read(LogReader::whole(rig.store(), hand.execution)).len(), written.len() + 1);
}

pub fn pages_begin_with_the_snapshot<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut hand, mut written) = write(rig, &[3 * MIB, 3 * MIB, 100, 3 * MIB, 3 * MIB], Some(2));
    let parked = hand.next(1).control(ControlChange::Parked { next_due: Some(START) });
    written.push((parked.0.header, parked.0.body.len()));
    rig.commit(parked);
    let check = |mut history: History| {
        assert_eq!(history.snapshot.as_ref().map(|kept| kept.body.as_slice()), Some(&b"state"[..]));
        assert_eq!(history.last, written.last().map(|(header, _)| *header));
        assert_eq!(read(history.whole_log(rig.store())), written);
        assert_eq!(read(history.take_log(rig.store())), written[written.len() - 4..]);
    };
    check(rig.load(hand.execution));
    check(rig.claim(ONE).claimed.remove(0));
    let mut examined = rig.examine(hand.execution).history;
    assert!(examined.snapshot.is_some() && examined.frames.len() < written.len());
    assert_eq!(read(examined.take_log(rig.store())), written);
}

/// Frames on a claim's page are counted for each execution: a long log does not shorten another's.
pub fn every_claimed_log_has_its_own_page<B: StoreUnderTest>(rig: &Rig<B>) {
    let due = ControlChange::Parked { next_due: Some(START) };
    let mut logs = Vec::new();
    for sizes in [&[3 * MIB, 3 * MIB, 100][..], &[100, 100], &[3 * MIB, 2 * MIB, 100]] {
        let (mut hand, mut written) = write(rig, sizes, None);
        let parked = hand.next(1).control(due.clone());
        written.push((parked.0.header, parked.0.body.len()));
        rig.commit(parked);
        logs.push((hand.execution, written));
    }
    let claimed = rig.claim(ONE).claimed;
    assert_eq!(claimed.len(), logs.len());
    for mut history in claimed {
        let written = logs.iter().find(|(execution, _)| *execution == history.execution);
        assert_eq!(read(history.take_log(rig.store())), written.expect("it was written").1);
    }
}

pub fn mail_beyond_a_page_waits_and_is_read_in_the_end<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let other = rig.start(ONE);
    let count = 2 * MAIL_PAGE_MAX + 3;
    let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
    let sent: Vec<Mail> = names.iter().map(|name| mail(hand.execution, name, signal())).collect();
    rig.store().deliver(&sent).expect("the mail is answered");
    rig.send(other.execution, "m0", signal());
    let all = |limit| {
        rig.store().collect(MailOf::Execution(hand.execution), limit).expect("it is answered")
    };
    assert_eq!(all(usize::MAX), sent);
    assert_eq!(all(7), sent[..7]);
    for rest in [&sent[..], &sent[MAIL_PAGE_MAX..], &sent[2 * MAIL_PAGE_MAX..]] {
        // The page of a claim is that of a load.
        rig.commit(hand.next(1).control(ControlChange::Parked { next_due: Some(START) }));
        let histories = [rig.load(hand.execution), rig.claim(ONE).claimed.remove(0)];
        let page = &rest[..rest.len().min(MAIL_PAGE_MAX)];
        for history in &histories {
            assert_eq!(history.mail, page);
            assert_eq!(history.mail_waits, page.len() < rest.len());
        }
        hand = Hand::of(&histories[1]);
        let consumed: Vec<&str> = page.iter().map(|mail| &*mail.message).collect();
        rig.commit(hand.next(1).control(ControlChange::Owned).consuming(&consumed));
    }
    let history = rig.load(hand.execution);
    assert_eq!((history.mail.len(), history.mail_waits), (0, false));
    assert_eq!(rig.load(other.execution).mail.len(), 1);
}
