//! Standard output, which receives results only.

use std::{fmt::Display, io::Write};

use serde::Serialize;

use crate::failure::Failure;

/// The form of standard output: text for people, or one JSON object per line with `--json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    /// Prints one result as text or as one line of JSON. The text loses its colours unless standard
    /// output is a terminal that supports them.
    ///
    /// # Errors
    ///
    /// As [`Failure::output`], which distinguishes a closed pipe from other errors.
    pub(crate) fn print<R: Display + Serialize>(&self, result: &R) -> Result<(), Failure> {
        let line = if self.is_json {
            let json = serde_json::to_string(result);
            printable(&json.map_err(|error| Failure::internal("write a result as JSON", error))?)
        } else {
            result.to_string()
        };
        let mut out = anstream::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }
}

/// Escapes the characters of a JSON text that do not print, because a terminal would execute control characters. Other
/// clients choose some of the strings, such as labels. Unprintable characters occur in strings only, so the
/// escaped JSON has the same value.
fn printable(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter != '\u{7f}' && (letter.is_ascii() || letter.escape_debug().len() == 1) {
            shown.push(letter);
        } else {
            let mut units = [0; 2];
            shown.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_is_printable_and_keeps_its_value() {
        let text = "Gr\u{fc}\u{df}e\n\"\\\u{1b}[2J\u{7f}\u{9b}2J\u{202e}\u{e0001}\u{1f600}";
        let json = printable(&serde_json::to_string(text).unwrap());
        assert_eq!(
            json,
            "\"Gr\u{fc}\u{df}e\\n\\\"\\\\\\u001b[2J\\u007f\\u009b2J\\u202e\\udb40\\udc01\u{1f600}\""
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
