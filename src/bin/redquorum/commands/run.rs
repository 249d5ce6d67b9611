//! `redquorum run`: a command under a lock.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    process::Command,
    time::Duration,
};

use clap::Args;

use crate::{app::App, duration, exit::Exit, failure::Failure};

/// Run a command while holding a lock
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// What to lock; several are locked together, all or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// How long the nodes keep the lock without a renewal [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long to wait while others hold it; 0 tries once [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
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
        app.with_quorum(&settings, async |quorum| {
            let lock = quorum.multi_lock(self.names.iter().map(|name| name.as_bytes()));
            let lock = match self.ttl {
                Some(ttl) => lock.ttl(ttl),
                None => lock,
            };
            let guard = match self.wait {
                None => lock.lock().await?,
                Some(Duration::ZERO) => lock
                    .try_lock()
                    .await?
                    .ok_or_else(|| Failure::new(Exit::Held, "somebody else holds it"))?,
                Some(wait) => lock.try_lock_for(wait).await?,
            };
            let exit = self.execute()?;
            guard.unlock().await.map_err(|error| Failure::new(Exit::LeaseLost, error))?;
            Ok(exit)
        })
        .await
    }

    fn execute(&self) -> Result<Exit, Failure> {
        let mut words = self.command.iter();
        let program = words.next().map_or(OsStr::new(""), OsString::as_os_str);
        let status = Command::new(program).args(words).status();
        let status = status.map_err(|error| Failure::new(Exit::NotFound, error))?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Command(code.try_into().unwrap_or(u8::MAX)),
            (None, signal) => Exit::Signal(signal.and_then(|signal| signal.try_into().ok()).unwrap_or(0)),
        })
    }
}
