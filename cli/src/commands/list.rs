//! `redquorum list`: lists the locks.

use std::fmt;

use clap::Args;
use redquorum::{
    Quorum, admin,
    inspection::{Listing, LockName},
};
use serde::Serialize;
use wildmatch::WildMatch;

use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{Row, lines, of_listing},
    table,
};

/// List the locks
///
/// Shows for each lock the owner (the label of its client), the remaining ttl without a renewal, the
/// number of waiters, the number of nodes that have the lock, and the nodes that differ from the
/// quorum. Locks on fewer nodes than a quorum are listed, too. The user needs the permission `+scan`
/// on the nodes.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// A pattern for the names: `*` is any text, `?` any character [default: all locks]
    pattern: Option<String>,
}

/// The output of `list`.
#[derive(Debug, Serialize)]
struct ListOutput {
    locks: Vec<Row>,
    silent: Vec<SilentNode>,
}

/// A node without a complete answer, with the reason.
#[derive(Debug, Serialize)]
struct SilentNode {
    node: String,
    error: String,
}

impl List {
    /// Queries all nodes and prints the locks.
    ///
    /// # Errors
    ///
    /// Fewer answers than a quorum.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let listing = list(quorum, self.pattern.as_deref()).await?;
            silent_nodes(&listing).iter().for_each(|node| app.messages.notice(node));
            let silent = listing
                .silent()
                .map(|(node, error)| SilentNode { node: node.to_owned(), error: error.to_string() });
            app.output.print(&ListOutput { locks: of_listing(&listing), silent: silent.collect() })?;
            Ok(Exit::Success)
        })
        .await
    }
}

/// Returns the locks whose names match the pattern.
pub(super) async fn list(quorum: &Quorum, pattern: Option<&str>) -> Result<Listing, Failure> {
    let pattern = pattern.map(WildMatch::new);
    let matches = |lock: &LockName| {
        let name = String::from_utf8_lossy(lock.name().as_bytes());
        pattern.as_ref().is_none_or(|pattern| pattern.matches(&name))
    };
    Ok(admin::list(quorum, matches).await?)
}

/// Returns the nodes without a complete answer, with the reasons.
pub(super) fn silent_nodes(listing: &Listing) -> Vec<String> {
    listing.silent().map(|(node, error)| format!("{node}: {error}")).collect()
}

impl fmt::Display for ListOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.locks.is_empty() {
            return f.write_str("nothing is locked");
        }
        let rows: Vec<&Row> = self.locks.iter().collect();
        f.write_str(&lines(&rows, table::width()).join("\n"))
    }
}
