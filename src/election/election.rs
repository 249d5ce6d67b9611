//! An election.

use std::{sync::Arc, time::Duration};

use crate::{
    acquire::checked_request::CheckedRequest,
    client::environment::Environment,
    config::LockOptions,
    election::{Leader, Leadership, Observation, leader_query, value::Value},
    error::{ConfigError, LockError, ProclaimError},
    lock::{
        LockGuard,
        lock_request::{LockRequest, Reentrancy},
    },
    quorum::Quorum,
    values::Resource,
};

/// An election, from [`Quorum::election`]: to campaign in it, to ask who leads, and to observe.
///
/// The leader is the candidate that holds the lock on the election's name, and its term is that
/// lock's fencing token. So there is at most one leader at a time, under the assumptions of the
/// [crate's promises](crate#what-is-promised-and-on-what-it-rests), and every leader has a larger
/// term than the one before.
///
/// It is a description, cheap to clone, and may be used again and by several tasks at once: each
/// campaign is a candidate of its own, never re-entrant, whatever [`Owner`](crate::Owner)'s scope
/// it is in.
///
/// A leader that hangs on is removed by an operator's
/// [`force_unlock`](crate::RedLock::force_unlock) of the name; it learns of that within a
/// round trip, or at its next renewal.
///
/// To lead for as long as possible is a loop:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::{FencingToken, Quorum};
///
/// let quorum = Quorum::in_memory(5)?;
/// let election = quorum.election("scheduler").value("host-7");
/// loop {
///     let leader = election.campaign().await?; // waits while another leads
///     tokio::select! {
///         () = schedule(leader.term()) => break,
///         why = leader.lost() => eprintln!("deposed: {why}"), // and campaign again
///     }
/// }
/// # async fn schedule(term: FencingToken) { assert!(term.as_u64() > 0) }
/// # Ok(())
/// # }
/// ```
///
/// # How long is there no leader?
///
/// | after | another leads |
/// |---|---|
/// | [`resign`](Leadership::resign), or a drop | within some round trips |
/// | a crash of the leader | within its ttl and one [poll](LockOptions::polls) |
/// | the loss of a minority of nodes | the same one leads on |
/// | the loss of a majority | the leader deposes itself by its deadline; one is elected when they are back |
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until a candidate campaigns or somebody observes"]
pub struct Election {
    request: LockRequest,
    value: Result<Value, ConfigError>,
}

impl Quorum {
    /// The election of this name, with the quorum's settings: to campaign in, or only to observe;
    /// nothing is sent yet.
    ///
    /// The name is a resource like that of a lock: do not lock it otherwise. A name that cannot be
    /// one is an error of the first use.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let resources = Resource::new(name).map(|name| [name].into()).map_err(ConfigError::from);
        let mut request = LockRequest::new(Arc::clone(self.client()), resources);
        request.reentrancy = Reentrancy::Never;
        Election { request, value: Value::new(b"") }
    }
}

impl Election {
    /// What others see of this candidate when it leads, such as its address: at most 64 KiB
    /// (default: nothing). A longer one is an error of the campaign.
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.value = Value::new(value.as_ref());
        self
    }

    /// Sets these options; what they leave open stays as it was. Nobody else leads for the ttl
    /// after a leader crashed; candidates and observers ask by themselves as [`LockOptions::polls`]
    /// says.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options.or(self.request.settings);
        // A leader that was not renewed would step down after a ttl.
        self.request.settings.is_fixed = false;
        self
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request.settings.ttl = Some(ttl);
        self
    }

    /// Waits until this candidate leads and a quorum of nodes shows its value: a client that asks
    /// for the leader from then on is shown it. One who is deposed before that campaigns again.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if the settings or the value cannot work; [`LockError::NoQuorum`],
    /// [`LockError::Quarantined`] or [`LockError::Expired`] when no quorum could be asked, or none
    /// took the value, for the quorum timeout of this election; [`LockError::Closed`] after a
    /// shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the candidacy, and resigns if it was elected already.
    pub async fn campaign(&self) -> Result<Leadership, LockError> {
        let value = self.value.clone()?;
        loop {
            let leadership = self.begin(self.request.lock(None).await?, value.clone());
            if self.show(&leadership).await? {
                return Ok(leadership);
            }
        }
    }

    /// Makes one attempt: `None` if another leads, or holds the lock for some other reason.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if fewer nodes than a quorum gave an answer, or keep the value,
    /// within a node timeout each; [`LockError::LeaseLost`] if it was deposed before they did;
    /// otherwise as [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    pub async fn try_campaign(&self) -> Result<Option<Leadership>, LockError> {
        let value = self.value.clone()?;
        let Some(guard) = self.request.try_lock().await? else { return Ok(None) };
        let leadership = self.begin(guard, value);
        let needed = self.environment().settings.electorate.needed();
        match leadership.show().await {
            Ok(()) => Ok(Some(leadership)),
            Err(ProclaimError::Config(error)) => Err(error.into()),
            Err(ProclaimError::LeaseLost(lost)) => Err(lost.into()),
            Err(ProclaimError::NoQuorum { resource, votes }) => {
                Err(LockError::NoQuorum { resource, needed, votes })
            }
        }
    }

    /// Asks the nodes who leads: the holder of the lock on a quorum of them, with the last value
    /// that it proclaimed there. `None` if nobody does.
    ///
    /// It was so when the nodes answered. Of a value that is being proclaimed meanwhile, two that
    /// ask may be shown different ones; [`observe`](Self::observe) never goes back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redquorum::Quorum;
    /// # let quorum = Quorum::in_memory(3)?;
    /// let election = quorum.election("scheduler").value("host-7");
    /// assert_eq!(election.leader().await?, None);
    /// let leadership = election.campaign().await?;
    /// let leader = election.leader().await?.expect("somebody leads");
    /// assert_eq!((leader.value(), leader.term()), (&b"host-7"[..], leadership.term()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered within a node timeout to say who leads, or
    /// that nobody does; [`LockError::Config`] and [`LockError::Closed`] as for
    /// [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>, LockError> {
        let view = leader_query::ask(self.environment(), &self.request.checked_to_read()?).await?;
        Ok(view.leader.as_ref().map(Leader::new))
    }

    /// The leaders from now on: the present one, if there is one, and then every change of leader
    /// or value that is seen.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if the settings cannot work; [`LockError::Closed`] after a shutdown.
    pub fn observe(&self) -> Result<Observation, LockError> {
        Ok(Observation::begin(&self.request.client, self.request.checked_to_read()?))
    }

    fn environment(&self) -> &Environment {
        self.request.environment()
    }

    fn begin(&self, guard: LockGuard, value: Value) -> Leadership {
        Leadership::begin(&self.request.client, guard, value)
    }

    /// Shows the leader to those who observe, trying again until it is deposed, or until no quorum
    /// has taken the value for the quorum timeout of this election: then somebody else may do
    /// better. Whether it was shown.
    async fn show(&self, leadership: &Leadership) -> Result<bool, LockError> {
        let CheckedRequest { settings, .. } = self.request.checked()?;
        let environment = self.environment();
        let quorum_deadline = environment.now() + settings.quorum_timeout;
        let mut delay = settings.pacing.floor;
        loop {
            let (resource, votes) = match leadership.show().await {
                Ok(()) => return Ok(true),
                Err(ProclaimError::NoQuorum { resource, votes }) => (resource, votes),
                Err(_) => return Ok(false),
            };
            if environment.now() >= quorum_deadline {
                let needed = environment.settings.electorate.needed();
                return Err(LockError::NoQuorum { resource, needed, votes });
            }
            let again_at = environment.now() + delay.mul_f64(1.0 + environment.jitter());
            tokio::select! {
                biased;
                _ = leadership.lost() => return Ok(false),
                () = environment.clock.sleep_until(again_at) => {}
            }
            delay = delay.saturating_mul(2).min(settings.pacing.longest_poll);
        }
    }
}
