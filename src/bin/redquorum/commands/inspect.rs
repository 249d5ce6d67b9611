//! `redquorum inspect`: who holds it.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::Args;

use crate::{app::App, exit::Exit, failure::Failure, sight::Sight};

/// Show who holds a lock, node by node
///
/// For each node: the owner, how many holds it has, how long the node keeps the lock unless it is renewed, the fencing
/// counter, and how long the node took to answer. Below, the quorum's verdict. It was so when the nodes answered.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// What is locked
    name: OsString,
}

impl Inspect {
    /// Asks all nodes.
    ///
    /// # Errors
    ///
    /// Why no quorum of them could be asked.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum(&settings, async |quorum| {
            let resource = self.name.as_bytes();
            let found = quorum.red_lock(resource).inspect().await?;
            app.output.print(&Sight::new(resource, &found))?;
            Ok(Exit::Success)
        })
        .await
    }
}
