//! Latches: waiting until so many have arrived.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::latch::{LatchAnswer, LatchView},
    client::{asking::ask_operation, environment::Environment, fanout::Heard, wake::Wake},
    clock::Instant,
    config::{CheckedLock, LockOptions},
    error::{ConfigError, LatchError},
    lock::{Quorum, client::Client},
    node::{self, Answer, Operation, Subscription, names},
    values::{Arrivals, LONGEST_ARRIVAL, NodeError, Resource, Vote},
};

/// A latch is opened by so many arrivals, at most.
const MOST: u32 = 1_024;

/// How long nodes keep a latch.
const KEPT: Duration = Duration::from_secs(24 * 3600);
const LEAST_KEPT: Duration = Duration::from_secs(1);
const LONGEST_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Once a quorum has answered, the others are waited for no longer than this part of a node timeout.
const GRACE_SHARE: u32 = 8;

/// A latch: it opens when so many have arrived, and lets all pass who wait for it. From
/// [`Quorum::latch`].
///
/// Nothing is held, and no clock decides. Nodes keep who has arrived, each by an id; whoever waits
/// merges what a quorum of nodes knows, and writes that back to the others, so that an arrival outlives
/// its process.
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

/// One call: the settings, and what it knows.
struct LatchCall<'a> {
    environment: &'a Environment,
    latch: Resource,
    count: u32,
    kept_for: Duration,
    settings: CheckedLock,
    view: LatchView,
    /// What each node has said last.
    votes: Vec<Vote>,
    /// How often no quorum could be asked, in a row, and since when.
    failures: u32,
    failing_since: Option<Instant>,
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

    /// As [`arrive`](Self::arrive), by an id of the caller (1 to 48 bytes), which counts once whoever
    /// uses it: for a job that is repeated by another process.
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
        tokio::select! {
            biased;
            arrived = arrived => arrived,
            () = self.client.environment.closed() => Err(LatchError::Closed),
        }
    }

    async fn wait_until(&self, wait: Option<Duration>) -> Result<(), LatchError> {
        let environment = &*self.client.environment;
        let mut call = self.call(Arrivals::new(), true)?;
        let start = environment.now();
        tokio::select! {
            biased;
            open = call.until_open() => return open,
            () = environment.closed() => return Err(LatchError::Closed),
            () = environment.until(wait.map(|wait| start + wait)) => {}
        }
        if call.failing_since.is_some() {
            return Err(call.no_quorum());
        }
        let waited = environment.now().saturating_duration_since(start);
        let (latch, arrived, count) = (call.latch.clone(), call.arrived(), call.count);
        Err(LatchError::TimedOut { latch, arrived, count, waited })
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
        let view = LatchView::new(environment.settings.electorate, count as usize, arrivals);
        let votes = vec![Vote::NotAsked; environment.nodes.len()];
        let (failures, failing_since) = (0, None);
        Ok(LatchCall { environment, latch, count, kept_for, settings, view, votes, failures, failing_since })
    }
}

impl LatchCall<'_> {
    /// Tells every node what is known, and hears what they know: until that is enough, or all have
    /// answered, or a quorum has and nobody else for a while.
    async fn ask(&mut self, is_enough: impl Fn(&LatchView) -> bool) -> Result<(), LatchError> {
        let environment = self.environment;
        let begun = environment.now();
        let node_timeout = self.settings.rules.node_timeout;
        let mut deadline = begun + node_timeout;
        let told = self.told();
        self.view.asks();
        self.votes.fill(Vote::Unknown(NodeError::TimedOut));
        let mut asked = ask_operation(environment, Operation::Latch(told), deadline);
        while !self.view.is_heard_out() && !is_enough(&self.view) {
            let Heard::Answer { node, answer, .. } = asked.next(&*environment.clock, deadline).await else {
                break;
            };
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = Vote::from(&answer);
            }
            let was_kept = self.view.is_kept();
            self.view.hears(node, said(answer));
            if self.view.is_kept() && !was_kept {
                deadline = deadline.min(environment.now() + node_timeout / GRACE_SHARE);
            }
        }
        if self.view.is_kept() {
            (self.failures, self.failing_since) = (0, None);
        } else {
            self.failing_since.get_or_insert(begun);
        }
        match self.view.other_count() {
            Some(recorded) => {
                Err(LatchError::OtherCount { latch: self.latch.clone(), given: self.count, recorded })
            }
            None => Ok(()),
        }
    }

    fn told(&self) -> node::Latch {
        node::Latch {
            latch: self.latch.clone(),
            count: self.count,
            is_open: self.view.is_open(),
            arrivals: self.view.untold(),
            ttl: self.kept_for,
        }
    }

    /// Tells all nodes that it is open, if one did not know; nobody waits for that.
    fn spread(&self) {
        if self.view.is_unknown_to_some() {
            let deadline = self.environment.now() + self.settings.rules.node_timeout;
            drop(ask_operation(self.environment, Operation::Latch(self.told()), deadline));
        }
    }

    /// Asks again and again until a quorum knows that it is open.
    async fn until_open(&mut self) -> Result<(), LatchError> {
        let wake = Arc::new(Wake::default());
        let topic = names::latch(&self.latch);
        let nodes = self.environment.nodes.iter();
        let _subscriptions: Vec<Subscription> =
            nodes.map(|node| node.subscribe(&topic, Arc::clone(&wake) as _)).collect();
        let pacing = self.settings.pacing;
        let mut poll = pacing.first_poll;
        loop {
            self.ask(|view| view.is_known_open() || view.has_news()).await?;
            if self.view.is_known_open() {
                self.spread();
                return Ok(());
            }
            if self.view.has_news() {
                continue;
            }
            if !self.view.is_kept() {
                self.pause_without_quorum().await?;
                continue;
            }
            let environment = self.environment;
            // Whatever is told, there is a delay between rounds.
            environment.clock.sleep_until(environment.now() + pacing.floor).await;
            let poll_at = environment.now() + poll.mul_f64(0.5 + environment.jitter());
            tokio::select! {
                biased;
                () = wake.0.notified() => {}
                () = environment.clock.sleep_until(poll_at) => {
                    poll = poll.saturating_mul(2).min(pacing.longest_poll);
                }
            }
        }
    }

    /// A delay that doubles up to the first poll; or the error, if it has been so for the quorum
    /// timeout.
    async fn pause_without_quorum(&mut self) -> Result<(), LatchError> {
        let environment = self.environment;
        let pacing = self.settings.pacing;
        let now = environment.now();
        let end = self.failing_since.map(|since| since + self.settings.quorum_timeout);
        if end.is_some_and(|end| end <= now) {
            return Err(self.no_quorum());
        }
        let delay = pacing.floor.saturating_mul(1 << self.failures.min(16)).min(pacing.first_poll);
        self.failures += 1;
        let at = now + delay.mul_f64(0.5 + environment.jitter()).max(pacing.floor);
        environment.clock.sleep_until(end.map_or(at, |end| end.min(at))).await;
        Ok(())
    }

    /// Why there is none: because of another count, if any node has told that.
    fn no_quorum(&self) -> LatchError {
        if let Some(recorded) = self.view.some_other_count() {
            return LatchError::OtherCount { latch: self.latch.clone(), given: self.count, recorded };
        }
        LatchError::NoQuorum {
            latch: self.latch.clone(),
            needed: self.environment.settings.electorate.needed(),
            votes: self.environment.votes(self.votes.iter().cloned()),
        }
    }

    fn arrived(&self) -> u32 {
        u32::try_from(self.view.arrived()).unwrap_or(u32::MAX)
    }
}

/// What a node has answered, to the pure part.
fn said(answer: Answer) -> LatchAnswer {
    match answer {
        Answer::Open => LatchAnswer::Open,
        Answer::Arrived(arrivals) => LatchAnswer::Arrived(arrivals),
        Answer::OtherCount(count) => LatchAnswer::OtherCount(count),
        _ => LatchAnswer::Nothing,
    }
}
