//! Latches: the public type, and the calls on a latch. `algorithm/latch.rs` decides from the answers of nodes.

mod call;
mod latch_wait;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error, duration_out_of_range, out_of_range},
    latch::{call::LatchCall, latch_wait::LatchWait},
    lock::client::Client,
    quorum::Quorum,
    values::{Arrivals, MAX_ARRIVAL_ID_BYTES, Resource},
};

/// The largest number of arrivals that open a latch.
const MAX_ARRIVALS: u32 = 1_024;

/// The default of [`Latch::retention`], and its bounds.
const RETENTION: Duration = Duration::from_secs(24 * 3600);
const MIN_RETENTION: Duration = Duration::from_secs(1);
const MAX_RETENTION_DAYS: u64 = 30;
const MAX_RETENTION: Duration = Duration::from_secs(MAX_RETENTION_DAYS * 24 * 3600);

/// A latch, from [`Quorum::latch`]: opens after a number of arrivals, and then lets every waiting call pass.
///
/// A latch has no lease, and no clock decides. Nodes record the id of each arrival. A call that waits merges the
/// arrivals that the nodes have recorded, and sends the merged arrivals to all nodes. Therefore an arrival outlives the
/// process that has arrived.
///
/// * **A latch never opens early**, even if nodes fail or forget arrivals. No call passes before the required number of
///   arrivals has begun. This promise holds only if each name is used for one occasion, so put the occasion into the
///   name, as in `migration:42`.
/// * **A latch stays open.** If one call has [waited](Self::wait) until the latch was open, every later call finds the
///   latch open. There are two exceptions: a quorum of nodes forgets the latch, at once or one node after the other, or
///   no call uses the latch for the [retention](Self::retention). If nodes forget arrivals, the latch stays shut until
///   the processes arrive again.
///
/// Each `Latch` value arrives once: repeated calls of [`arrive`](Self::arrive) on the value or its clones count once.
/// To arrive twice, use two values. A new process that must repeat the arrival of an old process arrives [under an
/// id](Self::arrive_as).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let [one, other] = [quorum.latch("warm:7", 2), quorum.latch("warm:7", 2)];
/// one.arrive().await?;
/// assert_eq!(other.arrivals().await?, 1);
/// other.arrive().await?;
/// one.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a latch does nothing until it is arrived at or waited for"]
pub struct Latch {
    client: Arc<Client>,
    name: Result<Resource, ConfigError>,
    count: u32,
    id: Arc<[u8]>,
    retention: Duration,
}

impl Quorum {
    /// Returns a latch that opens after `arrivals` arrivals (1 to 1,024), with the settings of the quorum. No request
    /// is sent. Use a new name for each occasion.
    ///
    /// An invalid name or number is an error of the first call. A lock and a latch of the same name are independent.
    pub fn latch(&self, name: impl AsRef<[u8]>, arrivals: u32) -> Latch {
        let client = Arc::clone(self.client());
        let id = client.context.lease_ids.fresh().as_bytes().into();
        let name = Resource::new(name).map_err(ConfigError::from);
        Latch { client, name, count: arrivals, id, retention: RETENTION }
    }
}

impl Latch {
    /// Sets the time for which nodes keep the latch after its last use (default: 24 h; 1 s to 30 days). If calls set
    /// different times, the longest time counts.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Arrives. Returns when a quorum of nodes has recorded the arrival, and does not wait until the latch opens.
    /// Repeated calls on this value or a clone count once.
    ///
    /// # Errors
    ///
    /// * [`Error::NoQuorum`] if no quorum answers for the quorum timeout (one ttl of the quorum's locks, or until nodes
    ///   leave a quarantine whose end they have reported, if that is later): repeat the call.
    /// * [`Error::Config`] if name, number or [`retention`](Self::retention) is invalid, if nodes have recorded a
    ///   different number of arrivals (`CountMismatch`), or if the client is read-only.
    /// * [`Error::Closed`] after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// The nodes may have recorded the arrival, or may yet record it: repeat the call.
    pub async fn arrive(&self) -> Result<(), Error> {
        self.arrive_by(Arrivals::from([Arc::clone(&self.id)])).await
    }

    /// Arrives under an id that the caller chooses (1 to 48 bytes). An id counts once in all processes together, so a
    /// restarted process can repeat the arrival.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive); [`Error::Config`] (`OutOfRange`) if the id is empty or too long.
    ///
    /// # Cancel safety
    ///
    /// As [`arrive`](Self::arrive).
    pub async fn arrive_as(&self, id: impl AsRef<[u8]>) -> Result<(), Error> {
        let id = id.as_ref();
        if id.is_empty() || id.len() > MAX_ARRIVAL_ID_BYTES {
            let given = format!("{} bytes", id.len());
            return Err(
                out_of_range("arrival id", given, format!("1 to {MAX_ARRIVAL_ID_BYTES} bytes")).into()
            );
        }
        self.arrive_by(Arrivals::from([id.into()])).await
    }

    /// Opens the latch, even if arrivals are missing: makes the missing arrivals. Returns when a quorum of nodes has
    /// recorded that the latch is open. A latch cannot be closed again.
    ///
    /// An operator calls this function if a process that should arrive is known to have stopped, and the waiting
    /// processes can work without that arrival.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive).
    ///
    /// # Cancel safety
    ///
    /// The latch may be open, or may yet open: repeat the call.
    pub async fn open(&self) -> Result<(), Error> {
        let changes = true;
        self.arriving(async { self.call(Arrivals::new(), changes)?.open(&self.id).await }).await
    }

    /// Waits until the latch is open, for as long as a quorum of nodes answers. Nodes in quarantine do not count.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the latch.
    pub async fn wait(&self) -> Result<(), Error> {
        // Without a deadline, the call returns true or an error, so the loop ends in its first round.
        while !self.wait_until(None).await? {}
        Ok(())
    }

    /// Waits until the latch is open, for at most `wait`. Returns whether the latch is open.
    ///
    /// # Errors
    ///
    /// As [`arrive`](Self::arrive); [`Error::NoQuorum`] also if no quorum has answered when the time ends.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_for(&self, wait: Duration) -> Result<bool, Error> {
        self.wait_until(Some(wait)).await
    }

    /// Returns the number of arrivals that the nodes have recorded, according to the answers of at least a quorum. If
    /// the latch is open, returns the number that opens the latch.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if fewer nodes than a quorum answer within a node timeout; otherwise as
    /// [`arrive`](Self::arrive), but a read-only client gets no error.
    ///
    /// # Cancel safety
    ///
    /// The only effect of the call is that nodes keep the latch for longer.
    pub async fn arrivals(&self) -> Result<u32, Error> {
        Ok(self.recorded().await?.arrived())
    }

    /// Returns the ids of the arrivals that the nodes have recorded, according to the answers of at least a quorum;
    /// `None` if the latch is open, because nodes then answer without ids.
    ///
    /// # Errors
    ///
    /// As [`arrivals`](Self::arrivals).
    #[cfg(feature = "__command")]
    pub(crate) async fn arrival_ids(&self) -> Result<Option<Arrivals>, Error> {
        let call = self.recorded().await?;
        Ok((!call.view.is_open()).then(|| call.view.arrivals().clone()))
    }

    /// Queries the nodes once. The result has the answers of at least a quorum.
    async fn recorded(&self) -> Result<LatchCall<'_>, Error> {
        let recorded = async {
            let changes = false;
            let mut call = self.call(Arrivals::new(), changes)?;
            call.ask(|_| false).await?;
            if call.view.is_recorded() { Ok(call) } else { Err(call.no_quorum()) }
        };
        self.client.context.in_process(recorded).await
    }

    async fn arrive_by(&self, arrivals: Arrivals) -> Result<(), Error> {
        let changes = true;
        self.arriving(async { self.call(arrivals, changes)?.arrive().await }).await
    }

    /// Waits until a call has arrived, for as long as the client is not closed.
    async fn arriving(&self, arriving: impl Future<Output = Result<(), Error>> + Send) -> Result<(), Error> {
        let context = &self.client.context;
        let arriving = async {
            let arrived = tokio::select! {
                biased;
                arrived = arriving => arrived,
                () = context.closed() => Err(context.closed_error()),
            };
            if arrived.is_ok() {
                context.observer.arrived_at_latch();
            }
            arrived
        };
        context.in_process(arriving).await
    }

    async fn wait_until(&self, wait: Option<Duration>) -> Result<bool, Error> {
        let context = &self.client.context;
        let waiting = async {
            let mut measured = LatchWait::begin(context);
            let waited = match self.until_open(wait).await {
                Err(Error::NoQuorum(shortage)) => Err(context.no_quorum(shortage)),
                waited => waited,
            };
            measured.ended(&waited);
            waited
        };
        context.in_process(waiting).await
    }

    /// Waits until the latch is open, for at most `wait`. Returns whether the latch is open. Without a limit, the
    /// result is true or an error.
    async fn until_open(&self, wait: Option<Duration>) -> Result<bool, Error> {
        let context = &*self.client.context;
        let changes = true;
        let mut call = self.call(Arrivals::new(), changes)?;
        let start = context.now();
        tokio::select! {
            biased;
            open = call.until_open() => return open.map(|()| true),
            () = context.closed() => return Err(context.closed_error()),
            () = context.sleep_until(wait.map(|wait| start + wait)) => {}
        }
        if call.is_without_quorum() { Err(call.no_quorum()) } else { Ok(false) }
    }

    /// Checks the settings, and creates a call with these arrivals. `changes` is true for an arrival or a wait. In this
    /// case, a read-only client gets an error.
    fn call(&self, arrivals: Arrivals, changes: bool) -> Result<LatchCall<'_>, Error> {
        let context = &*self.client.context;
        context.ensure_open()?;
        let latch = self.name.clone()?;
        // A read-only client does not prolong the retention.
        let is_read_only = context.settings.is_read_only();
        if changes && is_read_only {
            return Err(ConfigError::ReadOnly.into());
        }
        let count = self.count;
        if count == 0 || count > MAX_ARRIVALS {
            return Err(out_of_range("arrivals", count, format!("1 to {MAX_ARRIVALS}")).into());
        }
        if !(MIN_RETENTION..=MAX_RETENTION).contains(&self.retention) {
            let expected = format!("{MIN_RETENTION:?} to {MAX_RETENTION_DAYS}d");
            return Err(duration_out_of_range("retention", self.retention, expected).into());
        }
        let retention = if is_read_only { Duration::ZERO } else { self.retention };
        let settings = LockOptions::new().check(&context.settings)?;
        Ok(LatchCall::new(context, latch, count, retention, settings, arrivals))
    }
}
