//! The violations of a history.

use std::fmt;

use super::{promise::Promise, violation::Violation};

/// The violations of a history: never empty. The text has one line for each violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// The largest number of violations in the text.
    const SHOWN: usize = 20;

    pub(super) const fn new(violations: Vec<Violation>) -> Self {
        Self(violations)
    }

    /// Returns the violations, in the order of the entries that show them.
    #[must_use]
    pub fn as_slice(&self) -> &[Violation] {
        &self.0
    }

    /// Whether a violation breaks this promise.
    #[must_use]
    pub fn breaks(&self, promise: Promise) -> bool {
        self.0.iter().any(|violation| violation.promise() == Some(promise))
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().take(Self::SHOWN).enumerate() {
            let line_start = if index == 0 { "" } else { "\n" };
            write!(f, "{line_start}{violation}")?;
        }
        match self.0.len().checked_sub(Self::SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Violations {}

impl IntoIterator for Violations {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Violation;
    type IntoIter = std::slice::Iter<'a, Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
