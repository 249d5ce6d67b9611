//! The signals that are passed on.

use std::{future::poll_fn, task::Poll, thread};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::{exit::Exit, failure::Failure, messages::Messages};

/// Those that are passed on to the command. SIGKILL and SIGSTOP cannot be.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// The signals of this process, which do not do to it what they usually do once this is there.
///
/// Whatever was ignored when it was started stays ignored, by the command too: `nohup` is to work.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Takes the signals over.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(crate) fn register() -> Result<Self, Failure> {
        let listen = |number: Signal| Ok((number, signal(SignalKind::from_raw(number as i32))?));
        let streams: std::io::Result<_> = heard().map(listen).collect();
        Ok(Self { streams: streams.map_err(|error| Failure::internal("listening to signals", error))? })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that ends a process which has no command yet. One that stops it stops it,
    /// and no line that moves stands on the terminal meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(crate) async fn end(&mut self, messages: &Messages) -> Signal {
        loop {
            match self.next().await {
                signal if ends(signal) => return signal,
                Signal::SIGTSTP => messages.without_bars(|| {
                    kill(Pid::this(), Signal::SIGSTOP).ok();
                }),
                _ => {}
            }
        }
    }
}

/// Has signals end this process as they end any other, if it is the first one of a container, to
/// which the system gives none that it does not ask for. For commands that do not hear signals
/// themselves; before there is a second thread, which would have to block them as well.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn end_a_first_process() -> Result<(), Failure> {
    if Pid::this().as_raw() != 1 {
        return Ok(());
    }
    let asked: SigSet = heard().filter(|signal| ends(*signal)).collect();
    asked.thread_block().map_err(|error| Failure::internal("blocking signals", error))?;
    let wait = move || {
        if let Ok(signal) = asked.wait() {
            std::process::exit(Exit::Signal(signal as u8).code().into());
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Failure::internal("a thread for signals", error))
}

/// Whether it is a demand to end also where the command has survived it: others reload by SIGHUP,
/// or show their threads by SIGQUIT, and go on.
pub(crate) fn demands_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM)
}

/// Whether it ends a process that has no command.
pub(crate) fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM)
}

/// Those that were not ignored when this process was started.
fn heard() -> impl Iterator<Item = Signal> {
    let ignored = ignored();
    PASSED_ON.into_iter().filter(move |signal| ignored & (1 << (*signal as i32 - 1)) == 0)
}

/// The signals that this process ignores, the first in the lowest bit.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Nobody tells without unsafe code.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn ignored() -> u64 {
    0
}
