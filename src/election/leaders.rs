//! The stream of leaders of an election, for `Election::observe`. The stream queries the leader after notices of the
//! nodes, and at intervals.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    future::poll_fn,
    stream::{self, BoxStream, Stream, StreamExt, unfold},
};

use crate::{
    acquire::checked_request::CheckedRequest,
    client::{context::ClientContext, notice_waker::NoticeWaker},
    clock::Instant,
    election::{
        Leader,
        leader_query::{self, LeaderView},
    },
    error::Error,
    lock::client::Client,
    mutation::{self, Mutation},
    mutex,
    node::{Proclamation, Subscription, names},
    process::HomeProcess,
    values::Resource,
};

/// The stream of leaders of an election, from [`Election::observe`](crate::election::Election::observe): the present
/// leader, if any, and then every change of leader or value.
///
/// The nodes send a notice of each change. The client also queries the nodes after a broken connection, and at
/// intervals, so a lost notice only delays a change. If several changes follow quickly, the stream may return only the
/// last change. The stream returns neither a smaller term after a larger term, nor an older value after a newer value.
///
/// The stream does *not* return the absence of a leader. An observer would receive the beginning and the end of an
/// absence late, so a program must not act on the absence. For an observer, a leadership ends when the stream returns
/// the next leader. [`Election::leader`](crate::election::Election::leader) returns whether there is a leader now.
///
/// The stream ends only when the client is closed, such as by a shutdown, and in a forked process. While no quorum
/// answers, the stream waits, and the log has a warning after about a second. The stream keeps the connections of the
/// client open, and the drop of the stream unsubscribes.
///
/// `Leaders` is a [`Stream`], and has a [`next`](Self::next) method for use without that trait.
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
#[must_use = "a stream of leaders does nothing unless it is polled"]
pub struct Leaders {
    resource: Resource,
    /// The stream, in a mutex that is never locked. The mutex only makes `Leaders` `Sync`, because all access is
    /// exclusive.
    leaders: Mutex<BoxStream<'static, Leader>>,
    home: HomeProcess,
}

/// The state behind [`Leaders`].
struct LeaderObserver {
    client: Arc<Client>,
    checked: CheckedRequest,
    wake: Arc<NoticeWaker>,
    /// The subscriptions to notices of new leaders and values, one at every node. The observer does not subscribe to
    /// release notices, because a release shows no leader.
    _subscriptions: Vec<Subscription>,
    /// The term and number of the last proclamation that was returned.
    last: Option<(u64, u64)>,
    /// The earliest time of the next query, even after a notice.
    not_before: Instant,
    /// The time of the next query without a notice.
    poll_at: Instant,
    /// The time between two queries without a notice, before jitter.
    poll: Duration,
    /// The time of the first of the last queries without a quorum; `None` if the last query had a quorum.
    without_quorum_since: Option<Instant>,
}

impl Leaders {
    pub(super) fn begin(client: &Arc<Client>, checked: CheckedRequest) -> Self {
        let (resource, home) = (checked.resource.clone(), client.context.home());
        let observer = LeaderObserver::begin(Arc::clone(client), checked);
        let leaders = unfold(observer, |mut observer| async {
            let leader = observer.next().await?;
            Some((leader, observer))
        });
        Self { resource, leaders: Mutex::new(leaders.fuse().boxed()), home }
    }

    /// Returns the next leader or value; `None` once the client is closed, such as by a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Leader> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Leaders {
    type Item = Leader;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leader>> {
        if self.home.is_left() {
            return Poll::Ready(None);
        }
        mutex::get_mut(&mut self.get_mut().leaders).as_mut().poll_next(context)
    }
}

impl Drop for Leaders {
    /// Unsubscribes. In a forked process, leaves the subscriptions of the original process as they are.
    fn drop(&mut self) {
        if self.home.is_left() {
            let leaders = mutex::get_mut(&mut self.leaders);
            std::mem::forget(std::mem::replace(leaders, stream::empty().boxed()));
        }
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
        Self {
            client,
            checked,
            wake,
            _subscriptions,
            last: None,
            not_before: now,
            poll_at: now,
            poll,
            without_quorum_since: None,
        }
    }

    /// Returns the next change; `None` once the client is closed.
    async fn next(&mut self) -> Option<Leader> {
        loop {
            tokio::select! {
                biased;
                () = self.context().closed() => return None,
                () = self.due() => {}
            }
            let answered = tokio::select! {
                biased;
                () = self.context().closed() => return None,
                view = leader_query::query(self.context(), &self.checked) => view,
            };
            let change = match answered {
                Ok(view) => self.record(view),
                Err(error) => {
                    tracing::debug!(election = %self.checked.resource, %error, "leader query failed");
                    self.query_failed(&error);
                    self.schedule_query(None);
                    None
                }
            };
            if let Some(proclamation) = change {
                return Some(Leader::new(&proclamation));
            }
        }
    }

    /// Waits for a notice or the next poll, but at least until `not_before`. The notices of several nodes about one
    /// change arrive one by one, and must not cause a query each.
    async fn due(&self) {
        self.context().clock.sleep_until(self.not_before).await;
        tokio::select! {
            biased;
            () = self.wake.0.notified() => {}
            () = self.context().clock.sleep_until(self.poll_at) => {}
        }
    }

    /// Handles a failed query. The client logs a warning if queries have had no quorum for a second.
    fn query_failed(&mut self, error: &Error) {
        let Error::NoQuorum(shortage) = error else { return };
        let now = self.context().now();
        let since = *self.without_quorum_since.get_or_insert(now);
        let lasts = now.saturating_duration_since(since);
        self.context().outage_warnings.attempt_failed(now, lasts, || shortage);
    }

    /// Records the view of a query, and schedules the next query. Returns the proclamation of the leader, if the leader
    /// or the value is new.
    fn record(&mut self, view: LeaderView) -> Option<Proclamation> {
        self.without_quorum_since = None;
        let latest = view.leader.as_ref().map(|leader| (leader.term, leader.number));
        let is_new =
            mutation::altered(Mutation::ObserveBackwards, latest > self.last, |_| latest != self.last);
        if is_new {
            self.poll = self.checked.settings.pacing.first_poll;
        }
        self.schedule_query(view.remaining);
        if !is_new {
            return None;
        }
        self.last = latest;
        view.leader
    }

    /// Sets the time of the next query without a notice, and the earliest time of a query after a notice. The time
    /// between two queries without a notice doubles up to the longest poll interval, with jitter. The next query is at
    /// the latest when the lock of the leader can expire (after `remaining`).
    fn schedule_query(&mut self, remaining: Option<Duration>) {
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
