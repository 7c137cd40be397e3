//! Releasing memory after a burst: a collection keeps its largest capacity unless it is shrunk.

/// Room for fewer items than this is not worth giving back.
const ROOM_MIN: usize = 1_024;

/// The room to keep, where a collection has far more than it needs.
pub(crate) fn room_to_keep(len: usize, capacity: usize) -> Option<usize> {
    (capacity > ROOM_MIN && len < capacity / 8).then_some(len.saturating_mul(2).max(ROOM_MIN / 2))
}

/// Allocates a large piece and frees it again. An allocator that retains freed memory for a while,
/// in case it is needed again, reviews it when pieces of this size come and go; without any
/// activity, it retains it for ever.
pub(crate) fn release_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
}

/// Shrinks collections that have far more room than they need.
macro_rules! shrink {
    ($($collection:expr),+ $(,)?) => {
        $(if let Some(room) = $crate::room::room_to_keep($collection.len(), $collection.capacity()) {
            $collection.shrink_to(room);
        })+
    };
}

pub(crate) use shrink;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn collection_after_a_burst_gives_its_room_back() {
        let mut map: HashMap<u32, u32> = (0..50_000).map(|n| (n, n)).collect();
        shrink!(map);
        assert!(map.capacity() >= 50_000, "it is full");
        map.retain(|n, _| *n < 10);
        shrink!(map);
        assert!(map.capacity() < 2 * ROOM_MIN, "{}", map.capacity());
        let small = map.capacity();
        shrink!(map);
        assert_eq!((map.capacity(), map.len()), (small, 10), "and once is enough");
    }
}
