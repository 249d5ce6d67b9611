//! The signals that are passed on to the command, or end this process.

use std::{future::poll_fn, task::Poll, thread};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::{exit::Exit, failure::Failure, messages::Messages};

/// The signals that are passed on to the command. SIGKILL and SIGSTOP cannot be handled.
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

/// The signals that this process receives instead of their default effect.
///
/// A signal that was ignored at the start stays ignored, for the command too, so that `nohup` works.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Registers the signals.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`] if the system refuses.
    pub(crate) fn register() -> Result<Self, Failure> {
        let listen = |number: Signal| Ok((number, signal(SignalKind::from_raw(number as i32))?));
        let streams: std::io::Result<_> = not_ignored().map(listen).collect();
        Ok(Self { streams: streams.map_err(|error| Failure::internal("register signals", error))? })
    }

    /// Receives the next signal.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses no signal.
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

    /// Waits for a signal that ends redquorum while no command runs. SIGTSTP (Ctrl-Z) stops this process, with the
    /// animated lines hidden.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses no signal.
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

/// Makes signals end this process if it is the first process of a container. Without this function, signals would have
/// no effect on the first process of a container, because the system delivers only signals with a handler to it.
///
/// This function is for commands that do not register [`Signals`]. It has to be called before the process has a second
/// thread, because every thread has to block the signals.
///
/// # Errors
///
/// [`Exit::System`] if the system refuses the thread, [`Exit::Internal`] if it refuses to block signals.
pub(crate) fn end_by_signal_as_first_process() -> Result<(), Failure> {
    if Pid::this().as_raw() != 1 {
        return Ok(());
    }
    let ending: SigSet = not_ignored().filter(|signal| ends(*signal)).collect();
    ending.thread_block().map_err(|error| Failure::internal("block signals", error))?;
    let wait = move || {
        if let Ok(signal) = ending.wait() {
            std::process::exit(Exit::Signal(signal as u8).code().into());
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Failure::not_started("a thread for signals", &error))
}

/// Whether the signal demands the end of redquorum even if the command survives the signal. SIGHUP and
/// SIGQUIT do not, because many programs reload on SIGHUP, and print their threads on SIGQUIT.
pub(crate) fn demands_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM)
}

/// Whether the signal ends redquorum while no command runs.
pub(crate) fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM)
}

/// Returns the signals of [`PASSED_ON`] that were not ignored when this process was started.
fn not_ignored() -> impl Iterator<Item = Signal> {
    let ignored = ignored();
    PASSED_ON.into_iter().filter(move |signal| ignored & (1 << (*signal as i32 - 1)) == 0)
}

/// Returns the signals that this process ignores, as a mask with signal 1 in the lowest bit.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns an empty mask, because only unsafe code could ask this system for the ignored signals.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn ignored() -> u64 {
    0
}
