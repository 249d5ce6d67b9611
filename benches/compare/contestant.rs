//! The contestants: ours, rslock, and the two floors.

use std::{fmt, time::Duration};

use redquorum::{Quorum, RedLock};
use rslock::LockManager;

use super::{
    floor::{Floor, FloorTask},
    servers::Servers,
};
use crate::Problem;

/// The ttl of every lock, which is our default.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// One client process, as it were: all its tasks share its connections.
pub(crate) enum Contestant {
    Ours(Quorum),
    Rival(LockManager),
    /// Our scripts, sent bare.
    Floor(Floor),
    /// A one-line script, sent bare: what a lock without token, guard and re-entrancy would cost.
    OneLine(Floor),
}

/// One task of a contestant, that locks and unlocks one resource.
pub(crate) enum Contender {
    Ours(RedLock),
    Rival(LockManager, String),
    Floor(FloorTask),
}

impl Contestant {
    /// Ours, rslock, and the floor of our scripts, on the same servers.
    pub(crate) async fn three(servers: &Servers) -> Result<Vec<Self>, Problem> {
        let ours = servers.ours().await?;
        let floor = Floor::of_our_scripts(servers).await?;
        Ok(vec![Self::Ours(ours), Self::Rival(servers.rival()), Self::Floor(floor)])
    }

    pub(crate) async fn all(servers: &Servers) -> Result<Vec<Self>, Problem> {
        let mut all = Self::three(servers).await?;
        all.push(Self::OneLine(Floor::of_one_line(servers).await?));
        Ok(all)
    }

    /// A task with a resource that no other contestant uses: rslock's keys are strings, ours are
    /// hashes.
    pub(crate) fn contender(&self, resource: &str) -> Contender {
        let resource = format!("{self}:{resource}");
        match self {
            Self::Ours(quorum) => Contender::Ours(quorum.red_lock(&resource)),
            Self::Rival(manager) => Contender::Rival(manager.clone(), resource),
            Self::Floor(floor) | Self::OneLine(floor) => Contender::Floor(floor.task(&resource)),
        }
    }
}

impl Contender {
    /// A lock and its unlock, as a caller writes them.
    pub(crate) async fn lock_and_unlock(&mut self) -> Result<(), Problem> {
        match self {
            Self::Ours(lock) => drop(lock.lock().await?.unlock().await?),
            Self::Rival(manager, resource) => {
                let lock = manager.lock(resource.as_str(), TTL).await?;
                manager.unlock(&lock).await;
            }
            Self::Floor(task) => {
                let lock = task.lock().await?;
                task.unlock(lock).await?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours(_) => "ours",
            Self::Rival(_) => "rslock",
            Self::Floor(_) => "floor",
            Self::OneLine(_) => "one_line",
        })
    }
}
