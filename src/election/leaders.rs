//! The leaders of an election, one after the other.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    future::poll_fn,
    stream::{BoxStream, Stream, StreamExt, unfold},
};

use crate::{
    acquire::checked_request::CheckedRequest,
    client::{context::ClientContext, notice_waker::NoticeWaker},
    clock::Instant,
    election::{
        Leader,
        leader_query::{self, LeaderView},
    },
    lock::client::Client,
    mutation::{self, Mutation},
    mutex,
    node::{Proclamation, Subscription, names},
    values::Resource,
};

/// The leaders of an election, from [`Election::observe`](crate::election::Election::observe): the present leader, if
/// there is one, and then every change of leader or value.
///
/// The nodes send a notice of each change. The client also asks the nodes again after a connection was broken, and from
/// time to time, so a lost notice only delays a change. If changes follow one another quickly, only the last may be
/// shown. Terms never go back, and neither do the values of one leader.
///
/// The absence of a leader is *not* shown. An observer would learn of it late, and of its end late, too, so no program
/// may act on it: take a leader for gone only when the next leader is shown. To ask for the present leader, call
/// [`Election::leader`](crate::election::Election::leader).
///
/// The stream ends only when the client is closed, such as by a shutdown. While no quorum answers, the stream waits. It
/// keeps the connections of the client. Dropping it unsubscribes.
///
/// `Leaders` is a [`Stream`], and has a [`next`](Self::next) of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redquorum::Quorum;
/// # let quorum = Quorum::in_memory(3)?;
/// let election = quorum.election("scheduler");
/// let leadership = election.campaign("host-7").await?;
///
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next().await.unwrap().value_str(), "host-7");
/// leadership.proclaim("host-7, draining").await?;
/// assert_eq!(leaders.next().await.unwrap().value_str(), "host-7, draining");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is observed unless it is polled"]
pub struct Leaders {
    resource: Resource,
    /// Never locked: the mutex makes it possible to share what is only used by exclusive reference.
    leaders: Mutex<BoxStream<'static, Leader>>,
}

/// The state behind [`Leaders`].
struct LeaderObserver {
    client: Arc<Client>,
    checked: CheckedRequest,
    wake: Arc<NoticeWaker>,
    /// Subscriptions at every node: no change goes unnoticed while they stand. There is none for releases, because a
    /// release shows no leader.
    _subscriptions: Vec<Subscription>,
    /// Term and number of the last proclamation that was shown.
    last: Option<(u64, u64)>,
    not_before: Instant,
    /// The time of the next question without a notice.
    poll_at: Instant,
    poll: Duration,
}

impl Leaders {
    pub(super) fn begin(client: &Arc<Client>, checked: CheckedRequest) -> Self {
        let resource = checked.resource.clone();
        let observer = LeaderObserver::begin(Arc::clone(client), checked);
        let leaders = unfold(observer, |mut observer| async {
            let leader = observer.next().await?;
            Some((leader, observer))
        });
        Self { resource, leaders: Mutex::new(leaders.fuse().boxed()) }
    }

    /// Returns the next leader or value; `None` once the client is closed, such as by a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Leader> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Leaders {
    type Item = Leader;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leader>> {
        mutex::get_mut(&mut self.get_mut().leaders).as_mut().poll_next(context)
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").field("election", &self.resource).finish_non_exhaustive()
    }
}

impl LeaderObserver {
    fn begin(client: Arc<Client>, checked: CheckedRequest) -> Self {
        let wake = Arc::new(NoticeWaker::default());
        let topic = names::leader(&checked.resource);
        let nodes = client.context.nodes.iter();
        let subscriptions = nodes.map(|node| node.subscribe(&topic, Arc::clone(&wake) as _)).collect();
        let now = client.context.now();
        let poll = checked.settings.pacing.first_poll;
        let _subscriptions = subscriptions;
        Self { client, checked, wake, _subscriptions, last: None, not_before: now, poll_at: now, poll }
    }

    /// The next change; `None` once the client is closed.
    async fn next(&mut self) -> Option<Leader> {
        loop {
            tokio::select! {
                biased;
                () = self.context().closed() => return None,
                () = self.due() => {}
            }
            let asked = tokio::select! {
                biased;
                () = self.context().closed() => return None,
                asked = leader_query::ask(self.context(), &self.checked) => asked,
            };
            let shown = match asked {
                Ok(view) => self.see(view),
                Err(error) => {
                    tracing::debug!(election = %self.checked.resource, %error, "no leader");
                    self.pace(None);
                    None
                }
            };
            if let Some(said) = shown {
                return Some(Leader::new(&said));
            }
        }
    }

    /// Ready at a notice or at the next poll, and not sooner after the last time than the floor:
    /// the notices of several nodes come one by one.
    async fn due(&self) {
        self.context().clock.sleep_until(self.not_before).await;
        tokio::select! {
            biased;
            () = self.wake.0.notified() => {}
            () = self.context().clock.sleep_until(self.poll_at) => {}
        }
    }

    /// What is new in it.
    fn see(&mut self, view: LeaderView) -> Option<Proclamation> {
        let now = view.leader.as_ref().map(|said| (said.term, said.number));
        let is_new = mutation::altered(Mutation::ObserveBackwards, now > self.last, |_| now != self.last);
        if is_new {
            self.poll = self.checked.settings.pacing.first_poll;
        }
        self.pace(view.remaining);
        if !is_new {
            return None;
        }
        self.last = now;
        view.leader
    }

    /// When to ask again: with a growing and jittered poll, but no later than the leader's lock can
    /// end.
    fn pace(&mut self, remaining: Option<Duration>) {
        let pacing = self.checked.settings.pacing;
        let poll = self.poll.mul_f64(0.5 + self.context().jitter());
        let now = self.context().now();
        self.not_before = now + pacing.floor;
        self.poll_at = now + remaining.map_or(poll, |remaining| poll.min(remaining));
        self.poll = self.poll.saturating_mul(2).min(pacing.longest_poll);
    }

    fn context(&self) -> &ClientContext {
        &self.client.context
    }
}
