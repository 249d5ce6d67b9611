//! What is said on standard error.

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

use crate::{failure::Failure, waiting};

/// How many messages may wait for a terminal that is stopped, or a reader that does not read. More
/// are dropped.
const MOST_WAITING: usize = 1024;

/// How long the process stays for what it still has to say.
const PATIENCE: Duration = Duration::from_secs(1);

/// Standard error, written by a thread of its own.
///
/// A task that keeps a lease must not wait for a terminal: a write may block for as long as
/// somebody likes, and the command under the lock would run on past the end of validity.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    is_json: bool,
    lines: SyncSender<Message>,
    /// The lines that move below the messages.
    bars: MultiProgress,
    is_held: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Message {
    Text(Vec<u8>),
    /// Everything before it has been written when this is heard.
    Mark(SyncSender<()>),
}

/// A message as `--json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum JsonMessage<'a> {
    Error { kind: &'static str, exit: u8, message: &'a str },
    Notice { message: &'a str },
}

impl Messages {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system allows no more threads.
    pub(crate) fn start(is_json: bool) -> Result<Self, Failure> {
        let (lines, written) = sync_channel(MOST_WAITING);
        let bars = MultiProgress::with_draw_target(waiting::draw_target());
        let (below, is_held) = (bars.clone(), Arc::new(AtomicBool::new(false)));
        let held = Arc::clone(&is_held);
        thread::Builder::new()
            .name("messages".to_owned())
            .spawn(move || write_all(&written, &below, &held))
            .map_err(|error| Failure::internal("a thread for messages", error))?;
        Ok(Self { is_json, lines, bars, is_held })
    }

    /// Where lines that move belong, so that messages are written above them; `None` where there
    /// are to be none.
    pub(crate) fn bars(&self) -> Option<&MultiProgress> {
        (!self.is_json).then_some(&self.bars)
    }

    /// Does something while no line that moves is shown; afterwards they are shown again.
    pub(crate) fn without_bars(&self, act: impl FnOnce()) {
        self.bars.suspend(act);
    }

    /// Keeps what is said, from now on, off a terminal that somebody draws on, until it is
    /// [released](Self::release).
    pub(crate) fn hold(&self) {
        self.is_held.store(waiting::is_terminal(), Ordering::Relaxed);
        // What is being written is not on the screen that is drawn next.
        self.flush();
    }

    /// Lets what was kept be said: before what is said next, or when all [is to be](Self::flush).
    pub(crate) fn release(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// Says something that is no error.
    pub(crate) fn notice(&self, message: &str) {
        self.say(&JsonMessage::Notice { message }, format!("redquorum: {message}"));
    }

    /// Says why the command fails.
    pub(crate) fn failure(&self, failure: &Failure) {
        let exit = failure.exit;
        let said =
            JsonMessage::Error { kind: exit.name(), exit: exit.code(), message: &failure.in_one_line() };
        let text = if waiting::is_terminal() { failure.in_lines() } else { failure.in_one_line() };
        self.say(&said, format!("redquorum: {text}"));
    }

    fn say(&self, said: &JsonMessage<'_>, text: String) {
        let line = if self.is_json { serde_json::to_string(said).unwrap_or(text) } else { text };
        self.write_line(line.into_bytes());
    }

    fn write_line(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        // Full: nobody reads. What is said is worth less than what is done.
        self.lines.try_send(Message::Text(line)).ok();
    }

    /// Waits until all has been written, but not for long.
    pub(crate) fn flush(&self) {
        let (mark, written) = sync_channel(1);
        if self.lines.try_send(Message::Mark(mark)).is_ok() {
            match written.recv_timeout(PATIENCE) {
                Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

/// Lines of logs, for `tracing-subscriber`.
impl Write for Messages {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.lines.try_send(Message::Text(buffer.to_vec())).ok();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(waiting: &Receiver<Message>, bars: &MultiProgress, is_held: &AtomicBool) {
    // While the terminal is lent to a command, we are in the background, from where a terminal with
    // `tostop` lets nobody write: SIGTTOU would stop the whole process, and with it the task that
    // is to end the command. Where it is blocked, the write is done.
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    ttou.thread_block().ok();
    let mut kept = VecDeque::new();
    while let Ok(line) = waiting.recv() {
        let mark = match line {
            Message::Text(text) => {
                kept.push_back(text);
                None
            }
            Message::Mark(mark) => Some(mark),
        };
        if is_held.load(Ordering::Relaxed) {
            // Those that came last tell most of what is.
            kept.drain(..kept.len().saturating_sub(MOST_WAITING));
        } else {
            for text in kept.drain(..) {
                // There is nobody left to tell if standard error is closed.
                bars.suspend(|| drop(anstream::stderr().write_all(&text)));
            }
        }
        if let Some(mark) = mark {
            mark.send(()).ok();
        }
    }
}
