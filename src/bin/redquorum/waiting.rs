//! What is waited for, shown on a terminal.

use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// A line on standard error that says what is waited for, and is gone when this is dropped. Nothing unless that is a terminal.
#[derive(Debug)]
pub(crate) struct Waiting {
    bar: ProgressBar,
}

impl Waiting {
    /// How often the line moves.
    const TICK: Duration = Duration::from_millis(120);

    /// Begins to show it; `is_shown` is false where `--json` was asked for.
    pub(crate) fn show(message: String, is_shown: bool) -> Self {
        if !is_shown || !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let bar = ProgressBar::new_spinner().with_message(message);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Self::TICK);
        Self { bar }
    }

    /// Whether anybody sees it: if not, there is no use in finding out what to say.
    pub(crate) fn is_seen(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Says something else.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
