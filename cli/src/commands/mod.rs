//! The commands. Each file has the arguments and the work of one command.

use redquorum::{LockOptions, error::NodeReplies};

use crate::{app::App, arguments::Command, duration::GivenDuration, exit::Exit, failure::Failure};

pub(crate) mod acquisition;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod force_unlock;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod latch;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod man;
pub(crate) mod observe;
pub(crate) mod reconfigure;
pub(crate) mod replace;
pub(crate) mod run;
pub(crate) mod top;
pub(crate) mod unlock;

/// Returns the options of a lock or an election, with the ttl and the quorum timeout if they are given.
fn lock_options(ttl: Option<&GivenDuration>, quorum_timeout: Option<&GivenDuration>) -> LockOptions {
    let mut options = LockOptions::new();
    if let Some(ttl) = ttl {
        options = options.ttl(**ttl);
    }
    if let Some(timeout) = quorum_timeout {
        options = options.quorum_timeout(**timeout);
    }
    options
}

/// Returns the failure of `--kill-after` with an `--on-loss` other than `term`.
fn kill_after_without_term() -> Failure {
    Failure::usage(
        "--kill-after is the time after SIGTERM, which only `--on-loss term`, the default, sends: leave out --kill-after or \
         the other --on-loss",
    )
}

/// Returns a message for the user if fewer nodes than a quorum have confirmed an unlock so far.
fn unconfirmed(resource: &str, replies: &NodeReplies) -> Option<String> {
    let message = || format!("no quorum confirmed the unlock of {resource} yet; {replies}");
    (!replies.has_quorum()).then(message)
}

impl Command {
    /// Whether the command handles signals itself. Otherwise a signal ends the process.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Lock(_)
                | Self::Elect(_)
                | Self::Top(_)
                | Self::Bench(_)
                | Self::Reconfigure(_)
                | Self::Replace(_)
        )
    }

    /// Performs the command.
    ///
    /// # Errors
    ///
    /// The failure, with the exit status.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        match self {
            Self::Run(run) => run.perform(app).await,
            Self::Lock(lock) => lock.perform(app).await,
            Self::Unlock(unlock) => unlock.perform(app).await,
            Self::Elect(elect) => elect.perform(app).await,
            Self::Observe(observe) => observe.perform(app).await,
            Self::Latch(latch) => latch.perform(app).await,
            Self::Inspect(inspect) => inspect.perform(app).await,
            Self::List(list) => list.perform(app).await,
            Self::Top(top) => top.perform(app).await,
            Self::ForceUnlock(force_unlock) => force_unlock.perform(app).await,
            Self::Init(init) => init.perform(app).await,
            Self::Reconfigure(reconfigure) => reconfigure.perform(app).await,
            Self::Replace(replace) => replace.perform(app).await,
            Self::Doctor(doctor) => doctor.perform(app).await,
            Self::Bench(bench) => bench.perform(app).await,
            Self::Completions(completions) => completions.perform(),
            Self::Man(pages) => pages.perform(),
        }
    }
}
