//! `redquorum observe`: who leads.

use std::{ffi::OsString, fmt, os::unix::ffi::OsStrExt};

use clap::Args;
use redquorum::election::Leader;
use serde::Serialize;

use crate::{app::App, exit::Exit, failure::Failure, name};

/// Follow the leaders of an election
///
/// Prints the present leader, if there is one, and then every change of leader or value: a line
/// with the term, when it was elected (by its own clock), and the value. When nobody leads any
/// more, nothing is printed.
#[derive(Args, Debug)]
pub(crate) struct Observe {
    /// The election
    name: OsString,
    /// Print the present leader and end; if nobody leads, with exit status 80
    #[arg(long)]
    once: bool,
}

/// A line of the output of `observe`: a leader.
#[derive(Debug, Serialize)]
struct LeaderOutput {
    term: u64,
    since: String,
    /// `None`: it is not UTF-8.
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    /// As people read it, in one line whatever is in it.
    #[serde(skip)]
    shown: String,
}

impl Observe {
    /// Prints leaders.
    ///
    /// # Errors
    ///
    /// Why nobody can be asked.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let election = quorum.election(self.name.as_bytes());
            if self.once {
                let leader = election.leader().await?;
                let nobody = || {
                    Failure::new(
                        Exit::NoLeader,
                        format!("nobody leads {}", name::shown(self.name.as_bytes())),
                    )
                };
                app.output.print(&LeaderOutput::new(&leader.ok_or_else(nobody)?))?;
                return Ok(Exit::Success);
            }
            // Signals do what they do to anybody: it holds nothing that would have to be given
            // back, and while nobody reads what it prints, it would not hear them.
            let mut leaders = election.observe()?;
            while let Some(leader) = leaders.next().await {
                app.output.print(&LeaderOutput::new(&leader))?;
            }
            Err(Failure::new(Exit::Internal, "the quorum was shut down"))
        })
        .await
    }
}

impl LeaderOutput {
    fn new(leader: &Leader) -> Self {
        let (value, value_hex) = name::told(leader.value());
        Self {
            term: leader.term().as_u64(),
            since: humantime::format_rfc3339_millis(leader.since()).to_string(),
            value,
            value_hex,
            shown: name::shown(leader.value()),
        }
    }
}

impl fmt::Display for LeaderOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}", self.term, self.since, self.shown)
    }
}
