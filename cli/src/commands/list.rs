//! `redquorum list`: lists the locks.

use std::fmt;

use clap::Args;
use redquorum::{
    __command::list_answering,
    Quorum, admin,
    inspection::{Listing, LockName},
};
use serde::Serialize;
use wildmatch::WildMatch;

use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{LatchRow, Row, latches_of_listing, lines, of_listing},
    table,
    wait_cycles::{self, WaitCycle},
};

/// The notice that locks may be missing.
pub(super) const PARTIAL_LIST: &str = "partial list: the nodes that answered are no quorum";

/// List the locks and latches
///
/// Shows for each lock the owner (the label of its client), the remaining ttl without a renewal, the
/// number of waiters (on a terminal, also the first waiters), the number of nodes that have the lock,
/// and the nodes that differ from the quorum. The state of an election is `led`. A latch is shown with
/// its arrivals. Locks on fewer nodes than a quorum are listed, too. If fewer nodes than a quorum
/// answer, the list has the locks of these nodes, is marked as partial, and the exit status is 69. The
/// user needs the permission `+scan` on the nodes.
///
/// Locks of clients that wait for each other are marked with `*`, if a second list shows the same waits
/// a second later. A pattern also limits this search.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// A pattern for the names: `*` is any text, `?` any character [default: all locks]
    pattern: Option<String>,
}

/// The output of `list`.
#[derive(Debug, Serialize)]
struct ListOutput {
    locks: Vec<Row>,
    latches: Vec<LatchRow>,
    /// The cycles of clients that wait for each other.
    cycles: Vec<WaitCycle>,
    silent: Vec<SilentNode>,
    /// Whether the nodes that answered are no quorum, so that locks may be missing.
    partial: bool,
}

/// A node without a complete answer, with the reason.
#[derive(Debug, Serialize)]
struct SilentNode {
    node: String,
    error: String,
}

impl List {
    /// Queries all nodes and prints the locks. Without a quorum, prints the locks of the nodes that answer.
    ///
    /// # Errors
    ///
    /// Fewer answers than a quorum.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let pattern = self.pattern.as_deref();
        let listed = app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let listing = list(quorum, pattern).await?;
            silent_nodes(&listing).iter().for_each(|node| app.messages.notice(node));
            let cycles = wait_cycles::search(&listing, async || list(quorum, pattern).await).await?;
            app.output.print(&ListOutput::of(&listing, cycles, false))?;
            Ok(Exit::Success)
        });
        match listed.await {
            Err(failure) if failure.exit == Exit::NoQuorum => {
                // The failure names every node, so a listing without an answer has nothing to add.
                if let Ok(listing) = list_answering(&settings.builder(), matcher(pattern)).await {
                    // Without a quorum, no lock has a holder, so there are no cycles.
                    app.output.print(&ListOutput::of(&listing, Vec::new(), true))?;
                }
                Err(failure)
            }
            listed => listed,
        }
    }
}

impl ListOutput {
    fn of(listing: &Listing, cycles: Vec<WaitCycle>, partial: bool) -> Self {
        let silent = listing
            .silent()
            .map(|(node, error)| SilentNode { node: node.to_owned(), error: error.to_string() });
        let (locks, latches) = (of_listing(listing, &cycles), latches_of_listing(listing));
        Self { locks, latches, cycles, silent: silent.collect(), partial }
    }
}

/// Returns the locks whose names match the pattern.
pub(super) async fn list(quorum: &Quorum, pattern: Option<&str>) -> Result<Listing, Failure> {
    Ok(admin::list(quorum, matcher(pattern)).await?)
}

/// Returns the check whether the name of a lock matches the pattern.
pub(super) fn matcher(pattern: Option<&str>) -> impl Fn(&LockName) -> bool + use<> {
    let pattern = pattern.map(WildMatch::new);
    move |lock: &LockName| {
        let name = String::from_utf8_lossy(lock.name().as_bytes());
        pattern.as_ref().is_none_or(|pattern| pattern.matches(&name))
    }
}

/// Returns the nodes without a complete answer, with the reasons.
pub(super) fn silent_nodes(listing: &Listing) -> Vec<String> {
    listing.silent().map(|(node, error)| format!("{node}: {error}")).collect()
}

impl fmt::Display for ListOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.locks.is_empty() && self.latches.is_empty(), self.partial) {
            (true, true) => f.write_str("no node that answered has a lock")?,
            (true, false) => f.write_str("nothing is locked")?,
            (false, _) => {
                let latches = self.latches.iter().map(|row| &row.table_row);
                let rows = self.locks.iter().map(|row| &row.table_row).chain(latches);
                f.write_str(&lines(rows, table::width()).join("\n"))?;
            }
        }
        for cycle in &self.cycles {
            write!(f, "\n{}", table::wrapped(&format!("* {cycle}"), table::width()))?;
        }
        if self.partial {
            write!(f, "\n{PARTIAL_LIST}")?;
        }
        Ok(())
    }
}
