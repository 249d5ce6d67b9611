//! Standard error: errors, notices and logs, written by a separate thread.
//!
//! ```text
//!   notice, failure, logs ──► queue of MAX_PENDING ──► writing thread ──► standard error
//!                              full: dropped           suppressed: kept    (above animated lines)
//! ```

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use indicatif::MultiProgress;
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;

use crate::{
    failure::{Failure, without_api_names},
    waiting,
};

/// The number of messages that may wait while a terminal or a pipe accepts no output. Further messages are dropped.
const MAX_PENDING: usize = 1024;

/// The longest time that a flush waits until earlier messages are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle of standard error, which a separate thread writes to.
///
/// The task that supervises a command must not write to a terminal itself, because a terminal can block a write without
/// limit. Meanwhile the command could run past the end of validity.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    is_json: bool,
    lines: SyncSender<Message>,
    /// The animated lines below the messages.
    bars: MultiProgress,
    /// Whether messages are kept instead of written, because `top` draws on the terminal.
    is_suppressed: Arc<AtomicBool>,
}

/// A message to the writing thread.
#[derive(Debug)]
enum Message {
    Text(Vec<u8>),
    /// A request for a notification when all messages before this request are written.
    Flush(SyncSender<()>),
}

/// An error or a notice in the form of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum JsonMessage<'a> {
    Error { kind: &'static str, exit: u8, message: &'a str },
    Notice { message: &'a str },
}

impl Messages {
    /// Starts the writing thread.
    ///
    /// # Errors
    ///
    /// [`Exit::System`](crate::exit::Exit::System) if the system refuses the thread.
    pub(crate) fn start(is_json: bool) -> Result<Self, Failure> {
        let (lines, pending) = sync_channel(MAX_PENDING);
        let bars = MultiProgress::with_draw_target(waiting::draw_target());
        let (below, is_suppressed) = (bars.clone(), Arc::new(AtomicBool::new(false)));
        let suppressed = Arc::clone(&is_suppressed);
        thread::Builder::new()
            .name("messages".to_owned())
            .spawn(move || write_all(&pending, &below, &suppressed))
            .map_err(|error| Failure::not_started("a thread for messages", &error))?;
        Ok(Self { is_json, lines, bars, is_suppressed })
    }

    /// Writes a failure before the writing thread exists, from the calling thread.
    pub(crate) fn write_early_failure(failure: &Failure, is_json: bool) {
        let mut line = failure_line(failure, is_json).into_bytes();
        line.push(b'\n');
        anstream::stderr().write_all(&line).ok();
    }

    /// Returns the group of animated lines, above which messages are written. `None` with `--json`.
    pub(crate) fn bars(&self) -> Option<&MultiProgress> {
        (!self.is_json).then_some(&self.bars)
    }

    /// Hides the animated lines during an act.
    pub(crate) fn without_bars(&self, act: impl FnOnce()) {
        self.bars.suspend(act);
    }

    /// Keeps messages off the terminal while `top` draws on it, until [`resume`](Self::resume).
    pub(crate) fn suppress(&self) {
        self.is_suppressed.store(waiting::is_terminal(), Ordering::Relaxed);
        // A message that is being written must not arrive on the new screen.
        self.flush();
    }

    /// Ends the suppression. The kept messages are written with the next message or
    /// [flush](Self::flush).
    pub(crate) fn resume(&self) {
        self.is_suppressed.store(false, Ordering::Relaxed);
    }

    /// Writes a message that is no error.
    pub(crate) fn notice(&self, message: &str) {
        let message = &without_api_names(message);
        let line = line(&JsonMessage::Notice { message }, format!("redquorum: {message}"), self.is_json);
        self.write_line(line.into_bytes());
    }

    /// Writes the failure of the command.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.write_line(failure_line(failure, self.is_json).into_bytes());
    }

    fn write_line(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        // A full queue means that standard error accepts no output. The message is dropped, because a wait could
        // delay the supervision of the command.
        self.lines.try_send(Message::Text(line)).ok();
    }

    /// Waits until all messages are written, for at most [`FLUSH_TIMEOUT`].
    pub(crate) fn flush(&self) {
        let (mark, written) = sync_channel(1);
        if self.lines.try_send(Message::Flush(mark)).is_ok() {
            match written.recv_timeout(FLUSH_TIMEOUT) {
                Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

/// Returns the line of a failure.
fn failure_line(failure: &Failure, is_json: bool) -> String {
    let exit = failure.exit;
    let json = JsonMessage::Error { kind: exit.name(), exit: exit.code(), message: &failure.in_one_line() };
    let failure = failure.without_reported();
    let text = if waiting::is_terminal() { failure.in_lines() } else { failure.in_one_line() };
    line(&json, format!("redquorum: {text}"), is_json)
}

fn line(json: &JsonMessage<'_>, text: String, is_json: bool) -> String {
    if is_json { serde_json::to_string(json).unwrap_or(text) } else { text }
}

/// The writer of log lines for `tracing-subscriber`.
impl Write for Messages {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.lines.try_send(Message::Text(buffer.to_vec())).ok();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes messages until the last [`Messages`] is dropped.
fn write_all(pending: &Receiver<Message>, bars: &MultiProgress, is_suppressed: &AtomicBool) {
    // While the command has the terminal, this process is in the background. A terminal with
    // `tostop` answers a write of a background process with SIGTTOU. The signal would stop this
    // process, and with it the task that ends the command. If the signal is blocked, the write
    // succeeds.
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    ttou.thread_block().ok();
    let mut kept = VecDeque::new();
    while let Ok(line) = pending.recv() {
        let mark = match line {
            Message::Text(text) => {
                kept.push_back(text);
                None
            }
            Message::Flush(mark) => Some(mark),
        };
        if is_suppressed.load(Ordering::Relaxed) {
            // Of too many messages, the newest are kept, because they describe the present state.
            kept.drain(..kept.len().saturating_sub(MAX_PENDING));
        } else {
            for text in kept.drain(..) {
                // An error of standard error cannot be reported anywhere.
                bars.suspend(|| drop(anstream::stderr().write_all(&text)));
            }
        }
        if let Some(mark) = mark {
            mark.send(()).ok();
        }
    }
}
