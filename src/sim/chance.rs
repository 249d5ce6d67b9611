//! Chance without order: numbers that follow from a seed and from what they are for.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A number for a purpose. It does not depend on how many others were asked for before.
pub(crate) fn hash_of(seed: u64, purpose: impl Hash) -> u64 {
    // Its keys are fixed, so it gives the same on every machine that has the same standard library.
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    purpose.hash(&mut hasher);
    hasher.finish()
}
