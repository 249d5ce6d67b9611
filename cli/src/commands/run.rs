//! `redquorum run`: a command under a lock.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::Duration,
};

use clap::Args;
use redquorum::{MultiLock, MultiLockGuard, Quorum, error::UnlockError};

use crate::{
    app::App,
    duration,
    exit::Exit,
    failure::Failure,
    name,
    narration::narrate,
    settings::Settings,
    supervise::{
        Ended, Job,
        rule::{Marks, OnLoss, Rule},
        signals::Signals,
    },
    waiting::Waiting,
};

/// Run a command while holding a lock
///
/// Takes the lock, runs the command in a process group of its own while renewing the lease, and
/// gives the lock back when the command has ended. The command finds REDQUORUM_RESOURCE (the names,
/// one to a line) and REDQUORUM_FENCING_TOKEN in its environment. Signals are passed on to it, and
/// its exit status is passed back.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// What to lock; several are locked together, all or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Share it with others that do, instead of having it alone
    #[arg(long)]
    shared: bool,
    /// How long the nodes keep the lock without a renewal [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long to wait while others hold it; 0 tries once [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// How long to go on while no quorum of nodes can be asked, or connected [default: the ttl, or
    /// until the nodes vote again that are in quarantine, if that is later; the file's
    /// connect_timeout, or 5s, or --wait if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    quorum_timeout: Option<Duration>,
    /// What becomes of the command when the lease is about to end
    #[arg(long, value_enum, value_name = "WHAT", default_value = "term")]
    on_loss: OnLoss,
    /// With `--on-loss term`: from SIGTERM to SIGKILL [default: a sixth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    kill_after: Option<Duration>,
    /// The command to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    /// Takes the lock, runs the command, and gives the lock back when it has ended.
    ///
    /// # Errors
    ///
    /// Why the lock was not had, or not kept.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let rule = self.rule(&settings)?;
        // A command that does not wait for long does not wait for nodes any longer.
        let short_wait = self.wait.filter(|wait| *wait < settings.connect_timeout());
        let builder = settings.builder_within(self.quorum_timeout.or(short_wait));
        app.with_quorum_of(&settings, builder, async |quorum| {
            let mut signals = Signals::register()?;
            let guard = tokio::select! {
                biased;
                signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                guard = self.take(quorum, settings.votes_needed(), app) => guard?,
            };
            let job = Job { command: &self.command, variables: self.variables(&guard), rule };
            let ended = job.run(&guard, &mut signals, app).await?;
            self.give_back(guard, ended, app).await
        })
        .await
    }

    fn rule(&self, settings: &Settings) -> Result<Rule, Failure> {
        if self.kill_after.is_some() && self.on_loss != OnLoss::Term {
            return Err(Failure::usage(
                "--kill-after is for `--on-loss term`: otherwise there is no SIGTERM",
            ));
        }
        let ttl = self.ttl.unwrap_or_else(|| settings.ttl());
        Marks::new(ttl, self.kill_after).map(|marks| Rule::new(self.on_loss, marks)).map_err(Failure::usage)
    }

    fn lock(&self, quorum: &Quorum) -> MultiLock {
        let names = self.names.iter().map(|name| name.as_bytes());
        let lock = quorum.multi_lock(names).options(super::lock_options(self.ttl, self.quorum_timeout));
        if self.shared { lock.shared() } else { lock }
    }

    async fn take(&self, quorum: &Quorum, votes_needed: usize, app: &App) -> Result<MultiLockGuard, Failure> {
        let lock = self.lock(quorum);
        match self.wait {
            Some(Duration::ZERO) => {
                let held = || Failure::new(Exit::Held, format!("somebody else holds {}", self.shown()));
                lock.try_lock().await?.ok_or_else(held)
            }
            wait => {
                let waiting = Waiting::show(&app.messages, format!("waiting for {}", self.shown()));
                let locking = async {
                    match wait {
                        None => lock.lock().await,
                        Some(wait) => lock.try_lock_for(wait).await,
                    }
                };
                tokio::select! {
                    biased;
                    guard = locking => guard.map_err(|error| Failure::waited(error, votes_needed)),
                    never = narrate(&waiting, quorum, &self.names, &app.messages) => match never {},
                }
            }
        }
    }

    /// What the command finds in its environment: one token, as several names of one quorum are one
    /// lease.
    fn variables(&self, guard: &MultiLockGuard) -> Vec<(&'static str, OsString)> {
        let names: Vec<&[u8]> = self.names.iter().map(|name| name.as_bytes()).collect();
        let token = self.names.first().and_then(|name| guard.token_of(name.as_bytes()));
        let token = token.map_or_else(OsString::new, |token| token.to_string().into());
        let names = OsString::from_vec(names.join(&b'\n'));
        vec![("REDQUORUM_RESOURCE", names), ("REDQUORUM_FENCING_TOKEN", token)]
    }

    async fn give_back(&self, guard: MultiLockGuard, ended: Ended, app: &App) -> Result<Exit, Failure> {
        let unlocked = guard.unlock().await;
        if ended.is_stopped {
            let message = format!("the command was stopped: the lease on {} could not be kept", self.shown());
            return Err(Failure::new(Exit::LeaseLost, message));
        }
        match unlocked {
            Ok(_) => Ok(ended.exit),
            // It has been told already.
            Err(UnlockError::LeaseLost { .. }) if self.on_loss == OnLoss::Ignore => Ok(ended.exit),
            Err(error @ UnlockError::LeaseLost { .. }) => Err(Failure::new(Exit::LeaseLost, error)),
            Err(error) => {
                app.messages.notice(&error.to_string());
                Ok(ended.exit)
            }
        }
    }

    fn shown(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| name::shown(name)).collect();
        names.join(", ")
    }
}
