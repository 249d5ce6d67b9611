//! The contestants: redquorum ("ours"), rslock and the two floors.

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

/// The client of one process. The tasks of the process share the connections of the client.
pub(crate) enum Contestant {
    Ours(Quorum),
    Rival(LockManager),
    /// The scripts of redquorum, sent without the library.
    Floor(Floor),
    /// The commands of a lock without token and re-entrancy, sent without a library: `SET`, and a one-line script for
    /// the unlock.
    OneLine(Floor),
}

/// One task of a contestant, which locks and unlocks one resource.
pub(crate) enum Contender {
    Ours(RedLock),
    Rival(LockManager, String),
    Floor(FloorTask),
}

impl Contestant {
    /// Returns redquorum, rslock and the floor with the scripts of redquorum, on the same servers.
    pub(crate) async fn three(servers: &Servers) -> Result<Vec<Self>, Problem> {
        let ours = servers.ours().await?;
        let floor = Floor::of_our_scripts(servers).await?;
        Ok(vec![Self::Ours(ours), Self::Rival(servers.rival()), Self::Floor(floor)])
    }

    /// Returns the three contestants and the floor with one-line scripts, on the same servers.
    pub(crate) async fn all(servers: &Servers) -> Result<Vec<Self>, Problem> {
        let mut all = Self::three(servers).await?;
        all.push(Self::OneLine(Floor::of_one_line(servers).await?));
        Ok(all)
    }

    /// Returns a task whose resource no other contestant uses. A shared key would make commands fail, because the
    /// keys of rslock are strings, and the keys of redquorum are hashes.
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
    /// Locks and unlocks, with the calls that a user would write.
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
