//! `redquorum inspect`: who holds it.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::{Args, value_parser};
use futures::future::try_join_all;

use crate::{app::App, exit::Exit, failure::Failure, lock_view::LockView};

/// So many slots are asked about at once.
const AT_ONCE: usize = 64;

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
    /// Show the slots of a semaphore instead, so many of them: 1 to 1024
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = value_parser!(u32).range(1..=1024))]
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
            let slots: Vec<u32> = (0..permits).collect();
            for some in slots.chunks(AT_ONCE) {
                let locks: Vec<_> = some.iter().map(|slot| semaphore.slot(*slot as usize)).collect();
                let found = try_join_all(locks.iter().map(|lock| lock.inspect())).await?;
                for (slot, found) in some.iter().zip(&found) {
                    app.output.print(&LockView::of_slot(resource, *slot, found))?;
                }
            }
            Ok(Exit::Success)
        })
        .await
    }
}
