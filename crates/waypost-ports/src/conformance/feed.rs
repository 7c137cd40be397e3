//! The feed: every frame, in the order of commits.

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig};
use crate::query::{FEED_BYTES_MAX, FeedFrame, FeedPosition, FeedRequest, Query};
use crate::store::Appended;

fn feed<B: StoreUnderTest>(rig: &Rig<B>, after: FeedPosition, limit: usize) -> Vec<FeedFrame> {
    rig.store().feed(&FeedRequest { after, limit }).expect("the feed is answered")
}

fn end<B: StoreUnderTest>(rig: &Rig<B>) -> FeedPosition {
    rig.store().feed_end().expect("the end is answered")
}

fn bytes(page: &[FeedFrame]) -> usize {
    page.iter().map(|fed| fed.frame.body.as_ref().map_or(0, Vec::len)).sum()
}

/// A frame with so many bytes in it.
fn large(hand: &mut Hand, bytes: usize) -> Draft {
    let mut draft = hand.next(1);
    draft.0.body = format!("[{}]", " ".repeat(bytes - 2)).into_bytes();
    draft
}

pub fn the_feed_follows_the_order_of_commits<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(end(rig), FeedPosition::default());
    assert!(feed(rig, FeedPosition::default(), 10).is_empty());
    let (first, second) = (rig.number(ONE), rig.number(ONE));
    let mut later = Hand::new(second, ONE);
    rig.commit(later.create("later", "w"));
    let mut sooner = Hand::new(first, ONE);
    rig.commit(sooner.create("sooner", "w"));
    rig.append_all(&[later.next(2).into(), sooner.next(1).into(), later.next(1).into()]);
    let mut zombie = later.clone();
    rig.commit(later.next(1));
    assert_eq!(rig.append(zombie.next(1)), Appended::Fenced);
    rig.reopen();
    let fed = feed(rig, FeedPosition::default(), 10);
    let keys: Vec<_> = fed.iter().map(|fed| &*fed.key).collect();
    assert_eq!(keys, ["later", "sooner", "later", "sooner", "later", "later"]);
    assert!(fed.windows(2).all(|pair| pair[0].position < pair[1].position), "{fed:?}");
    assert_eq!(fed.last().map(|fed| fed.position), Some(end(rig)));
    for execution in [first, second] {
        let frames = rig.load(execution).frames;
        let of_it = fed.iter().filter(|fed| fed.frame.header.execution == execution);
        let of_it: Vec<_> =
            of_it.map(|fed| (fed.frame.header, fed.frame.at, &fed.frame.body)).collect();
        let loaded: Vec<_> = frames.iter().map(|f| (f.header, f.at, &f.body)).collect();
        assert_eq!(of_it, loaded, "as they are loaded");
    }
}

pub fn feed_continues_after_a_position<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    for _ in 0..4 {
        rig.commit(hand.next(1));
    }
    let seqs = |fed: &[FeedFrame]| -> Vec<u64> {
        fed.iter().map(|fed| fed.frame.header.first_seq).collect()
    };
    let page = feed(rig, FeedPosition::default(), 2);
    assert_eq!(seqs(&page), [1, 3]);
    assert_eq!(&*page[0].key, "", "it was given none");
    let page = feed(rig, page[1].position, 2);
    assert_eq!(seqs(&page), [4, 5]);
    let place = end(rig);
    assert!(feed(rig, place, 2).is_empty());
    assert!(feed(rig, FeedPosition(u64::MAX), usize::MAX).is_empty());
    assert!(feed(rig, FeedPosition::default(), 0).is_empty());
    rig.commit(hand.next(1));
    assert_eq!(seqs(&feed(rig, place, 2)), [7], "what commits later comes later");
}

pub fn pages_of_the_feed_are_bounded_by_bytes<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    for size in [FEED_BYTES_MAX / 2, FEED_BYTES_MAX / 2, 3 * FEED_BYTES_MAX, 100, 100] {
        rig.commit(large(&mut hand, size));
    }
    let (mut after, mut sizes) = (FeedPosition::default(), Vec::new());
    loop {
        let page = feed(rig, after, 100);
        let Some(last) = page.last() else { break };
        assert!(bytes(&page[..page.len() - 1]) < FEED_BYTES_MAX);
        after = last.position;
        sizes.push(page.len());
    }
    assert_eq!(sizes, [3, 1, 2]);
}
