//! The size of an answer.

use std::ops::{Add, AddAssign};

/// The size of an answer, beyond that of an ordinary answer.
///
/// An ordinary answer is a number, or a list of at most [`ORDINARY_VALUES`] short values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerSize {
    pub(crate) bytes: usize,
    /// The number of values, such as the elements of a list. A short value takes far more memory than bytes on the wire.
    pub(crate) values: usize,
}

/// The largest number of values of an ordinary answer.
pub(crate) const ORDINARY_VALUES: usize = 16;

impl AnswerSize {
    /// Returns the larger size of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), values: self.values.max(other.values) }
    }

    /// Whether both sizes are at most those of `most`.
    pub(crate) fn fits(self, most: Self) -> bool {
        self.bytes <= most.bytes && self.values <= most.values
    }
}

impl Add for AnswerSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, values: self.values + other.values }
    }
}

impl AddAssign for AnswerSize {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for AnswerSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}
