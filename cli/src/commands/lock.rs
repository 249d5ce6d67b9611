//! `redquorum lock`: locks names, and prints a ticket of the lock.

use std::{ffi::OsString, fmt};

use clap::Args;
use redquorum::{Quorum, Ticket};
use serde::Serialize;

use crate::{
    app::App,
    commands::acquisition::{Acquisition, HeldLock},
    duration::{self, GivenDuration},
    exit::Exit,
    failure::Failure,
    number,
};

/// Lock names, and print a ticket for another process
///
/// Acquires the lock, prints a ticket, and ends. The names stay locked until the ticket is redeemed
/// (`run --ticket-from -`), released (`unlock --ticket-from -`), or over. No other client can hold the names
/// between this command and the command that redeems the ticket, and of several commands that redeem
/// the ticket, at most one succeeds. The ticket contains a secret: pass it on by a pipe or a file, not by an
/// argument.
#[derive(Args, Debug)]
pub(crate) struct Lock {
    /// The name to lock; several names are locked together, all or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// The time after which the ticket is over: at most max_ttl (60s unless the quorum sets another)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    ticket_ttl: GivenDuration,
    /// The time to wait for other holders; 0 makes one attempt [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    wait: Option<GivenDuration>,
    /// The exit status instead of 75 if other clients hold the lock until the end of the wait: 1 to 255
    #[arg(long, value_name = "STATUS", value_parser = number::within(1_u8..=255), allow_negative_numbers = true)]
    held_exit: Option<u8>,
    /// The time for which to retry while no quorum answers or can be connected [default: the ttl, or
    /// until nodes in quarantine vote again, if that is later; to connect, the file's connect_timeout,
    /// or 30s, or --wait if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    quorum_timeout: Option<GivenDuration>,
}

/// The output of `lock`.
#[derive(Serialize)]
struct LockOutput {
    ticket: String,
    fencing_token: u64,
}

impl fmt::Display for LockOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ticket)
    }
}

impl Lock {
    /// Acquires the lock, and prints the ticket.
    ///
    /// # Errors
    ///
    /// Fails if the lock is not acquired, or does not become a ticket.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        self.issue(app).await.map_err(|failure| match (failure.exit, self.held_exit) {
            (Exit::Held, Some(status)) => Failure { exit: Exit::HeldAs(status), ..failure },
            _ => failure,
        })
    }

    async fn issue(&self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let longest = settings.effective.max_ttl;
        if *self.ticket_ttl > longest {
            let (given, longest) = (&self.ticket_ttl, duration::shown(longest));
            return Err(Failure::usage(format!(
                "--ticket-ttl is {given}: a ticket lives at most for the max_ttl of the quorum, {longest}"
            )));
        }
        // The connection must not take longer than a short --wait.
        let short_wait = self.wait.as_deref().filter(|wait| **wait < settings.effective.connect_timeout);
        let builder = settings.builder_within(self.quorum_timeout.as_deref().or(short_wait).copied());
        app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let ticket = tokio::select! {
                biased;
                signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                ticket = self.ticket(quorum, app) => ticket?,
            };
            let output =
                LockOutput { ticket: ticket.to_string(), fencing_token: ticket.fencing_token().as_u64() };
            if let Err(failure) = app.output.print(&output) {
                // The ticket was not printed, so no other command can redeem or release it.
                quorum.release(&ticket).await?;
                return Err(failure);
            }
            Ok(Exit::Success)
        })
        .await
    }

    async fn ticket(&self, quorum: &Quorum, app: &App) -> Result<Ticket, Failure> {
        let options = super::lock_options(None, self.quorum_timeout.as_ref());
        let (names, wait) = (&*self.names, self.wait.as_ref());
        let acquisition =
            Acquisition { names, shared: false, permits: None, wait, options, permit_counts: None };
        match acquisition.acquire(quorum, app).await? {
            HeldLock::Lock(guard) => Ok(guard.into_ticket(*self.ticket_ttl).await?),
            HeldLock::Permit(_) => Err(Failure::internal("make a ticket", "the lock is a permit")),
        }
    }
}
