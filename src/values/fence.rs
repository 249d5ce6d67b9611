//! What a store remembers of the tokens that it has seen.

use crate::values::FencingToken;

/// What a store keeps beside the data that a lock protects, and the rule by which it refuses those
/// who come too late.
///
/// For a store whose clients only lock exclusively, the writer's token is enough: one column. With
/// [readers](crate::RwLock) a second one remembers the largest token of a reader, so that a writer
/// that stood still does not change what a later reader has read already.
///
/// Both are compared and set in one step with the access, as a database does in one statement (the
/// [guide] has them in SQL). No clock is in it: it holds as long as tokens are in order, which asks
/// of the nodes that they remember their counters.
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
/// // The first writer stood still, and its lease ended: the reader would miss what it writes now.
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
#[expect(clippy::exhaustive_structs, reason = "a store keeps just this")]
pub struct Fence {
    /// The largest token of a writer that was here; `None` before the first.
    pub writer: Option<FencingToken>,
    /// The largest token of a reader that was here; `None` before the first.
    pub reader: Option<FencingToken>,
}

/// The refusal of an access by a store, because a later lease was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "token {given} is refused because a later lease has accessed the store with {latest}: expected {latest} or larger"
)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token of the access.
    pub given: FencingToken,
    /// The latest token that was there.
    pub latest: FencingToken,
}

impl Fence {
    /// An access of a writer, whether it reads or writes: to be noted at its first, which may be a
    /// read.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a writer or a reader with a larger token was here; nothing is noted then.
    pub fn write(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        refuse_above(token, self.writer.max(self.reader))?;
        self.writer = Some(token);
        Ok(())
    }

    /// An access of a reader.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a writer with a larger token was here; nothing is noted then.
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
    fn a_writer_is_refused_after_whoever_came_later() {
        assert_eq!(fence(&[('w', 1), ('w', 1), ('w', 3), ('w', 2)]).1, [true, true, true, false]);
        assert_eq!(fence(&[('r', 2), ('w', 1)]).1, [true, false]);
        let refused = Fence { writer: None, reader: Some(token(2)) }.write(token(1));
        assert_eq!(refused, Err(StaleToken { given: token(1), latest: token(2) }));
    }

    #[test]
    fn a_reader_is_refused_after_a_later_writer_and_never_for_another_reader() {
        assert_eq!(fence(&[('r', 3), ('r', 2), ('r', 4)]).1, [true; 3]);
        assert_eq!(fence(&[('w', 3), ('r', 2), ('r', 4)]).1, [true, false, true]);
    }

    /// 33 reads, 34 reads, 33 writes: without the note of the reader, or that of the writer's first
    /// access, somebody decides by what is not there any more.
    #[test]
    fn what_is_refused_is_not_noted_and_a_first_access_is() {
        assert_eq!(fence(&[('w', 33), ('r', 34), ('w', 33), ('w', 34)]).1, [true, true, false, true]);
        let (fence, accepted) = fence(&[('w', 35), ('r', 34), ('w', 33)]);
        assert_eq!(accepted, [true, false, false]);
        assert_eq!(fence, Fence { writer: Some(token(35)), reader: None });
    }
}
