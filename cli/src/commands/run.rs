//! `redquorum run`: a command under a lock.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::Duration,
};

use clap::{Args, value_parser};
use redquorum::{
    Lease, LockGuard, MultiLock, Permit, Quorum, Semaphore,
    error::{Error, NodeReplies},
};

use crate::{
    app::App,
    counted::counted,
    duration,
    exit::Exit,
    failure::Failure,
    holders, name,
    narration::narrate,
    settings::Settings,
    supervise::{
        Job, JobEnd,
        rule::{Marks, OnLoss, Rule},
    },
    waiting::Waiting,
    what_to_run::WhatToRun,
};

/// Run a command while holding a lock
///
/// Takes the lock, runs the command in a process group of its own while renewing the lease, and
/// gives the lock back when the command has ended. The command finds REDQUORUM_RESOURCE (the names,
/// one to a line) and REDQUORUM_FENCING_TOKEN in its environment, and the variables of the options below
/// that are for the quorum and the output. Signals are passed on to it, and
/// its exit status is passed back.
///
/// With -n, so many of these commands run at a time under the name, from wherever they are started,
/// each in a slot of its own, from 0: REDQUORUM_SLOT. Tokens grow for each slot, and those of two
/// slots say nothing of each other.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// What to lock; several are locked together, all or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Share it with others that do, instead of having it alone
    #[arg(long)]
    shared: bool,
    /// Let so many run at a time, instead of one: 1 to 1024, the same wherever the name is used
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "shared")]
    #[arg(value_parser = value_parser!(u32).range(1..=1024))]
    permits: Option<u32>,
    /// How long the nodes keep the lock without a renewal [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long to wait while others hold it; 0 tries once [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// The exit status if others held it for as long as was waited, in place of 75: 1 to 255
    #[arg(long, value_name = "STATUS", value_parser = value_parser!(u8).range(1..))]
    held_exit: Option<u8>,
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
    #[command(flatten)]
    what: WhatToRun,
}

/// What a command is to run under.
enum RunLock {
    Lock(MultiLock),
    Permit(Semaphore),
}

/// What a command runs under.
enum RunGuard {
    Lock(LockGuard),
    Permit(Permit),
}

impl RunLock {
    /// Waits without a limit while other clients hold the lock.
    async fn take(&self) -> Result<RunGuard, Error> {
        Ok(match self {
            Self::Lock(lock) => RunGuard::Lock(lock.lock().await?),
            Self::Permit(semaphore) => RunGuard::Permit(semaphore.acquire().await?),
        })
    }

    /// Waits for at most `wait`: `None` if other clients held the lock for all that time.
    async fn take_within(&self, wait: Duration) -> Result<Option<RunGuard>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock_for(wait).await?.map(RunGuard::Lock),
            Self::Permit(semaphore) => semaphore.try_acquire_for(wait).await?.map(RunGuard::Permit),
        })
    }

    /// Makes one attempt: `None` if other clients hold the lock.
    async fn try_once(&self) -> Result<Option<RunGuard>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock().await?.map(RunGuard::Lock),
            Self::Permit(semaphore) => semaphore.try_acquire().await?.map(RunGuard::Permit),
        })
    }
}

impl RunGuard {
    fn lease(&self) -> &Lease {
        match self {
            Self::Lock(guard) => guard,
            Self::Permit(permit) => permit,
        }
    }

    async fn unlock(self) -> Result<NodeReplies, Error> {
        match self {
            Self::Lock(guard) => guard.unlock().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

impl Run {
    /// Takes the lock, runs the command, and gives the lock back when it has ended.
    ///
    /// # Errors
    ///
    /// Why the lock was not had, or not kept.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let performed = self.lock_and_run(app).await;
        performed.map_err(|failure| match (failure.exit, self.held_exit) {
            (Exit::Held, Some(status)) => Failure { exit: Exit::HeldAs(status), ..failure },
            _ => failure,
        })
    }

    async fn lock_and_run(&self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let rule = self.rule(&settings)?;
        if self.permits.is_some() && self.names.len() > 1 {
            return Err(Failure::usage("-n is for one name: a semaphore is no member of a group"));
        }
        // A command that does not wait for long does not wait for nodes any longer.
        let short_wait = self.wait.filter(|wait| *wait < settings.effective.connect_timeout);
        let builder = settings.builder_within(self.quorum_timeout.or(short_wait));
        app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let guard = tokio::select! {
                biased;
                signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                taken = self.take(quorum, app) => taken?,
            };
            let job = Job { command: &self.what.words(), variables: self.variables(&guard), rule };
            let ended = job.run(guard.lease(), signals, app).await?;
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
        let ttl = self.ttl.unwrap_or(settings.effective.ttl);
        Marks::new(ttl, self.kill_after).map(|marks| Rule::new(self.on_loss, marks)).map_err(Failure::usage)
    }

    fn lock(&self, quorum: &Quorum) -> RunLock {
        let options = super::lock_options(self.ttl, self.quorum_timeout);
        if let (Some(permits), Some(name)) = (self.permits, self.names.first()) {
            return RunLock::Permit(quorum.semaphore(name.as_bytes(), permits).options(options));
        }
        let names = self.names.iter().map(|name| name.as_bytes());
        let lock = match self.shared {
            true => quorum.multi_lock::<&[u8]>([]).and_read(names),
            false => quorum.multi_lock(names),
        };
        RunLock::Lock(lock.options(options))
    }

    async fn take(&self, quorum: &Quorum, app: &App) -> Result<RunGuard, Failure> {
        let lock = self.lock(quorum);
        if self.wait == Some(Duration::ZERO) {
            return lock.try_once().await?.ok_or_else(|| Failure::new(Exit::Held, self.taken()));
        }
        let waiting = Waiting::show(&app.messages, format!("waiting for {}", self.shown()));
        // Of many holders, none is the one that is waited for.
        let shows_holder = self.permits.is_none();
        let narrating = narrate(&waiting, quorum, &self.names, shows_holder, &app.messages);
        let taking = async {
            let Some(wait) = self.wait else { return Ok(lock.take().await?) };
            match lock.take_within(wait).await? {
                Some(held) => Ok(held),
                None => Err(self.not_free(quorum, wait).await),
            }
        };
        tokio::select! {
            biased;
            held = taking => held,
            never = narrating => match never {},
        }
    }

    /// The failure of a wait through which other clients held the lock, with their leases as evidence.
    async fn not_free(&self, quorum: &Quorum, waited: Duration) -> Failure {
        let (shown, waited) = (self.shown(), duration::shown(waited));
        let message = match (self.permits, self.names.len()) {
            (Some(permits), _) => {
                let permits = counted(permits as usize, "permit");
                format!("{shown} has {permits}, and none was free within {waited}")
            }
            (None, 1) => format!("{shown} was not free within {waited}"),
            (None, _) => format!("{shown} were not all free at once within {waited}"),
        };
        let evidence = match (self.permits, self.names.first()) {
            (Some(permits), Some(name)) => holders::of_semaphore(quorum, name.as_bytes(), permits).await,
            _ => holders::of_lock(quorum, &self.names).await,
        };
        Failure { evidence, ..Failure::new(Exit::Held, message) }
    }

    /// What the command finds in its environment: one token, as several names of one quorum are one
    /// lease.
    fn variables(&self, held: &RunGuard) -> Vec<(&'static str, OsString)> {
        let names: Vec<&[u8]> = self.names.iter().map(|name| name.as_bytes()).collect();
        let slot = match held {
            RunGuard::Lock(_) => None,
            RunGuard::Permit(permit) => Some(permit.slot()),
        };
        let token = held.lease().fencing_token().to_string().into();
        let names = OsString::from_vec(names.join(&b'\n'));
        let slot = slot.map(|slot| ("REDQUORUM_SLOT", slot.to_string().into()));
        [("REDQUORUM_RESOURCE", names), ("REDQUORUM_FENCING_TOKEN", token)].into_iter().chain(slot).collect()
    }

    fn taken(&self) -> String {
        match self.permits {
            None => format!("somebody else holds {}", self.shown()),
            Some(permits) => {
                format!("{} has {}, and all are in use", self.shown(), counted(permits as usize, "permit"))
            }
        }
    }

    async fn give_back(&self, guard: RunGuard, ended: JobEnd, app: &App) -> Result<Exit, Failure> {
        let unlocked = guard.unlock().await;
        if ended.is_stopped {
            let message = format!("the command was stopped: the lease on {} could not be kept", self.shown());
            return Err(Failure::new(Exit::LeaseLost, message));
        }
        match unlocked {
            Ok(replies) => {
                if let Some(notice) = super::unconfirmed(&self.shown(), &replies) {
                    app.messages.notice(&notice);
                }
                Ok(ended.exit)
            }
            // It has been told already.
            Err(Error::LeaseLost(_)) if self.on_loss == OnLoss::Ignore => Ok(ended.exit),
            Err(Error::LeaseLost(lost)) => {
                Err(Failure::new(Exit::LeaseLost, format!("{lost} before it was unlocked")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn shown(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| name::shown(name.as_bytes())).collect();
        names.join(", ")
    }
}
