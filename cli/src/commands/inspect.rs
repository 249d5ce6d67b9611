//! `redquorum inspect`: who holds it.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::Args;

use crate::{app::App, exit::Exit, failure::Failure, lock_view::LockView};

/// Show who holds a lock, node by node
///
/// For each node: the owner, how many holds it has, how long the node keeps the lock unless it is
/// renewed, the fencing counter, and how long the node took to answer. Below, why nodes do not
/// vote, and the quorum's conclusion. The answers are of the moment at which the nodes gave them:
/// what they say may be otherwise by now. Nothing is written to nodes that no client has registered
/// yet.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// What is locked
    name: OsString,
    /// Show the slots of a semaphore instead, so many of them, one after the other
    #[arg(short = 'n', long, value_name = "COUNT")]
    permits: Option<u32>,
}

impl Inspect {
    /// Asks all nodes.
    ///
    /// # Errors
    ///
    /// Why no quorum of them could be asked.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let resource = self.name.as_bytes();
            let Some(permits) = self.permits else {
                let found = quorum.red_lock(resource).inspect().await?;
                app.output.print(&LockView::new(resource, &found))?;
                return Ok(Exit::Success);
            };
            let semaphore = quorum.semaphore(resource, permits);
            for slot in 0..permits.max(1) {
                let found = semaphore.slot(slot as usize).inspect().await?;
                app.output.print(&LockView::of_slot(resource, slot, &found))?;
            }
            Ok(Exit::Success)
        })
        .await
    }
}
