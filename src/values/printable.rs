//! The display of texts that another program may have written.

use std::fmt;

/// The characters that `escape_debug` escapes although they print.
const UNESCAPED: [char; 3] = ['\\', '\'', '"'];

/// The display of a text that a server, a proxy or the writer of a key may have chosen. The text is shown on one line,
/// with escapes for characters that do not print. Without the escapes, a terminal would execute control sequences, and
/// a change of the writing direction could hide the text around the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printable<'a>(pub(crate) &'a str);

impl Printable<'_> {
    /// Whether the text is shown without any escapes.
    pub(crate) fn is_plain(self) -> bool {
        self.to_string() == self.0
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.0.split_inclusive(UNESCAPED) {
            let (text, quote) = match piece.strip_suffix(UNESCAPED) {
                Some(text) => (text, piece.chars().next_back()),
                None => (piece, None),
            };
            write!(f, "{}", text.escape_debug())?;
            quote.map_or(Ok(()), |quote| write!(f, "{quote}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unprintable_characters_are_escaped() {
        for text in ["", "it's \"a\\b\"", "''", "u\u{308}", "Gr\u{fc}\u{df}e/\u{6f22}\u{5b57}"] {
            assert_eq!(Printable(text).to_string(), text);
            assert!(Printable(text).is_plain());
        }
        for (text, escaped) in [
            ("a\n'\t'", "a\\n'\\t'"),
            ("\u{1b}[2J\u{9b}2J\u{7f}", "\\u{1b}[2J\\u{9b}2J\\u{7f}"),
            ("a\u{202e}b\u{2066}c\u{2028}", "a\\u{202e}b\\u{2066}c\\u{2028}"),
        ] {
            assert_eq!(Printable(text).to_string(), escaped);
            assert!(!Printable(text).is_plain());
        }
    }
}
