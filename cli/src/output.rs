//! What is printed on standard output: results, and nothing else.

use std::{fmt::Display, io::Write};

use serde::Serialize;

use crate::failure::Failure;

/// Standard output: text for people, or with `--json` one object to a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    /// Prints one result: as `Display` shows it, in which colours are dropped unless this is a
    /// terminal that wants them, or as one line of JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be written; nobody reading any more is told apart.
    pub(crate) fn print<R: Display + Serialize>(&self, result: &R) -> Result<(), Failure> {
        let line = if self.is_json {
            let json = serde_json::to_string(result);
            printable(&json.map_err(|error| Failure::internal("a result as JSON", error))?)
        } else {
            result.to_string()
        };
        let mut out = anstream::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }
}

/// The same JSON, with what does not print escaped, which stands in texts alone: a program that
/// writes keys chooses some of these texts, and a terminal would obey them.
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
    fn json_has_what_does_not_print_escaped_and_means_the_same() {
        let text = "Gr\u{fc}\u{df}e\n\"\\\u{1b}[2J\u{7f}\u{9b}2J\u{202e}\u{e0001}\u{1f600}";
        let json = printable(&serde_json::to_string(text).unwrap());
        assert_eq!(
            json,
            "\"Gr\u{fc}\u{df}e\\n\\\"\\\\\\u001b[2J\\u007f\\u009b2J\\u202e\\udb40\\udc01\u{1f600}\""
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
