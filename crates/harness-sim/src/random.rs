//! A seeded generator. The same seed must give the same world on every machine and in every release
//! of every library. It is therefore implemented here and not taken from a library.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if there is none.
    pub const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    pub const fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Returns the position of one of the weights, with a probability in proportion to the weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.next() % weights.iter().sum::<u64>().max(1);
        for (n, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return n;
            }
            rest -= weight;
        }
        0
    }
}
