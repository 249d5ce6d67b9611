//! The fence: the record of fencing tokens in a store, and the rule that refuses late accesses.

use crate::values::FencingToken;

/// A record that a store keeps beside the data that a lock protects, and the rule by which the store refuses
/// late accesses.
///
/// If all clients lock exclusively, the store needs one column, for the largest token of a writer. With
/// [readers](crate::RwLock), a second column has the largest token of a reader, so that a writer that was paused cannot
/// change data that a later reader has read.
///
/// Both columns are compared and set in one step with the access, as a database does in one statement (the [guide] has
/// the statements in SQL). The rule does not depend on clocks. It holds as long as tokens are in order, which requires
/// that the nodes remember their counters.
///
/// ```
/// use redquorum::{Fence, FencingToken};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let [first, reader, second] = [33_u64, 34, 35].map(|token| FencingToken::try_from(token));
/// let (first, reader, second) = (first?, reader?, second?);
/// let mut fence = Fence::default();
/// fence.write(first)?;
/// fence.read(reader)?;
/// // The first writer was paused, and its lease ended. The reader would miss a write at this point.
/// assert!(fence.write(first).is_err());
/// fence.write(second)?;
/// assert!(fence.read(reader).is_err());
/// # Ok(())
/// # }
/// ```
///
/// [guide]: https://github.com/redquorum/redquorum/blob/main/docs/GUIDE.md#refuse-late-writers
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[expect(clippy::exhaustive_structs, reason = "a store keeps exactly these tokens")]
pub struct Fence {
    /// The largest token of a writer; `None` before the first access of a writer.
    pub writer: Option<FencingToken>,
    /// The largest token of a reader; `None` before the first access of a reader.
    pub reader: Option<FencingToken>,
}

/// The refusal of an access by a store, because a later lease has already accessed the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "token {given} is refused because a later lease has accessed the store with {latest}: expected {latest} or larger"
)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token of the access.
    pub given: FencingToken,
    /// The largest token of an earlier access.
    pub latest: FencingToken,
}

impl Fence {
    /// Records an access of a writer, to read or to write. A writer must call this method at its first access, even if
    /// the access only reads.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a writer or a reader with a larger token has accessed the store. Nothing is recorded
    /// then.
    pub fn write(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        refuse_above(token, self.writer.max(self.reader))?;
        self.writer = Some(token);
        Ok(())
    }

    /// Records an access of a reader.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a writer with a larger token has accessed the store. Nothing is recorded then.
    pub fn read(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        refuse_above(token, self.writer)?;
        self.reader = self.reader.max(Some(token));
        Ok(())
    }
}

fn refuse_above(given: FencingToken, largest: Option<FencingToken>) -> Result<(), StaleToken> {
    match largest.filter(|largest| *largest > given) {
        Some(latest) => Err(StaleToken { given, latest }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> FencingToken {
        FencingToken::new(value)
    }

    /// Returns the fence after these accesses, and whether each access was accepted. An access is `w` or `r`, with a
    /// token.
    fn fence(accesses: &[(char, u64)]) -> (Fence, Vec<bool>) {
        let mut fence = Fence::default();
        let access = |(kind, value): &(char, u64)| match kind {
            'w' => fence.write(token(*value)).is_ok(),
            _ => fence.read(token(*value)).is_ok(),
        };
        let accepted = accesses.iter().map(access).collect();
        (fence, accepted)
    }

    #[test]
    fn a_writer_is_refused_after_any_later_access() {
        assert_eq!(fence(&[('w', 1), ('w', 1), ('w', 3), ('w', 2)]).1, [true, true, true, false]);
        assert_eq!(fence(&[('r', 2), ('w', 1)]).1, [true, false]);
        let refused = Fence { writer: None, reader: Some(token(2)) }.write(token(1));
        assert_eq!(refused, Err(StaleToken { given: token(1), latest: token(2) }));
    }

    #[test]
    fn a_reader_is_refused_only_after_a_later_writer() {
        assert_eq!(fence(&[('r', 3), ('r', 2), ('r', 4)]).1, [true; 3]);
        assert_eq!(fence(&[('w', 3), ('r', 2), ('r', 4)]).1, [true, false, true]);
    }

    /// The writer with the token 33 tries to write after a read with the token 34. If the fence did not record the
    /// read, the data could change after the read.
    #[test]
    fn a_fence_records_accepted_accesses_and_no_refused_access() {
        assert_eq!(fence(&[('w', 33), ('r', 34), ('w', 33), ('w', 34)]).1, [true, true, false, true]);
        let (fence, accepted) = fence(&[('w', 35), ('r', 34), ('w', 33)]);
        assert_eq!(accepted, [true, false, false]);
        assert_eq!(fence, Fence { writer: Some(token(35)), reader: None });
    }
}
