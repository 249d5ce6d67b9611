//! What is waited for, shown on a terminal.

use std::{
    io::{self, IsTerminal, stderr},
    time::Duration,
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::messages::Messages;

/// A line on standard error that says what is waited for, and is gone when this is dropped. Nothing
/// unless that is a terminal.
#[derive(Debug)]
pub(crate) struct Waiting {
    bar: ProgressBar,
}

impl Waiting {
    /// How often the line moves.
    const TICK: Duration = Duration::from_millis(120);

    /// Begins to show it, above which messages are written from now on. Nothing where `--json` was
    /// asked for.
    pub(crate) fn show(messages: &Messages, message: String) -> Self {
        let hidden = || Self { bar: ProgressBar::hidden() };
        let Some(bars) = messages.bars() else { return hidden() };
        let bar = bars.add(ProgressBar::new_spinner().with_message(message));
        // `wide_msg`: cut off at the end of the line, as a second one would have to be found again
        // to be cleared.
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Self::TICK);
        Self { bar }
    }

    /// Says something else.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

/// Whether anybody sees what is shown on standard error.
pub(crate) fn is_terminal() -> bool {
    stderr().is_terminal()
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Where lines that move are drawn: on standard error, if that is a terminal on which they can.
pub(crate) fn draw_target() -> ProgressDrawTarget {
    let usual = ProgressDrawTarget::stderr();
    if usual.is_hidden() {
        return usual;
    }
    ProgressDrawTarget::term_like(Box::new(Margin(Term::buffered_stderr())))
}

/// A terminal as if it had some columns fewer. A line that moves is filled up with blanks to the
/// last column, and what the terminal echoes of Ctrl-C has to find room behind them: on the next
/// line, nobody would clear it. A terminal that is gone is no error.
#[derive(Debug)]
struct Margin(Term);

impl Margin {
    /// For `^C`, and one column in which the cursor stays.
    const COLUMNS: u16 = 4;
}

impl TermLike for Margin {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(Self::COLUMNS).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n).or(Ok(()))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n).or(Ok(()))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n).or(Ok(()))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n).or(Ok(()))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text).or(Ok(()))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text).or(Ok(()))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line().or(Ok(()))
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush().or(Ok(()))
    }
}
