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
            serde_json::to_string(result).map_err(|error| Failure::internal("a result as JSON", error))?
        } else {
            result.to_string()
        };
        let mut out = anstream::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }
}
