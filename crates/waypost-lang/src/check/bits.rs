//! A matrix of bits: one row per node, for sets of nodes and of facts.

/// Rows of equal width.
#[derive(Debug)]
pub(super) struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        let words = columns.div_ceil(64);
        Self { words, bits: vec![0; rows * words] }
    }

    /// An empty row to work on.
    pub(super) fn blank(&self) -> Vec<u64> {
        vec![0; self.words]
    }

    pub(super) fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..(row + 1) * self.words]
    }

    pub(super) fn set_row(&mut self, row: usize, content: &[u64]) {
        self.bits[row * self.words..(row + 1) * self.words].copy_from_slice(content);
    }

    pub(super) fn get(&self, row: usize, column: usize) -> bool {
        has(self.row(row), column)
    }
}

pub(super) fn has(row: &[u64], column: usize) -> bool {
    row.get(column / 64).is_some_and(|word| word >> (column % 64) & 1 == 1)
}

pub(super) fn insert(row: &mut [u64], column: usize) {
    row[column / 64] |= 1 << (column % 64);
}

pub(super) fn unite(into: &mut [u64], other: &[u64]) {
    into.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

pub(super) fn intersect(into: &mut [u64], other: &[u64]) {
    into.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
}

/// Is everything in `part` also in `whole`?
pub(super) fn is_subset(part: &[u64], whole: &[u64]) -> bool {
    part.iter().zip(whole).all(|(part, whole)| part & !whole == 0)
}

pub(super) fn ones(row: &[u64]) -> impl Iterator<Item = usize> {
    row.iter().enumerate().flat_map(|(position, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(position * 64 + bit)
        })
    })
}
