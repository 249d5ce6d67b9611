//! Latches: waiting until so many have arrived.

mod call;
mod latch_wait;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::latch::LatchView,
    config::LockOptions,
    error::{ConfigError, LatchError},
    latch::{call::LatchCall, latch_wait::LatchWait},
    lock::client::Client,
    quorum::Quorum,
    values::{Arrivals, LONGEST_ARRIVAL, Resource},
};

/// A latch is opened by so many arrivals, at most.
const MOST: u32 = 1_024;

/// How long nodes keep a latch.
const KEPT: Duration = Duration::from_secs(24 * 3600);
const LEAST_KEPT: Duration = Duration::from_secs(1);
const LONGEST_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A latch: it opens when so many have arrived, and lets all pass who wait for it. From
/// [`Quorum::latch`].
///
/// Nothing is held, and no clock decides. Nodes keep who has arrived, each by an id; a client that
/// waits merges what a quorum of nodes knows, and writes that back to the others, so that an arrival
/// outlives its process.
///
/// * It never opens early: not before so many have called [`arrive`](Self::arrive), whatever fails or
///   is forgotten, if a name is used for one purpose once. So a name should say which time it is, as in
///   `migration:42`.
/// * Once a call has [waited](Self::wait) for it, every later one finds it open, unless a quorum of
///   nodes forgets it, at once or one after the other, or nobody uses it for [as long as it is
///   kept](Self::kept_for). Nodes that forget may lose arrivals: then it stays shut until they arrive
///   again.
///
/// An arrival is this value's, and is counted once, however often it is repeated. What is to be
/// counted twice takes two values. A new process that repeats what an old one may have done arrives
/// [by name](Self::arrive_as).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let [one, other] = [quorum.latch("warm:7", 2), quorum.latch("warm:7", 2)];
/// one.arrive().await?;
/// assert_eq!(other.arrived().await?, 1);
/// other.arrive().await?;
/// one.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a latch does nothing until it is arrived at or waited for"]
pub struct Latch {
    client: Arc<Client>,
    name: Result<Resource, ConfigError>,
    count: u32,
    id: Arc<[u8]>,
    kept_for: Duration,
}

impl Quorum {
    /// A latch that so many arrivals open (1 to 1,024), with the quorum's settings; nothing is sent
    /// yet.
    ///
    /// A name or a count that cannot be is an error of the first use. The name is one of latches alone.
    pub fn latch(&self, name: impl AsRef<[u8]>, count: u32) -> Latch {
        let client = Arc::clone(self.client());
        let id = client.environment.owners.fresh().as_bytes().into();
        Latch { client, name: Resource::new(name).map_err(ConfigError::from), count, id, kept_for: KEPT }
    }
}

impl Latch {
    /// How long nodes keep it after the last call that uses it (default 24 h; 1 s to 30 days). Where
    /// callers differ, the longest time counts.
    pub fn kept_for(mut self, kept_for: Duration) -> Self {
        self.kept_for = kept_for;
        self
    }

    /// Arrives: done when a quorum of nodes keeps it. It waits for nobody. To repeat it changes nothing.
    ///
    /// # Errors
    ///
    /// [`LatchError::Config`] if name, count or [`kept_for`](Self::kept_for) cannot be;
    /// [`LatchError::OtherCount`] if nodes know the latch with another count;
    /// [`LatchError::NoQuorum`] if none could be asked for the quorum timeout (one ttl of the quorum's
    /// locks); [`ConfigError::ReadOnly`] of a client that only looks; [`LatchError::Closed`] after a
    /// shutdown.
    ///
    /// # Cancel safety
    ///
    /// It may have arrived, or may yet: repeat it.
    pub async fn arrive(&self) -> Result<(), LatchError> {
        self.arrive_by(Arc::clone(&self.id)).await
    }

    /// As [`arrive`](Self::arrive), by an id of the caller (1 to 48 bytes), which counts once, no
    /// matter who uses it: for a job that is repeated by another process.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive); [`ConfigError::Arrival`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`arrive`](Self::arrive).
    pub async fn arrive_as(&self, id: impl AsRef<[u8]>) -> Result<(), LatchError> {
        let id = id.as_ref();
        if id.is_empty() || id.len() > LONGEST_ARRIVAL {
            return Err(ConfigError::Arrival { given: id.len(), most: LONGEST_ARRIVAL }.into());
        }
        self.arrive_by(id.into()).await
    }

    /// Waits until it is open, for as long as a quorum of nodes can be asked.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive). Nodes in quarantine are none that can be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it takes nothing back, as it has taken nothing.
    pub async fn wait(&self) -> Result<(), LatchError> {
        self.wait_until(None).await
    }

    /// Waits until it is open, at most for `wait`.
    ///
    /// # Errors
    ///
    /// [`LatchError::TimedOut`] after `wait`, which may be before any node has answered if it is short;
    /// [`LatchError::NoQuorum`] then if none could be asked; otherwise as [`arrive`](Self::arrive).
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_for(&self, wait: Duration) -> Result<(), LatchError> {
        self.wait_until(Some(wait)).await
    }

    /// How many have arrived, as a quorum of nodes knew when it answered; the count if it is open.
    ///
    /// # Errors
    ///
    /// [`LatchError::NoQuorum`] if fewer nodes than a quorum answered within a node timeout; otherwise
    /// as [`arrive`](Self::arrive).
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, but that nodes keep the latch for longer.
    pub async fn arrived(&self) -> Result<u32, LatchError> {
        let mut call = self.call(Arrivals::new(), false)?;
        call.ask(|_| false).await?;
        if !call.view.is_kept() {
            return Err(call.no_quorum());
        }
        Ok(call.arrived())
    }

    async fn arrive_by(&self, id: Arc<[u8]>) -> Result<(), LatchError> {
        let mut call = self.call(Arrivals::from([id]), true)?;
        let arrived = async {
            loop {
                call.ask(LatchView::is_kept).await?;
                if call.view.is_kept() {
                    call.spread();
                    return Ok(());
                }
                call.pause_without_quorum().await?;
            }
        };
        let arrived = tokio::select! {
            biased;
            arrived = arrived => arrived,
            () = self.client.environment.closed() => Err(LatchError::Closed),
        };
        if arrived.is_ok() {
            self.client.environment.observer.arrived_at_latch();
        }
        arrived
    }

    async fn wait_until(&self, wait: Option<Duration>) -> Result<(), LatchError> {
        let mut measured = LatchWait::begin(&self.client.environment);
        let waited = self.until_open(wait).await;
        measured.ended(&waited);
        waited
    }

    async fn until_open(&self, wait: Option<Duration>) -> Result<(), LatchError> {
        let environment = &*self.client.environment;
        let mut call = self.call(Arrivals::new(), true)?;
        let start = environment.now();
        tokio::select! {
            biased;
            open = call.until_open() => return open,
            () = environment.closed() => return Err(LatchError::Closed),
            () = environment.until(wait.map(|wait| start + wait)) => {}
        }
        Err(call.timed_out(environment.now().saturating_duration_since(start)))
    }

    fn call(&self, arrivals: Arrivals, changes: bool) -> Result<LatchCall<'_>, LatchError> {
        let environment = &*self.client.environment;
        if environment.is_closed() {
            return Err(LatchError::Closed);
        }
        let latch = self.name.clone()?;
        // One that only looks keeps nothing for longer.
        let is_read_only = environment.settings.is_read_only();
        if changes && is_read_only {
            return Err(ConfigError::ReadOnly.into());
        }
        let count = self.count;
        if count == 0 || count > MOST {
            return Err(ConfigError::LatchCount { given: count, most: MOST }.into());
        }
        if !(LEAST_KEPT..=LONGEST_KEPT).contains(&self.kept_for) {
            let (given, least, most) = (self.kept_for, LEAST_KEPT, LONGEST_KEPT);
            return Err(ConfigError::LatchKept { given, least, most }.into());
        }
        let kept_for = if is_read_only { Duration::ZERO } else { self.kept_for };
        let settings = LockOptions::new().check(&environment.settings)?;
        Ok(LatchCall::new(environment, latch, count, kept_for, settings, arrivals))
    }
}
