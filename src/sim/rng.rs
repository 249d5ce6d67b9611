//! Random numbers that do not depend on the order of draws. Each number follows from a seed, a purpose,
//! and further numbers such as the index of a process.

/// The purpose of a random number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RandomStream {
    /// The generator of one case of a campaign.
    Case,
    /// The numbers that a program draws.
    Program,
    /// The client id of a client, and the seed of its jitter and lease ids.
    Identity,
    /// The initial time of a process's clock.
    Boot,
    /// The initial time of a node's clock.
    NodeClock,
    /// The time that a message takes.
    Latency,
    /// The time that an access of a store takes, one way.
    Store,
}

/// Returns a number for a purpose and its `parts`, independent of earlier draws.
///
/// The number is the same on every machine and with every toolchain, so that stored cases keep
/// their meaning. Therefore no hasher of the standard library is used.
pub(crate) fn hash_of<const N: usize>(seed: u64, purpose: RandomStream, parts: [u64; N]) -> u64 {
    let purpose = match purpose {
        RandomStream::Case => 1,
        RandomStream::Program => 2,
        RandomStream::Identity => 3,
        RandomStream::Boot => 4,
        RandomStream::NodeClock => 5,
        RandomStream::Latency => 6,
        RandomStream::Store => 7,
    };
    parts.iter().fold(mix(mix(seed) ^ purpose), |hash, part| mix(hash ^ part))
}

/// Returns the index of a node or a process as one of the `parts` of [`hash_of`].
pub(crate) fn part(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Computes one step of `SplitMix64` (Steele, Lea and Flood 2014), in which every bit of the result
/// depends on every bit of the state.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The expected number is from the reference implementation of `SplitMix64` with the seed
    /// 1234567.
    #[test]
    fn the_mixer_equals_splitmix64() {
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn numbers_do_not_change_because_stored_cases_depend_on_them() {
        assert_eq!(hash_of(0, RandomStream::Case, [0, 0]), 0xd1c0_2706_8798_4b37);
        assert_eq!(hash_of(7, RandomStream::Latency, [1, 2, 0, 14]), 0xe34c_fdf6_e40f_df3e);
        assert_eq!(hash_of(u64::MAX, RandomStream::Store, [u64::MAX]), 0x37d3_ac04_44fa_3348);
    }

    #[test]
    fn a_number_depends_on_every_part_and_its_position() {
        let mut drawn = BTreeSet::new();
        for seed in 0..10 {
            for first in 0..10 {
                for second in 0..10 {
                    drawn.insert(hash_of(seed, RandomStream::Program, [first, second]));
                    drawn.insert(hash_of(seed, RandomStream::Identity, [first, second]));
                }
            }
        }
        assert_eq!(drawn.len(), 2000);
    }
}
