//! Reproducible random numbers: splitmix64, and streams split off by name.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The seed it began with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A stream of its own for one consumer. It depends on the seed and the label alone, not on how
    /// much has been drawn: a consumer that draws more than before does not disturb the others.
    #[must_use]
    pub fn split(&self, label: &str) -> Self {
        // FNV-1a: short, and good enough in front of the mixing below.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(mix(mix(self.seed) ^ hash))
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless stream is no iterator to collect"
    )]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below a bound; 0 where the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits has 64")
    }

    /// A number between two, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A position in something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).expect("a length has at most 64 bits");
        usize::try_from(self.below(bound)).expect("it is below a usize")
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.below(100) < u64::from(chance)
    }

    /// One of these.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        from.get(self.index(from.len())).expect("there must be something to pick from")
    }
}

/// The finaliser of splitmix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_stream_every_time() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // The reference values of splitmix64 with seed 0.
        assert_eq!(draw(0)[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn split_streams_do_not_depend_on_earlier_draws() {
        let mut random = Random::new(3);
        let before = random.split("faults").next();
        random.next();
        assert_eq!(random.split("faults").next(), before);
        assert_ne!(random.split("workload").next(), before);
        assert_ne!(Random::new(4).split("faults").next(), before);
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 6)).collect();
        assert!((3..=6).all(|wanted| drawn.contains(&wanted)));
        assert!(drawn.iter().all(|found| (3..=6).contains(found)));
        assert_eq!(random.below(0), 0);
        assert!(!random.percent(0) && random.percent(100));
        let heads = (0..1000).filter(|_| random.percent(30)).count();
        assert!((200..400).contains(&heads), "{heads}");
    }
}
