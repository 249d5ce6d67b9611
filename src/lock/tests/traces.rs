//! The spans and events that calls and leases trace. [`Traces`] records them for tests, including tests of other
//! modules.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tracing::{
    Dispatch, Event, Instrument, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{DefaultGuard, Interest, NoSubscriber},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use super::{all_behave, client, lease_without_renewal, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster,
    error::ClosedReason,
    error::{LossReason, NodeError},
    mutex,
    node::memory::Behaviour,
};

const TTL: Duration = Duration::from_secs(30);

/// Two subscribers that stay registered. With fewer than two subscribers in the process, `tracing`
/// caches the interest of the first thread that reaches a callsite for all threads. The threads of
/// other tests have no subscriber, and would disable the callsite for the threads of these tests.
static REGISTERED_SUBSCRIBERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Registry::default().with(Collector::default()))));

/// The fields of a span or an event, as text.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// An event of this crate.
#[derive(Clone, Debug)]
pub(crate) struct TracedEvent {
    level: Level,
    fields: Fields,
    /// The spans around the event, outermost first.
    spans: Vec<Span>,
}

/// A span around an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    id: u64,
    name: &'static str,
    level: Level,
    resource: Option<String>,
}

/// The fields of the span of a call: its mode, and the lease id and the token of the lease, if the call returned a
/// guard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CallFields {
    mode: Option<String>,
    id: Option<String>,
    token: Option<String>,
}

impl TracedEvent {
    /// Returns the text of a field. Panics if the event has no such field.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.0.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Checks that the event has the resource, the id and the token of a lease.
    fn assert_names_lease(&self, resource: &str, id: &str, token: &str) {
        assert_eq!((self.field("resource"), self.field("id"), self.field("token")), (resource, id, token));
    }

    /// Checks that the event has the resource and the id of the guard's lease.
    fn assert_names(&self, guard: &LockGuard) {
        assert_eq!(self.field("resource"), guard.resources()[0].to_string());
        assert_eq!(self.field("id"), guard.id().to_string());
    }
}

/// A layer that records events and ended spans. All clones share the records.
#[derive(Clone, Debug, Default)]
struct Collector {
    /// The events of this crate, at every level.
    events: Arc<Mutex<Vec<TracedEvent>>>,
    /// The fields of the ended spans of calls. Spans of test code count as calls, too.
    ended_calls: Arc<Mutex<Vec<CallFields>>>,
    /// The fields of the ended spans of leases.
    ended_leases: Arc<Mutex<Vec<Fields>>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    /// Returns `sometimes`, because `always` would also enable the callsite for threads without a
    /// subscriber.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).expect("the span is new").extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(fields) = context.span(id).expect("the span exists").extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("the span exists");
        let extensions = span.extensions();
        let Some(Fields(fields)) = extensions.get::<Fields>() else { return };
        if span.name() == "redquorum::lease" {
            mutex::lock(&self.ended_leases).push(Fields(fields.clone()));
            return;
        }
        let [mode, id, token] = ["mode", "id", "token"].map(|name| fields.get(name).cloned());
        mutex::lock(&self.ended_calls).push(CallFields { mode, id, token });
    }

    fn on_follows_from(&self, id: &span::Id, follows: &span::Id, context: Context<'_, S>) {
        let follows = context.span(follows).expect("the span exists").name();
        let span = context.span(id).expect("the span exists");
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            fields.0.insert("follows", follows.to_owned());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("redquorum") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let scope = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = scope.map(|span| Span {
            id: span.id().into_u64(),
            name: span.name(),
            level: *span.metadata().level(),
            resource: span.extensions().get::<Fields>().and_then(|fields| fields.0.get("resource").cloned()),
        });
        let traced = TracedEvent { level: *event.metadata().level(), fields, spans: spans.collect() };
        mutex::lock(&self.events).push(traced);
    }
}

/// The spans and events that this thread traces from [`begin`](Self::begin) until the drop of this value.
pub(crate) struct Traces {
    collector: Collector,
    _default: DefaultGuard,
}

impl Traces {
    /// Begins to record the spans and events that this thread traces.
    pub(crate) fn begin() -> Self {
        LazyLock::force(&REGISTERED_SUBSCRIBERS);
        let collector = Collector::default();
        let subscriber = Registry::default().with(collector.clone());
        Self { collector, _default: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns all events, in order.
    pub(crate) fn events(&self) -> Vec<TracedEvent> {
        mutex::lock(&self.collector.events).clone()
    }

    /// Returns the events with this message, in order.
    fn with_message(&self, message: &str) -> Vec<TracedEvent> {
        self.events().into_iter().filter(|traced| traced.field("message") == message).collect()
    }

    /// Returns the only event with this message.
    pub(crate) fn only(&self, message: &str) -> TracedEvent {
        let mut traced = self.with_message(message);
        assert_eq!(traced.len(), 1, "{message}: {:?}", self.events());
        traced.remove(0)
    }

    /// Returns the fields of the spans of ended calls, in order.
    fn ended_calls(&self) -> Vec<CallFields> {
        mutex::lock(&self.collector.ended_calls).clone()
    }

    /// Returns the fields of the spans of ended leases, in order.
    fn ended_leases(&self) -> Vec<Fields> {
        mutex::lock(&self.collector.ended_leases).clone()
    }

    /// Returns the messages of warnings and errors, in order.
    pub(crate) fn warned(&self) -> Vec<String> {
        self.warnings().iter().map(|traced| traced.field("message").to_owned()).collect()
    }

    /// Returns the warnings and errors, in order.
    pub(crate) fn warnings(&self) -> Vec<TracedEvent> {
        self.events().into_iter().filter(|traced| traced.level <= Level::WARN).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_call_traces_its_votes_and_its_lease() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let votes = traces.with_message("vote");
    assert!(votes.len() >= 3, "fewer votes than a quorum: {votes:?}");
    for vote in &votes {
        assert_eq!(vote.level, Level::TRACE);
        vote.assert_names(&guard);
        assert_eq!(vote.field("operation"), "Lock");
        assert!(vote.field("answer").starts_with("Granted"), "{vote:?}");
    }
    let mut nodes: Vec<_> = votes.iter().map(|vote| vote.field("node").to_owned()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), votes.len(), "a node has voted twice");
    let acquired = traces.only("acquired");
    assert_eq!(acquired.level, Level::DEBUG);
    acquired.assert_names(&guard);
    assert_eq!(acquired.field("token"), guard.fencing_token().to_string());
    assert!(traces.with_message("rollback").is_empty() && traces.with_message("failed").is_empty());
    assert!(traces.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_traces_the_vote_of_each_node_and_the_rollback() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(5);
    server(&cluster, 1).behave(Behaviour::Refusing);
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::ReadOnly));
    server(&cluster, 3).behave(Behaviour::Failing(NodeError::OutOfMemory));
    server(&cluster, 4).behave(Behaviour::Hanging);
    drop(client(&cluster).red_lock("r").try_lock().await.unwrap_err());
    let (failed, rollback) = (traces.only("failed"), traces.only("rollback"));
    for traced in [&failed, &rollback] {
        assert_eq!(traced.level, Level::DEBUG);
        assert_eq!(traced.field("resource"), "r");
    }
    assert_eq!(failed.field("id"), rollback.field("id"));
    assert!(!failed.field("reason").is_empty());
    let votes: Vec<_> = failed.field("replies").split("; ").collect();
    assert_eq!(votes.len(), 5, "{votes:?}");
    assert_eq!(votes[0], "memory:0: done");
    assert!(votes[1].starts_with("memory:1: held by somebody:else"), "{votes:?}");
    assert_eq!(votes[2], format!("memory:2: {}", NodeError::ReadOnly));
    assert_eq!(votes[3], format!("memory:3: {}", NodeError::OutOfMemory));
    assert!(votes[4].starts_with("memory:4: ") && !votes[4].ends_with("done"), "{votes:?}");
    assert!(!rollback.field("nodes").is_empty());
    assert!(traces.with_message("acquired").is_empty());
}

#[tokio::test(start_paused = true)]
async fn renewals_by_the_watchdog_are_traced_with_their_outcome() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    pass(TTL / 2).await;
    let renewal = traces.only("renewal");
    assert_eq!(renewal.level, Level::DEBUG);
    renewal.assert_names(&guard);
    assert_eq!(renewal.field("outcome"), "Renewed");
    all_behave(&cluster, &Behaviour::Failing(NodeError::ReadOnly));
    pass(TTL / 6 + Duration::from_millis(100)).await;
    let renewals = traces.with_message("renewal");
    assert_eq!(renewals.len(), 2, "{renewals:?}");
    assert_eq!(renewals[1].field("outcome"), "Failed");
    assert!(traces.warnings().is_empty(), "a failed renewal is no loss");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_on_request_is_traced_with_its_outcome() {
    let traces = Traces::begin();
    let guard = client(&MemoryCluster::new(3)).red_lock("r").lock().await.unwrap();
    guard.renew().await.unwrap();
    let renewal = traces.only("renewal on request");
    assert_eq!(renewal.level, Level::DEBUG);
    renewal.assert_names(&guard);
    assert!(renewal.field("outcome").contains("Renewed"), "{renewal:?}");
}

/// Checks that the only warning reports the loss of the guard's lease for this reason.
fn assert_warned_of_loss(traces: &Traces, guard: &LockGuard, reason: LossReason) {
    assert_eq!(traces.warnings().len(), 1, "{:?}", traces.warnings());
    let lost = traces.only("lease lost");
    assert_eq!(lost.level, Level::WARN);
    lost.assert_names(guard);
    assert_eq!(lost.field("token"), guard.fencing_token().to_string());
    assert_eq!(lost.field("reason"), reason.to_string());
    // The replies of the nodes show why the lease was not renewed.
    for (node, _) in guard.node_replies().iter() {
        assert!(lost.field("replies").contains(node), "{}", lost.field("replies"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_expiry_of_a_lease_causes_one_warning() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    pass(TTL).await;
    assert_warned_of_loss(&traces, &guard, LossReason::Expired);
    drop(guard);
    assert_eq!(traces.warnings().len(), 1, "the drop of the guard causes another warning");
}

#[tokio::test(start_paused = true)]
async fn the_revocation_of_a_lease_causes_one_warning() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Refusing);
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    pass(TTL).await;
    assert_warned_of_loss(&traces, &guard, LossReason::Revoked);
    let lost = traces.only("lease lost");
    assert!(lost.field("replies").matches(": held by").count() >= 2, "{}", lost.field("replies"));
}

#[tokio::test(start_paused = true)]
async fn the_hold_limit_of_a_lease_causes_one_warning() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster)
        .red_lock("r")
        .options(LockOptions::new().ttl(TTL).hold_at_most(TTL * 2))
        .lock()
        .await
        .unwrap();
    assert_eq!(guard.lost().await.reason, LossReason::HoldLimit);
    pass(TTL).await;
    assert_warned_of_loss(&traces, &guard, LossReason::HoldLimit);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_causes_one_warning_for_a_held_lease() {
    let traces = Traces::begin();
    let quorum = client(&MemoryCluster::new(3));
    let guard = quorum.red_lock("r").lock().await.unwrap();
    quorum.shutdown().await;
    assert_warned_of_loss(&traces, &guard, LossReason::Closed(ClosedReason::ShutDown));
}

/// Checks that the replies list at least `minimum` nodes as done.
fn assert_confirmed(replies: &str, minimum: usize) {
    assert!(replies.matches(": done").count() >= minimum, "{replies}");
}

#[tokio::test(start_paused = true)]
async fn an_unlock_is_traced_with_the_nodes_that_confirmed() {
    let traces = Traces::begin();
    let guard = client(&MemoryCluster::new(3)).red_lock("r").lock().await.unwrap();
    let id = guard.id().to_string();
    guard.unlock().await.unwrap();
    let unlock = traces.only("unlock");
    assert_eq!(unlock.level, Level::DEBUG);
    assert_eq!((unlock.field("resource"), unlock.field("id")), ("r", &*id));
    assert_confirmed(unlock.field("replies"), 2);
    assert!(traces.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_of_a_lease_have_its_resource_id_and_token() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    for is_dropped in [false, true] {
        let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
        let (id, token) = (guard.id().to_string(), guard.fencing_token().to_string());
        guard.renew().await.unwrap();
        pass(TTL / 2).await;
        let end = if is_dropped {
            drop(guard);
            "unlock by drop"
        } else {
            guard.unlock().await.unwrap();
            "unlock"
        };
        for message in ["acquired", "renewal on request", "renewal", end] {
            let traced = traces.with_message(message).pop().unwrap_or_else(|| panic!("no {message}"));
            traced.assert_names_lease("r", &id, &token);
        }
        let named = CallFields { mode: Some("Exclusive".to_owned()), id: Some(id), token: Some(token) };
        assert_eq!(traces.ended_calls().last(), Some(&named), "the span of the call lacks the lease");
    }
    let held = quorum.red_lock("r").try_lock().await.unwrap().unwrap();
    assert_eq!(traces.ended_calls().last().unwrap().id, Some(held.id().to_string()));
    assert!(client(&cluster).red_lock("r").try_lock().await.unwrap().is_none());
    assert!(client(&cluster).rw_lock("r").try_read().await.unwrap().is_none());
    let named = CallFields { mode: Some("Shared".to_owned()), id: None, token: None };
    assert_eq!(traces.ended_calls().last(), Some(&named), "the span of a call without a lease names a lease");
    let (id, token) = (held.id().to_string(), held.fencing_token().to_string());
    quorum.shutdown().await;
    traces.only("lease lost").assert_names_lease("r", &id, &token);
}

/// The span of a lease follows from the span of the lock call, and is no child of that span. As the parent, the span of
/// the call would stay open as long as the lease.
#[tokio::test(start_paused = true)]
async fn a_lease_has_one_span_from_its_grant_to_its_end() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = quorum.red_lock("r").lock().instrument(tracing::info_span!("request")).await.unwrap();
    let lease = guard.lease();
    pass(2 * TTL).await;
    assert!(traces.ended_leases().is_empty());
    guard.unlock().await.unwrap();
    let [Fields(unlocked)] = &*traces.ended_leases() else { panic!("{:?}", traces.ended_leases()) };
    let named = |name: &str| unlocked.get(name).cloned();
    assert_eq!(named("resource").as_deref(), Some("r"));
    assert_eq!(named("id"), Some(lease.id().to_string()));
    assert_eq!(named("token"), Some(lease.fencing_token().to_string()));
    assert_eq!((named("loss"), named("follows").as_deref()), (None, Some("lock")));
    let lost = quorum.red_lock("r").lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    lost.lost().await;
    let ended = traces.ended_leases();
    assert_eq!(ended[1].0.get("loss").map(String::as_str), Some("its validity ended"));
    let warning = traces.only("lease lost");
    assert_eq!(warning.spans[0].name, "redquorum::lease");
    assert_eq!(warning.spans[0].level, Level::INFO);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_is_traced_as_a_warning() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    let _guard = client(&cluster).red_lock("r").lock().await.unwrap();
    crate::admin::force_unlock(&client(&cluster), "r").await.unwrap();
    let forced = traces.only("force-unlocked");
    assert_eq!(forced.level, Level::WARN);
    assert_eq!(forced.field("resource"), "r");
    assert_confirmed(forced.field("replies"), 3);
}

/// Returns the events of attempts, in order.
fn attempt_events(traces: &Traces) -> Vec<TracedEvent> {
    let messages = ["vote", "acquired", "failed", "rollback"];
    traces.events().into_iter().filter(|traced| messages.contains(&traced.field("message"))).collect()
}

/// Checks that all events are in the same span of this name, with the resource `r`.
fn assert_in_one_span(span: &str, traced: &[TracedEvent]) {
    let first = &traced.first().expect("no event").spans;
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!((first[0].name, first[0].level), (span, Level::DEBUG));
    assert_eq!(first[0].resource.as_deref(), Some("r"));
    for traced in traced {
        assert_eq!(traced.spans, *first, "{traced:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_lock_call_are_in_one_span_with_the_resource() {
    let cluster = MemoryCluster::new(3);
    let holder = client(&cluster).red_lock("r").lock().await.unwrap();
    let traces = Traces::begin();
    let waiting = client(&cluster).red_lock("r");
    let unlock = async {
        pass(Duration::from_millis(50)).await;
        holder.unlock().await
    };
    let (guard, unlocked) = tokio::join!(waiting.lock(), unlock);
    unlocked.unwrap();
    assert!(!traces.with_message("failed").is_empty(), "the first attempt did not fail");
    traces.only("acquired").assert_names(&guard.unwrap());
    assert_in_one_span("lock", &attempt_events(&traces));
    assert_eq!(traces.only("unlock").spans, [], "the unlock by the holder is outside of the span");
}

#[tokio::test(start_paused = true)]
async fn each_lock_call_has_a_span_of_its_own() {
    let traces = Traces::begin();
    let quorum = client(&MemoryCluster::new(3));
    let lock = quorum.red_lock("r");
    lock.lock().await.unwrap().unlock().await.unwrap();
    let first = attempt_events(&traces);
    lock.try_lock_for(TTL).await.unwrap().unwrap().unlock().await.unwrap();
    let second = attempt_events(&traces).split_off(first.len());
    assert_in_one_span("lock", &first);
    assert_in_one_span("lock", &second);
    assert_ne!(first[0].spans[0].id, second[0].spans[0].id);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_of_try_lock_is_in_the_span_of_the_call() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Refusing);
    assert!(client(&cluster).red_lock("r").try_lock().await.unwrap().is_none());
    let attempt = attempt_events(&traces);
    assert!(!traces.with_message("failed").is_empty() && !traces.with_message("rollback").is_empty());
    assert_in_one_span("try_lock", &attempt);
}

#[tokio::test(start_paused = true)]
async fn the_rollback_of_a_dropped_lock_call_is_in_the_span_of_the_call() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Hanging);
    let lock = client(&cluster).red_lock("r");
    assert!(lock.lock().now_or_never().is_none());
    assert_in_one_span("lock", &[traces.only("rollback")]);
}

/// Makes calls that trace events at every level.
async fn trace_every_level() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert!(client(&cluster).red_lock("r").try_lock().await.unwrap().is_none());
    pass(TTL).await;
    guard.unlock().await.unwrap();
    let _guard = quorum.red_lock("r").lock().await.unwrap();
    crate::admin::force_unlock(&client(&cluster), "r").await.unwrap();
    quorum.shutdown().await;
}

/// A subscriber that disables every callsite, and counts the events and spans that it receives
/// nevertheless.
#[derive(Clone, Default)]
struct DisabledSubscriber(Arc<AtomicUsize>);

impl Subscriber for DisabledSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        self.0.fetch_add(1, Ordering::Relaxed);
        span::Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// `tracing` formats the values of an event only when a subscriber records the event. Therefore this test also shows
/// that nothing is formatted without an interested subscriber.
#[tokio::test(start_paused = true)]
async fn a_subscriber_without_interest_receives_neither_events_nor_spans() {
    LazyLock::force(&REGISTERED_SUBSCRIBERS);
    let disabled = DisabledSubscriber::default();
    let _default = tracing::subscriber::set_default(disabled.clone());
    trace_every_level().await;
    assert_eq!(disabled.0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn no_call_installs_a_subscriber() {
    LazyLock::force(&REGISTERED_SUBSCRIBERS);
    trace_every_level().await;
    assert!(tracing::dispatcher::get_default(|default| default.is::<NoSubscriber>()));
    assert!(!tracing::enabled!(Level::ERROR));
    assert!(!tracing::enabled!(Level::WARN));
    assert!(!tracing::enabled!(Level::DEBUG));
    assert!(!tracing::enabled!(Level::TRACE));
}

/// Shows that the calls of the two tests above trace events.
#[tokio::test(start_paused = true)]
async fn an_interested_subscriber_receives_the_events_of_the_same_calls() {
    let traces = Traces::begin();
    trace_every_level().await;
    for message in
        ["vote", "acquired", "failed", "rollback", "renewal", "unlock", "force-unlocked", "lease lost"]
    {
        assert!(!traces.with_message(message).is_empty(), "{message}");
    }
}

/// Starts three tasks, each of which locks a resource of its own, and unlocks.
fn spawn_locks(quorum: &crate::Quorum) -> Vec<tokio::task::JoinHandle<()>> {
    let lock = |name: &str| {
        let lock = quorum.red_lock(name);
        tokio::spawn(async move { drop(lock.lock().await) })
    };
    ["r", "s", "t"].map(lock).into()
}

#[tokio::test(start_paused = true)]
async fn a_second_of_waiting_without_a_quorum_causes_one_warning_with_the_remedy() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    cluster.servers().iter().for_each(|server| server.forget());
    let traces = Traces::begin();
    let waiting = spawn_locks(&quorum);
    pass(Duration::from_millis(900)).await;
    assert!(traces.warnings().is_empty(), "{:?}", traces.warnings());
    pass(Duration::from_secs(30)).await;
    assert_eq!(traces.warned(), ["waiting without a quorum"], "one warning for all calls");
    let warning = traces.only("waiting without a quorum");
    for words in ["no quorum for ", "memory:1: in quarantine", "`redquorum init`"] {
        assert!(warning.field("shortage").contains(words), "{warning:?}");
    }
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_second_outage_after_a_minute_causes_a_second_warning() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let traces = Traces::begin();
    for warnings in 1..=2 {
        all_behave(&cluster, &Behaviour::Failing(NodeError::Unreachable("refused".into())));
        let waiting = spawn_locks(&quorum);
        pass(Duration::from_secs(3)).await;
        all_behave(&cluster, &Behaviour::Granting);
        pass(Duration::from_secs(3)).await;
        assert!(waiting.iter().all(tokio::task::JoinHandle::is_finished));
        assert_eq!(traces.warned().len(), warnings, "{:?}", traces.warned());
        pass(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_causes_no_warning() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let traces = Traces::begin();
    all_behave(&cluster, &Behaviour::Failing(NodeError::Unreachable("refused".into())));
    let waiting = spawn_locks(&quorum);
    pass(Duration::from_millis(500)).await;
    all_behave(&cluster, &Behaviour::Granting);
    pass(Duration::from_secs(10)).await;
    assert!(waiting.iter().all(tokio::task::JoinHandle::is_finished));
    assert!(traces.warnings().is_empty(), "{:?}", traces.warnings());
}
