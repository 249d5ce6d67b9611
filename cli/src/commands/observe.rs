//! `redquorum observe`: prints the leaders of an election.

use std::{ffi::OsString, fmt, os::unix::ffi::OsStrExt};

use clap::Args;
use redquorum::election::Leader;
use serde::Serialize;

use crate::{app::App, exit::Exit, failure::Failure, name, wait_report::report_shortage};

/// Follow the leaders of an election
///
/// Prints the present leader, if there is one, and then every change of leader or value: a line with
/// the term, the time of the election (by the leader's clock), and the value. The end of a leadership
/// without a new leader is not printed. While no quorum votes, `observe` waits, and reports the missing
/// nodes on standard error.
#[derive(Args, Debug)]
pub(crate) struct Observe {
    /// The name of the election
    name: OsString,
    /// Print the present leader and end; without a leader, the exit status is 80
    #[arg(long)]
    once: bool,
}

/// A leader, as a line of the output of `observe`.
#[derive(Debug, Serialize)]
struct LeaderOutput {
    term: u64,
    since: String,
    /// The value; `None` if it is not UTF-8.
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    /// The value as text in one line.
    #[serde(skip)]
    shown: String,
}

impl Observe {
    /// Prints leaders.
    ///
    /// # Errors
    ///
    /// Fewer answers than a quorum; no leader, with `--once`.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let election = quorum.election(self.name.as_bytes());
            if self.once {
                let leader = election.leader().await?;
                let no_leader = || {
                    let name = name::shown(self.name.as_bytes());
                    let message = format!("{name} has no leader: without --once, `observe` waits for one");
                    Failure::new(Exit::NoLeader, message)
                };
                app.output.print(&LeaderOutput::new(&leader.ok_or_else(no_leader)?))?;
                return Ok(Exit::Success);
            }
            // Signals have their default effect. There is no lease to unlock, and the command could not handle a
            // signal while a write to a full pipe blocks.
            let mut leaders = election.observe()?;
            let printing = async {
                while let Some(leader) = leaders.next().await {
                    app.output.print(&LeaderOutput::new(&leader))?;
                }
                Err(Failure::new(Exit::Internal, "the quorum was shut down"))
            };
            tokio::select! {
                biased;
                ended = printing => ended,
                never = report_shortage(quorum, self.name.as_bytes(), &app.messages) => match never {},
            }
        })
        .await
    }
}

impl LeaderOutput {
    fn new(leader: &Leader) -> Self {
        let (value, value_hex) = name::text_or_hex(leader.value());
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
