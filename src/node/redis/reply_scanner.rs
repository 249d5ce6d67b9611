//! The number of values that a reply announces, before the reply is parsed.
//!
//! ```text
//!            type of a text or number                      end of the line
//!  ┌─► Type ─────────────────────────► Line ──────────────────────────────┐
//!  │    │      type with a length                   length of a text      │
//!  │    ├────────────────────────────► Length ───────────────────► Bytes ─┤
//!  │    │                                │    number of elements          │
//!  │    │ no RESP3                       └────────────────────────────────┤
//!  │    └──────────► Malformed                                            │
//!  └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A list announces the number of its elements, and a text the number of its bytes. Each element takes up to 250 bytes of
//! memory once parsed, and as few as three bytes on the wire. Therefore a reply is refused as soon as the reply
//! announces too many elements, and not when their bytes have arrived.

/// The largest number of characters of a length. The redis crate accepts zeros and spaces before the digits.
const MAX_LENGTH_CHARACTERS: usize = 32;

/// A scanner of the bytes of one connection.
///
/// # Invariant
///
/// The scanner finds the values that the redis crate parses, until a byte that the crate does not accept. Such a byte
/// ends the connection.
#[derive(Debug)]
pub(super) struct ReplyScanner {
    position: Position,
    /// The number of values that are missing until the present reply is complete.
    missing: usize,
    /// The number of elements that the present reply has announced so far.
    announced: usize,
    /// The bytes of the present length.
    line: Vec<u8>,
}

/// The largest reply that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyLimit {
    /// The largest number of elements of a reply, with the elements of its elements.
    pub(super) values: usize,
    /// The largest length of one text.
    pub(super) bytes: usize,
}

/// A reply announces more than is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyTooLarge;

#[derive(Debug)]
enum Position {
    /// Before a value.
    Type,
    /// In a line that announces no length. `after_return`: the last byte was a carriage return.
    Line { after_return: bool },
    /// In the line of a length.
    Length { of: Announcement },
    /// In a text, before this number of bytes and the end of its line.
    Bytes { left: usize },
    /// After a byte that is no RESP3.
    Malformed,
}

/// What a length is about.
#[derive(Clone, Copy, Debug)]
enum Announcement {
    /// The bytes of a text. Only some texts may be missing, which a negative length shows.
    Bytes { may_be_missing: bool },
    /// Elements, each of this number of values, and further values behind them.
    Elements { each: usize, further: usize },
}

impl ReplyScanner {
    pub(super) fn new() -> Self {
        Self { position: Position::Type, missing: 1, announced: 0, line: Vec::new() }
    }

    /// Handles the next bytes of the connection.
    pub(super) fn scan(&mut self, mut bytes: &[u8], limit: ReplyLimit) -> Result<(), ReplyTooLarge> {
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.position {
                Position::Malformed => return Ok(()),
                Position::Bytes { left } => {
                    let (skipped, behind) = bytes.split_at(bytes.len().min(*left));
                    *left -= skipped.len();
                    if *left == 0 {
                        self.value_ends();
                    }
                    bytes = behind;
                    continue;
                }
                Position::Type => self.position = Position::after_type(*first),
                Position::Line { after_return } => match (*after_return, first) {
                    (true, b'\n') => self.value_ends(),
                    _ => *after_return = *first == b'\r',
                },
                Position::Length { of } => {
                    self.line.push(*first);
                    if let Some(length) = self.line.strip_suffix(b"\r\n") {
                        let (of, length) = (*of, parse(length));
                        self.line.clear();
                        self.on_length(of, length, limit)?;
                    } else if self.line.len() > MAX_LENGTH_CHARACTERS {
                        return Err(ReplyTooLarge);
                    }
                }
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Handles a length; `None` if the redis crate cannot read the length either.
    fn on_length(
        &mut self,
        of: Announcement,
        length: Option<i64>,
        limit: ReplyLimit,
    ) -> Result<(), ReplyTooLarge> {
        let Some(length) = length else {
            self.position = Position::Malformed;
            return Ok(());
        };
        let length = (length >= 0).then(|| usize::try_from(length).unwrap_or(usize::MAX));
        match (of, length) {
            (Announcement::Bytes { .. }, Some(length)) => {
                if length > limit.bytes {
                    return Err(ReplyTooLarge);
                }
                self.position = Position::Bytes { left: length.saturating_add(2) };
            }
            (Announcement::Bytes { may_be_missing: false }, None) => return Err(ReplyTooLarge),
            (Announcement::Bytes { may_be_missing: true }, None) => self.value_ends(),
            (Announcement::Elements { each, further }, length) => {
                let values = length.map_or(0, |length| length.saturating_mul(each).saturating_add(further));
                self.announced = self.announced.saturating_add(values);
                if self.announced > limit.values {
                    return Err(ReplyTooLarge);
                }
                self.missing = self.missing.saturating_add(values);
                self.value_ends();
            }
        }
        Ok(())
    }

    /// Handles the end of a value, or of the announcement of a list.
    fn value_ends(&mut self) {
        self.position = Position::Type;
        self.missing -= 1;
        if self.missing == 0 {
            (self.missing, self.announced) = (1, 0);
        }
    }
}

impl Position {
    fn after_type(first: u8) -> Self {
        let of = match first {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => return Self::Line { after_return: false },
            b'$' => Announcement::Bytes { may_be_missing: true },
            b'=' | b'!' => Announcement::Bytes { may_be_missing: false },
            b'*' | b'~' | b'>' => Announcement::Elements { each: 1, further: 0 },
            b'%' => Announcement::Elements { each: 2, further: 0 },
            // The value to which the attributes belong follows.
            b'|' => Announcement::Elements { each: 2, further: 1 },
            _ => return Self::Malformed,
        };
        Self::Length { of }
    }
}

/// Reads a length as the redis crate reads it.
fn parse(length: &[u8]) -> Option<i64> {
    std::str::from_utf8(length).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: ReplyLimit = ReplyLimit { values: 10, bytes: 100 };

    /// Whether the bytes are accepted, in one piece and byte by byte.
    fn accepts(bytes: &str) -> bool {
        let whole = ReplyScanner::new().scan(bytes.as_bytes(), LIMIT);
        let mut scanner = ReplyScanner::new();
        let each = bytes.as_bytes().chunks(1).try_for_each(|byte| scanner.scan(byte, LIMIT));
        assert_eq!(whole, each, "{bytes:?}");
        whole.is_ok()
    }

    /// Returns the reply again and again, so that a scanner that loses its place reads a text as a length.
    fn many(reply: &str) -> String {
        reply.repeat(50)
    }

    #[test]
    fn replies_of_every_type_are_accepted_again_and_again() {
        for reply in [
            "+OK\r\n",
            "+a\rb\nc\r\r\n",
            "-ERR *99\r\n",
            ":-1\r\n",
            "_\r\n",
            ",1.5\r\n",
            "#t\r\n",
            "(123\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$7\r\n*99\r\n$9\r\n",
            "=7\r\ntxt:*99\r\n",
            "!5\r\nERR a\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*2\r\n:1\r\n$1\r\na\r\n_\r\n",
            "~2\r\n:1\r\n:2\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
            "|1\r\n+a\r\n:1\r\n*1\r\n_\r\n",
            ">3\r\n+message\r\n$1\r\nc\r\n$1\r\n0\r\n",
            "* 1 \r\n_\r\n",
            "*10\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n",
        ] {
            assert!(accepts(&many(reply)), "{reply:?}");
        }
    }

    #[test]
    fn a_reply_that_announces_too_much_is_refused_at_its_announcement() {
        for announcement in [
            "*11\r\n",
            "~11\r\n",
            ">11\r\n",
            "%6\r\n",
            "|5\r\n",
            "*9223372036854775807\r\n",
            "%9223372036854775807\r\n",
            "$101\r\n",
            "=101\r\n",
            "!101\r\n",
            "!-1\r\n",
            "*10\r\n*1\r\n",
            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            "*000000000000000000000000000000001\r\n",
        ] {
            assert!(!accepts(&format!("{}{announcement}", many("*1\r\n$3\r\nabc\r\n"))), "{announcement:?}");
        }
    }

    /// The redis crate ends the connection at such bytes, and its error is the better one.
    #[test]
    fn bytes_that_are_no_resp3_are_left_to_the_parser() {
        for bytes in ["HTTP/1.1 400 Bad Request\r\n*99\r\n", "*a\r\n*99\r\n", "$\r\n*99\r\n", "\r\n*99\r\n"] {
            assert!(accepts(bytes), "{bytes:?}");
        }
    }
}
