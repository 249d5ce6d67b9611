//! The scenarios.

use clap::ValueEnum;

use super::row::Row;
use crate::{Arguments, Problem};

mod free_locks;
mod shutdown;
mod start;
mod steady;
mod storms;
mod waiters;

/// A scenario. Each scenario has new servers and new clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// All clients connect at once.
    Start,
    /// All clients of rslock connect at once.
    StartRslock,
    /// Clients without a lease.
    Idle,
    /// Clients with a renewed lease each.
    Leases,
    /// The first node closes all connections.
    Closed,
    /// The first node restarts without its data.
    Restarted,
    /// All nodes restart without their data.
    AllRestarted,
    /// The first node does not run for a while.
    Frozen,
    /// All clients shut down at once.
    Shutdown,
    /// All clients wait for one lock.
    OneLock,
    /// All clients acquire a permit of one semaphore at once.
    Semaphore,
    /// All clients lock several free resources at once.
    FreeLocks,
}

impl Scenario {
    /// Returns the name that `--only` accepts.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether the clients are clients of redquorum.
    pub(crate) fn is_ours(self) -> bool {
        self != Self::StartRslock
    }

    pub(crate) async fn run(self, arguments: &Arguments) -> Result<Vec<Row>, Problem> {
        match self {
            Self::Start => start::ours(arguments).await,
            Self::StartRslock => start::rslock(arguments).await,
            Self::Idle => steady::idle(arguments).await,
            Self::Leases => steady::leases(arguments).await,
            Self::Closed => storms::closed(arguments).await,
            Self::Restarted => storms::restarted(arguments).await,
            Self::AllRestarted => storms::all_restarted(arguments).await,
            Self::Frozen => storms::frozen(arguments).await,
            Self::Shutdown => shutdown::run(arguments).await,
            Self::OneLock => waiters::of_one_lock(arguments).await,
            Self::Semaphore => waiters::of_semaphore(arguments).await,
            Self::FreeLocks => free_locks::run(arguments).await,
        }
    }
}
