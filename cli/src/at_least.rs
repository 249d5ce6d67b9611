//! Numbers that may be too small, because answers of nodes name only some of the counted things.

use std::fmt;

use crate::counted::counted;

/// A number of things, or a lower bound of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtLeast {
    pub(crate) number: usize,
    /// Whether there may be more things than the number.
    pub(crate) may_be_more: bool,
}

impl AtLeast {
    /// Returns the number with its noun: `3 waiters` or `at least 3 waiters`.
    pub(crate) fn counted(self, noun: &str) -> String {
        format!("{}{}", self.prefix(), counted(self.number, noun))
    }

    /// Returns the words before the number in a sentence.
    pub(crate) fn prefix(self) -> &'static str {
        if self.may_be_more { "at least " } else { "" }
    }
}

/// The number for a cell of a table: `3` or `3+`.
impl fmt::Display for AtLeast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.may_be_more { "+" } else { "" })
    }
}
