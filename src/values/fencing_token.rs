//! Fencing tokens, by which a store distinguishes later leases from earlier leases.

use std::{fmt, str::FromStr, sync::Arc};

use crate::values::shown_value;

/// The largest token: the largest whole number that JSON and `f64` represent exactly.
const MAX_TOKEN: u64 = (1 << 53) - 1;

/// A number that grows with each lease on a resource. The store that a lock protects remembers the largest
/// token, and refuses a write with a smaller token.
///
/// Tokens are unique per resource and grow in real-time order, without any assumption about clocks, as long
/// as the nodes remember their counters. Readers may share a token until the next writer. If the lock has readers,
/// the store also has to refuse late reads, by [`Fence`](crate::Fence). Tokens of different resources, or of different
/// quorums, are not comparable. A token is a number from 1 to 2^53 - 1, which JSON and `f64` represent exactly.
///
/// A store may keep the largest token as a number or as text, and convert the value back into a token to compare it
/// with the token of a request. With the feature `serde`, a token is stored as a number.
///
/// ```
/// use redquorum::FencingToken;
///
/// # fn main() -> Result<(), redquorum::error::InvalidToken> {
/// let largest = FencingToken::try_from(33_u64)?; // from the store's column
/// let token: FencingToken = "34".parse()?; // from a header of the request
/// assert!(token > largest);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u64", into = "u64"))]
pub struct FencingToken(u64);

/// The error of a number or a text that is no [`FencingToken`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no fencing token: expected a whole number from 1 to {MAX_TOKEN}")]
#[non_exhaustive]
pub struct InvalidToken {
    /// The given number or text. A text that does not have the form of a setting is not shown, because the text may
    /// hold a password: `given` has stars in its place.
    pub given: Arc<str>,
}

impl FencingToken {
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// Returns the token as a number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = InvalidToken;

    fn try_from(number: u64) -> Result<Self, InvalidToken> {
        match number {
            1..=MAX_TOKEN => Ok(Self(number)),
            _ => Err(InvalidToken { given: number.to_string().into() }),
        }
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = InvalidToken;

    /// Converts the value of a signed column, such as SQL's `BIGINT`.
    fn try_from(number: i64) -> Result<Self, InvalidToken> {
        let token = u64::try_from(number).ok().and_then(|number| Self::try_from(number).ok());
        token.ok_or_else(|| InvalidToken { given: number.to_string().into() })
    }
}

impl FromStr for FencingToken {
    type Err = InvalidToken;

    /// Parses the text by which [`Display`](fmt::Display) shows a token.
    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let number = text.parse::<u64>().ok();
        let token = number.and_then(|number| Self::try_from(number).ok());
        token.ok_or_else(|| InvalidToken { given: shown_value(text).into() })
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Nodes give only tokens below 2^53.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_converts_to_a_number_or_text_and_back() {
        for number in [1, 1_700_000_000_000_007, MAX_TOKEN] {
            let token = FencingToken::try_from(number).unwrap();
            assert_eq!((u64::from(token), token.to_string().parse()), (number, Ok(token)));
        }
    }

    #[test]
    fn invalid_numbers_and_texts_are_refused_as_tokens() {
        for number in [0, MAX_TOKEN + 1, u64::MAX] {
            let refused = InvalidToken { given: number.to_string().into() };
            assert_eq!(FencingToken::try_from(number), Err(refused.clone()));
            assert_eq!(number.to_string().parse::<FencingToken>(), Err(refused));
        }
        for number in [0, -1, i64::MIN, i64::MAX] {
            let refused = InvalidToken { given: number.to_string().into() };
            assert_eq!(FencingToken::try_from(number), Err(refused));
        }
        assert_eq!(FencingToken::try_from(7_i64), FencingToken::try_from(7_u64));
        for text in ["", " 7", "-7", "7.0", "0x7", "seven", "99999999999999999999"] {
            let refused = text.parse::<FencingToken>().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("{text:?} is no fencing token: ")), "{refused}");
        }
        let refused = "redis://:secret@a".parse::<FencingToken>().unwrap_err();
        assert_eq!(&*refused.given, "***");
    }
}
