//! `redquorum doctor`: checks whether the nodes are a sound quorum.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use clap::Args;
use redquorum::__command::keys_of;

use crate::{
    app::App,
    doctor::{
        finding::Level,
        gather::gather,
        judge::judge,
        report::{NOTE, Summary},
    },
    duration,
    exit::Exit,
    failure::Failure,
    number,
    waiting::WaitLine,
};

/// Check whether the nodes are a sound quorum
///
/// Checks each node, and all nodes together, and prints a line for each warning and failure, with the
/// remedy. Uses plain connections without a registration, and tries every command of locks, semaphores,
/// latches and elections with reserved names, which are deleted afterwards. A check that the user has
/// no permission for is a warning, "cannot tell". If a check fails, the exit status is 81.
///
/// Single locks are not checked: `inspect` shows the holder of a lock, and `force-unlock` ends the
/// lock. A key that is deleted by hand comes back with its holder's next renewal.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The names of locks whose keys the user needs; without names, the keys of every lock
    #[arg(value_name = "NAME")]
    names: Vec<OsString>,
    /// Print all checks, not only warnings and failures
    #[arg(long)]
    all: bool,
    /// Treat warnings as failures
    #[arg(long)]
    strict: bool,
    /// The time for which the rates of the nodes' clocks are measured; a longer time is more exact,
    /// and 0 skips this check
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    watch: Duration,
    /// Also check whether each server has room for this number of clients: connections, waiting
    /// connections, idle connections and memory
    #[arg(long, value_name = "COUNT", value_parser = number::within(1..=u32::MAX), allow_negative_numbers = true)]
    clients: Option<u32>,
}

impl Doctor {
    /// Gathers facts, judges them, and prints the findings.
    ///
    /// # Errors
    ///
    /// Invalid settings. A failure of a node is a finding, not an error.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let names: Vec<Vec<u8>> = self.names.iter().map(|name| name.as_bytes().to_vec()).collect();
        // A name that no lock can have is a usage error.
        for name in &names {
            keys_of(name, None)?;
        }
        let settings = app.settings()?;
        let waiting = WaitLine::show(&app.messages, "checking the nodes".to_owned());
        let facts = gather(&settings, self.watch, &names, self.clients.map(u64::from)).await?;
        drop(waiting);
        let findings = judge(&facts);
        for finding in findings.iter().filter(|finding| self.all || finding.level > Level::Ok) {
            app.output.print(finding)?;
        }
        let summary = Summary::of(facts.nodes.len(), &findings, self.strict);
        if !app.general.json && (self.all || !summary.is_sound) {
            app.output.print(&NOTE)?;
        }
        app.output.print(&summary)?;
        Ok(if summary.is_sound { Exit::Success } else { Exit::Unsound })
    }
}
