//! `redquorum list`: what is locked.

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

/// List what is locked
///
/// For each lock: who has it (what its client calls itself), how long it has it yet unless it is
/// renewed, how many wait, how many nodes have it, and which nodes say otherwise than the quorum.
/// Also locks that too few nodes have are listed. The user needs the permission `+scan` on the nodes.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only names like this one: `*` stands for any text, `?` for any character
    pattern: Option<String>,
}

/// The output of `list`.
#[derive(Debug, Serialize)]
struct ListOutput {
    locks: Vec<Row>,
    silent: Vec<SilentNode>,
}

#[derive(Debug, Serialize)]
struct SilentNode {
    node: String,
    error: String,
}

impl List {
    /// Asks all nodes.
    ///
    /// # Errors
    ///
    /// Why no quorum of them could be asked.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let listing = wanted(quorum, self.pattern.as_deref()).await?;
            silent(&listing).iter().for_each(|node| app.messages.notice(node));
            let silent = listing
                .silent()
                .map(|(node, error)| SilentNode { node: node.to_owned(), error: error.to_string() });
            app.output.print(&ListOutput { locks: of_listing(&listing), silent: silent.collect() })?;
            Ok(Exit::Success)
        })
        .await
    }
}

/// What is locked, of names like this.
pub(super) async fn wanted(quorum: &Quorum, pattern: Option<&str>) -> Result<Listing, Failure> {
    let pattern = pattern.map(WildMatch::new);
    let is_wanted = |what: &LockName| {
        let name = String::from_utf8_lossy(what.name().as_bytes());
        pattern.as_ref().is_none_or(|pattern| pattern.matches(&name))
    };
    Ok(admin::list(quorum, is_wanted).await?)
}

/// The nodes that did not tell all, and why.
pub(super) fn silent(listing: &Listing) -> Vec<String> {
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
