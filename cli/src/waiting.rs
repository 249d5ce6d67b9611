//! The animated line that shows a wait on a terminal, below the messages of `messages`.

use std::{
    io::{self, IsTerminal, stderr},
    thread,
    time::Duration,
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::messages::Messages;

/// An animated line on standard error with the reason of a wait. Dropping the handle removes the line. If standard
/// error is no terminal, there is no line.
#[derive(Debug)]
pub(crate) struct WaitLine {
    bar: ProgressBar,
}

/// The interval of the animation.
const TICK: Duration = Duration::from_millis(120);

impl WaitLine {
    /// Shows the line below the messages. With `--json` there is no line.
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

/// Animates the line from a new thread until the line is removed. If the system refuses the thread, the line is not
/// animated. The steady tick of indicatif is not used, because it panics in this case.
#[expect(clippy::disallowed_methods, reason = "only the thread of the animation sleeps")]
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

impl Drop for WaitLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the target of animated lines: standard error, or a hidden target if standard error is no terminal that
/// supports animated lines.
pub(crate) fn draw_target() -> ProgressDrawTarget {
    let usual = ProgressDrawTarget::stderr();
    if usual.is_hidden() {
        return usual;
    }
    ProgressDrawTarget::term_like(Box::new(TerminalWithMargin(Term::buffered_stderr())))
}

/// The terminal of animated lines, with fewer reported columns than the terminal has.
///
/// An animated line is filled with blanks up to the last reported column, and a typed Ctrl-C is echoed as `^C` behind
/// the blanks. Without a margin, the echo would be in the next line, which is never cleared. Errors of a closed
/// terminal are ignored.
#[derive(Debug)]
struct TerminalWithMargin(Term);

impl TerminalWithMargin {
    /// The columns of the margin: enough for `^C` and the cursor.
    const MARGIN: u16 = 4;
}

impl TermLike for TerminalWithMargin {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(Self::MARGIN).max(1)
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
