//! The election, as the public API has it: campaigns, queries of the leader, and observers.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use crate::{
    acquire::checked_request::CheckedRequest,
    client::context::ClientContext,
    clock::Instant,
    config::LockOptions,
    election::{Leader, Leaders, Leadership, leader_query, value::Value},
    error::{ConfigError, Error, Goal, NoQuorum},
    lock::{
        LockGuard,
        lock_request::{LockRequest, ReentryMode},
    },
    quorum::Quorum,
    values::{NodeReply, Resource},
};

/// An election, from [`Quorum::election`]: to campaign, to query the leader, and to observe.
///
/// The leader is the candidate that holds the lock on the name of the election, and the term of the leader is the
/// fencing token of its lease. Therefore there is at most one leader at a time, under the assumptions of the [crate's
/// promises](crate#what-is-promised-and-on-what-it-rests), and every leader has a larger term than all earlier leaders.
///
/// An `Election` is a description, cheap to clone, and several tasks may use one value at once. Each campaign is a
/// candidate of its own. A campaign is never re-entrant, even in the scope of an [`Owner`](crate::Owner).
///
/// To depose a leader that hangs, an operator [force-unlocks](crate::admin::force_unlock) the name. The client of the
/// leader finds the loss within some round trips, by a notice, or at the next renewal of the lease.
///
/// A program that leads for as long as possible campaigns in a loop:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::{FencingToken, Quorum};
///
/// let quorum = Quorum::in_memory(5)?;
/// let election = quorum.election("scheduler");
/// loop {
///     let leadership = election.campaign("host-7").await?; // waits while another candidate leads
///     match leadership.while_valid(schedule(leadership.term())).await {
///         Ok(()) => break,
///         Err(lost) => eprintln!("deposed: {lost}"), // and campaign again
///     }
/// }
/// # async fn schedule(term: FencingToken) { assert!(term.as_u64() > 0) }
/// # Ok(())
/// # }
/// ```
///
/// # The time without a leader
///
/// | after | the next leader |
/// |---|---|
/// | [`resign`](Leadership::resign), or a drop | another candidate, within some round trips |
/// | a crash of the leader | another candidate, within the leader's ttl and one [poll](LockOptions::poll_interval) |
/// | the loss of a minority of nodes | the same leader |
/// | the loss of a majority of nodes | none until a quorum answers again; the leader deposes itself in time |
#[derive(Clone, Debug)]
#[must_use = "an election does nothing without a campaign or an observer"]
pub struct Election {
    request: LockRequest,
}

impl Quorum {
    /// Returns the election of this name, with the quorum's settings. Nothing is sent yet.
    ///
    /// The name is a resource. A program must not lock the same resource for another purpose. If the name is invalid,
    /// the first call returns an error.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let resources = Resource::new(name).map(|name| [name].into()).map_err(ConfigError::from);
        let mut request = LockRequest::new(Arc::clone(self.client()), resources);
        request.reentry = ReentryMode::Never;
        Election { request }
    }
}

impl Election {
    /// Replaces all options of the election. Settings that the options leave open come from the quorum. After the crash
    /// of a leader, no candidate leads until the ttl of the leader is over.
    ///
    /// Without renewals, a leader would lose its lease after a ttl. Therefore campaigns and [`observe`](Self::observe)
    /// refuse [`without_renewal`](LockOptions::without_renewal) with [`Error::Config`]. [`leader`](Self::leader)
    /// accepts that option.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Waits until this candidate leads, and until a quorum of nodes has recorded its value (at most 64 KiB), such as
    /// an address. While this candidate leads, every later query of the leader returns this value or a later value. If
    /// the candidate is deposed before a quorum has recorded the value, the candidate campaigns again.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock); [`Error::NoQuorum`] also if no quorum recorded the value for the
    /// quorum timeout of this election. [`Error::Config`] if the value is too long, or the options are [without
    /// renewal](LockOptions::without_renewal).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the campaign. If the candidate holds the lock already, the drop unlocks.
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, Error> {
        let value = self.checked_value(value)?;
        let campaign = || {
            let (election, value) = (self.part_of_call(), value.clone());
            async move {
                loop {
                    let leadership = election.begin(election.request.lock().await?, value.clone());
                    if election.publish(&leadership).await? {
                        return Ok(leadership);
                    }
                }
            }
            .boxed()
        };
        self.request.watch(campaign).await
    }

    /// Makes one attempt to lead. Returns `None` if another candidate leads, if the lock on the name is held for
    /// another purpose, or if the lock has waiters. The leadership must be bound to a variable, as
    /// [`RedLock::try_lock`](crate::RedLock::try_lock) shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock); [`Error::NoQuorum`] also if no quorum recorded the value
    /// within a node timeout. [`Error::Config`] as for [`campaign`](Self::campaign). [`Error::LeaseLost`] if the
    /// candidate was deposed before a quorum recorded the value.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Option<Leadership>, Error> {
        let value = self.checked_value(value)?;
        let campaign = || {
            let (election, value) = (self.part_of_call(), value.clone());
            async move {
                let Some(guard) = election.request.try_lock().await? else { return Ok(None) };
                let leadership = election.begin(guard, value);
                leadership.publish().await?;
                Ok(Some(leadership))
            }
            .boxed()
        };
        self.request.watch(campaign).await
    }

    /// Campaigns as [`campaign`](Self::campaign) does, and waits for at most `wait`. Returns `None` if the candidate
    /// cannot acquire the lock in that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`](crate::RedLock::try_lock_for) and [`campaign`](Self::campaign); [`Error::NoQuorum`]
    /// also if the candidate acquired the lock, but no quorum recorded the value within `wait`.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    pub async fn try_campaign_for(
        &self,
        value: impl AsRef<[u8]>,
        wait: Duration,
    ) -> Result<Option<Leadership>, Error> {
        let value = self.checked_value(value)?;
        let deadline = self.context().now() + wait;
        let campaign = || {
            let (election, value) = (self.part_of_call(), value.clone());
            async move { election.campaign_until(value, deadline).await }.boxed()
        };
        self.request.watch(campaign).await
    }

    /// Queries the nodes for the leader: the candidate that holds the lock on a quorum of nodes, with the last value
    /// that the candidate proclaimed there. Returns `None` if no candidate leads, or if the leader has proclaimed no
    /// value yet.
    ///
    /// The result was true when the nodes answered. While a leader proclaims a new value, a first call may return the
    /// new value and a second call the old value. In contrast, [`observe`](Self::observe) returns no older value after
    /// a newer value.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redquorum::Quorum;
    /// # let quorum = Quorum::in_memory(3)?;
    /// let election = quorum.election("scheduler");
    /// assert_eq!(election.leader().await?, None);
    /// let leadership = election.campaign("host-7").await?;
    /// let leader = election.leader().await?.expect("host-7 leads");
    /// assert_eq!((leader.value(), leader.term()), (&b"host-7"[..], leadership.term()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if too few nodes answered within a node timeout to decide which candidate leads, or that no
    /// candidate leads. [`Error::Config`] if the name or the options are invalid. [`Error::Closed`] after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the nodes.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let query = async {
            let view = leader_query::query(self.context(), &self.request.checked_to_read()?).await?;
            Ok(view.leader.as_ref().map(Leader::new))
        };
        self.context().in_process(query).await
    }

    /// Returns a stream of the present leader, if any, and of the later leaders and values. The stream ends when the
    /// client is closed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the name or the options are invalid, or if the options are
    /// [without renewal](LockOptions::without_renewal). [`Error::Closed`] after a shutdown.
    pub fn observe(&self) -> Result<Leaders, Error> {
        self.ensure_supported()?;
        Ok(Leaders::begin(&self.request.client, self.request.checked_to_read()?))
    }

    /// Returns the checked value of a campaign. For options that elections do not support, returns an error.
    fn checked_value(&self, value: impl AsRef<[u8]>) -> Result<Value, ConfigError> {
        self.ensure_supported()?;
        Value::new(value.as_ref())
    }

    fn ensure_supported(&self) -> Result<(), ConfigError> {
        let LockOptions { without_renewal, hold_at_least, .. } = &self.request.settings;
        let reason = if *without_renewal {
            "an election without renewal: its leader would step down after one ttl, so leave `without_renewal` out"
        } else if hold_at_least.is_some() {
            "an election with a minimum hold: nobody would lead after a resignation, so leave `hold_at_least` out"
        } else {
            return Ok(());
        };
        Err(ConfigError::Unsupported { reason: reason.into() })
    }

    fn context(&self) -> &ClientContext {
        self.request.context()
    }

    /// Returns the same election for the lock calls of a campaign. The stall watchdog watches the whole campaign
    /// instead of its lock calls, because the campaign still holds the lock while it waits for a quorum to record the
    /// value.
    fn part_of_call(&self) -> Self {
        Self { request: self.request.clone().part_of_call() }
    }

    /// Campaigns until `deadline`. Returns `None` if the candidate cannot acquire the lock in that time.
    async fn campaign_until(&self, value: Value, deadline: Instant) -> Result<Option<Leadership>, Error> {
        let context = self.context();
        loop {
            let left = deadline.saturating_duration_since(context.now());
            let Some(guard) = self.request.lock_for(left).await? else { return Ok(None) };
            let leadership = self.begin(guard, value.clone());
            let is_published = tokio::select! {
                biased;
                published = self.publish_until(&leadership, deadline) => published?,
                () = context.sleep_until(Some(deadline)) => {
                    let replies = context.same_replies(&NodeReply::Pending);
                    return Err(NoQuorum::new(Goal::Proclaim(leadership.resource().clone()), replies).into());
                }
            };
            if is_published {
                return Ok(Some(leadership));
            }
        }
    }

    /// Returns the leadership of a candidate that has acquired the lock. The value is not published yet.
    fn begin(&self, guard: LockGuard, value: Value) -> Leadership {
        Leadership::begin(&self.request.client, guard, value)
    }

    /// Sends the value of a new leader repeatedly, until a quorum has recorded the value. Returns false if the leader
    /// is deposed before. Returns an error after the quorum timeout of this election. The campaign then unlocks,
    /// because another candidate may reach a quorum.
    async fn publish(&self, leadership: &Leadership) -> Result<bool, Error> {
        let settings = self.request.checked()?.settings;
        self.publish_until(leadership, self.context().now() + settings.quorum_timeout).await
    }

    /// Sends the value as [`publish`](Self::publish) does, but returns an error after `deadline`.
    async fn publish_until(&self, leadership: &Leadership, deadline: Instant) -> Result<bool, Error> {
        let CheckedRequest { settings, .. } = self.request.checked()?;
        let context = self.context();
        let mut failures = 0;
        let mut without_quorum_since = None;
        loop {
            let latest = context.now() + settings.attempt.node_timeout + settings.attempt.shortest_hedge();
            let no_quorum: NoQuorum = match leadership.publish().await {
                Ok(()) => return Ok(true),
                Err(Error::NoQuorum(error)) => error,
                Err(_) => return Ok(false),
            };
            // If the process was suspended meanwhile, the failure does not show the state of the nodes.
            let was_suspended = context.now() > latest;
            if context.now() >= deadline && !was_suspended {
                return Err(no_quorum.into());
            }
            let now = context.now();
            let since = *without_quorum_since.get_or_insert(now);
            if !was_suspended {
                let lasts = now.saturating_duration_since(since);
                context.outage_warnings.attempt_failed(now, lasts, || &no_quorum);
            }
            let again_at = context.now() + settings.pacing.delay_after(failures, context.jitter());
            failures += 1;
            tokio::select! {
                biased;
                _ = leadership.lost() => return Ok(false),
                () = context.clock.sleep_until(again_at.min(deadline)) => {}
            }
        }
    }
}
