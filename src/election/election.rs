//! The election: campaigns, queries and observers.

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
/// fencing token of that lock. Thus there is at most one leader at a time, under the assumptions of the [crate's
/// promises](crate#what-is-promised-and-on-what-it-rests), and every leader has a larger term than the leader before.
///
/// An `Election` is a description, cheap to clone, and may be used again and by several tasks at once. Each campaign is
/// a candidate of its own, and never re-entrant, even in the scope of an [`Owner`](crate::Owner).
///
/// To depose a leader that hangs, an operator [force-unlocks](crate::admin::force_unlock) the name. The client of the
/// leader receives the loss within a round trip, or at its next renewal.
///
/// A candidate that leads for as long as possible campaigns in a loop:
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
/// | a crash of the leader | another candidate, within the ttl of the leader and one [poll](LockOptions::poll_interval) |
/// | the loss of a minority of nodes | the same leader leads on |
/// | the loss of a majority of nodes | none until a quorum of nodes is back; the leader deposes itself by the end of its validity |
#[derive(Clone, Debug)]
#[must_use = "an election does nothing without a campaign or an observer"]
pub struct Election {
    request: LockRequest,
}

impl Quorum {
    /// Returns the election of this name, with the quorum's settings. Nothing is sent yet.
    ///
    /// The name is a resource, which no lock of the program may use. An invalid name is an error of the first use.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let resources = Resource::new(name).map(|name| [name].into()).map_err(ConfigError::from);
        let mut request = LockRequest::new(Arc::clone(self.client()), resources);
        request.reentry = ReentryMode::Never;
        Election { request }
    }
}

impl Election {
    /// Replaces all options of the election: what these options leave open comes from the quorum. After the crash of a
    /// leader, no other candidate leads for the ttl. A leader without renewals would step down after a ttl, so campaigns
    /// and [`observe`](Self::observe) refuse [`without_renewal`](LockOptions::without_renewal) with [`Error::Config`].
    /// [`leader`](Self::leader) accepts that option.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Waits until this candidate leads and a quorum of nodes has recorded its value, such as an address (at most
    /// 64 KiB). Every later query of the leader returns this value or a later one. A candidate that is deposed before
    /// that campaigns again.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock); [`Error::NoQuorum`] also if no quorum recorded the value for the
    /// quorum timeout of this election. [`Error::Config`] if the value is too long, or the options are [without
    /// renewal](LockOptions::without_renewal).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the candidacy, and resigns if the candidate was elected already.
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
        self.context().in_process(self.request.watch(campaign)).await
    }

    /// Makes one attempt, and returns `None` if another candidate leads, or a lock of another kind has the name. The
    /// leadership must be bound to a variable, as [`RedLock::try_lock`](crate::RedLock::try_lock) shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock) and [`campaign`](Self::campaign); [`Error::LeaseLost`] if the
    /// candidate was deposed before a quorum recorded its value.
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
        self.context().in_process(self.request.watch(campaign)).await
    }

    /// Campaigns for at most `wait`, like [`campaign`](Self::campaign) otherwise. Returns `None` if another candidate led
    /// for all that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`](crate::RedLock::try_lock_for) and [`campaign`](Self::campaign); [`Error::NoQuorum`]
    /// also if no quorum recorded the value within `wait`.
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
        self.context().in_process(self.request.watch(campaign)).await
    }

    /// Queries the nodes for the leader: the candidate that holds the lock on a quorum of nodes, with the last value that
    /// the candidate proclaimed there. Returns `None` if no candidate leads.
    ///
    /// The result was true when the nodes answered. While a leader proclaims a new value, a second call may return the
    /// old value after a first call returned the new value. The values of [`observe`](Self::observe) never go back.
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
    /// [`Error::NoQuorum`] if too few nodes answered within a node timeout to decide which candidate leads, or that
    /// none does; [`Error::Config`] if the name or the options cannot work; [`Error::Closed`].
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

    /// Returns the stream of the present leader, if any, and every later leader or value. The stream ends with the
    /// client.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the name or the options cannot work, or the options are
    /// [without renewal](LockOptions::without_renewal); [`Error::Closed`] after a shutdown.
    pub fn observe(&self) -> Result<Leaders, Error> {
        self.ensure_renewed()?;
        Ok(Leaders::begin(&self.request.client, self.request.checked_to_read()?))
    }

    fn checked_value(&self, value: impl AsRef<[u8]>) -> Result<Value, ConfigError> {
        self.ensure_renewed()?;
        Value::new(value.as_ref())
    }

    fn ensure_renewed(&self) -> Result<(), ConfigError> {
        let reason = "an election without renewal: its leader would step down after one ttl, so leave \
                      `without_renewal` out";
        match self.request.settings.without_renewal {
            true => Err(ConfigError::Unsupported { reason: reason.into() }),
            false => Ok(()),
        }
    }

    fn context(&self) -> &ClientContext {
        self.request.context()
    }

    /// Returns the same election for the work of a call that the stall watchdog watches. The call holds the lock while a
    /// quorum records the value.
    fn part_of_call(&self) -> Self {
        Self { request: self.request.clone().part_of_call() }
    }

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

    fn begin(&self, guard: LockGuard, value: Value) -> Leadership {
        Leadership::begin(&self.request.client, guard, value)
    }

    /// Sends the value of a new leader repeatedly, until a quorum has recorded the value, for at most the quorum
    /// timeout of this election. After that time, another candidate may be able to reach a quorum. Returns false if
    /// the leader is deposed before.
    async fn publish(&self, leadership: &Leadership) -> Result<bool, Error> {
        let settings = self.request.checked()?.settings;
        self.publish_until(leadership, self.context().now() + settings.quorum_timeout).await
    }

    async fn publish_until(&self, leadership: &Leadership, deadline: Instant) -> Result<bool, Error> {
        let CheckedRequest { settings, .. } = self.request.checked()?;
        let context = self.context();
        let mut failures = 0;
        loop {
            let latest = context.now() + settings.attempt.node_timeout + settings.attempt.hedge();
            let no_quorum: NoQuorum = match leadership.publish().await {
                Ok(()) => return Ok(true),
                Err(Error::NoQuorum(error)) => error,
                Err(_) => return Ok(false),
            };
            // If the client stood still meanwhile, the failure does not show the state of the nodes.
            let has_stood_still = context.now() > latest;
            if context.now() >= deadline && !has_stood_still {
                return Err(no_quorum.into());
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
