//! The line on a terminal that shows a wait.

use std::{
    io::{self, IsTerminal, stderr},
    thread,
    time::Duration,
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::messages::Messages;

/// A line on standard error with the reason of a wait, removed when this is dropped. Without a
/// terminal there is no line.
#[derive(Debug)]
pub(crate) struct Waiting {
    bar: ProgressBar,
}

/// The interval of the animation.
const TICK: Duration = Duration::from_millis(120);

impl Waiting {
    /// Shows the line, and writes messages above the line. With `--json` there is no line.
    pub(crate) fn show(messages: &Messages, message: String) -> Self {
        let hidden = || Self { bar: ProgressBar::hidden() };
        let Some(bars) = messages.bars() else { return hidden() };
        let bar = bars.add(ProgressBar::new_spinner().with_message(message));
        // `wide_msg` cuts the message at the end of the line, because a second line could not be
        // cleared.
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        animate(&bar);
        Self { bar }
    }

    /// Replaces the message.
    pub(crate) fn set_message(&self, message: String) {
        self.bar.set_message(message);
    }
}

/// Moves the animation until the line is removed. If the system refuses the thread, the line stands still. The ticker of
/// indicatif panics then.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, which blocks no task")]
fn animate(bar: &ProgressBar) {
    bar.tick();
    let bar = bar.downgrade();
    let animation = move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            thread::sleep(TICK);
        }
    };
    let started = thread::Builder::new().name("animation".to_owned()).spawn(animation);
    if let Err(error) = started {
        tracing::debug!(%error, "no thread for the animation");
    }
}

/// Whether standard error is a terminal.
pub(crate) fn is_terminal() -> bool {
    stderr().is_terminal()
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the target of animated lines: standard error, or no target if that is no terminal that
/// supports them.
pub(crate) fn draw_target() -> ProgressDrawTarget {
    let usual = ProgressDrawTarget::stderr();
    if usual.is_hidden() {
        return usual;
    }
    ProgressDrawTarget::term_like(Box::new(Margin(Term::buffered_stderr())))
}

/// A terminal that reports fewer columns than it has. An animated line is filled with blanks to the
/// last reported column, and the terminal echoes Ctrl-C behind them. Without room, the echo would go
/// to the next line, which is never cleared. Errors of a closed terminal are ignored.
#[derive(Debug)]
struct Margin(Term);

impl Margin {
    /// The columns for `^C`, with one for the cursor.
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
