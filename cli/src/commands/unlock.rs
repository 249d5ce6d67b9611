//! `redquorum unlock`: releases a ticket.

use std::{ffi::OsString, fmt, os::unix::ffi::OsStringExt, path::PathBuf};

use clap::Args;
use serde::Serialize;

use crate::{app::App, commands::acquisition::shown, exit::Exit, failure::Failure, ticket_source};

/// Release a ticket
///
/// Unlocks the names of a ticket that `lock` has printed. A command that has redeemed the ticket before
/// keeps its lock.
#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// The ticket: a file, or `-` for the first line of standard input
    #[arg(long, value_name = "FILE")]
    ticket_from: PathBuf,
}

/// The output of `unlock`.
#[derive(Debug, Serialize)]
struct UnlockOutput {
    /// The names of the ticket, as texts show them.
    names: String,
    /// Whether a quorum of nodes has confirmed.
    confirmed: bool,
}

impl fmt::Display for UnlockOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ticket of {} is released", self.names)
    }
}

impl Unlock {
    /// Releases the ticket.
    ///
    /// # Errors
    ///
    /// The failure to read the ticket, or to connect.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let ticket = ticket_source::read(&self.ticket_from)?;
        let names = ticket.resources().iter().map(|name| OsString::from_vec(name.as_bytes().to_vec()));
        let names = shown(&names.collect::<Vec<_>>());
        let settings = app.settings()?;
        app.with_quorum(&settings, async |quorum| {
            let replies = quorum.release(&ticket).await?;
            if let Some(notice) = super::unconfirmed(&names, &replies) {
                app.messages.notice(&notice);
            }
            app.output.print(&UnlockOutput { names, confirmed: replies.has_quorum() })?;
            Ok(Exit::Success)
        })
        .await
    }
}
