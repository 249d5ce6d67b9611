//! What a client does, as counters, gauges and histograms of the `metrics`
//! [facade](https://docs.rs/metrics).
//!
//! Every quorum that is connected while the feature is on is measured. The figures go to the
//! recorder that the program has installed, such as that of `metrics-exporter-prometheus`; without
//! one they go nowhere, and cost a look. Install it before the first quorum is connected: gauges
//! count up and down from there, and what a metric is, is told then.
//!
//! A label is the name of the quorum ([`QuorumBuilder::name`](crate::QuorumBuilder::name)), the
//! address of a node, or one of a few words; so their number is bounded. The resource is **no**
//! label: names of resources are made by programs, one for each invoice, and every value of a label
//! is a series of its own that an exporter keeps for ever. What happens to one resource is in the
//! [traces](https://docs.rs/tracing), which carry resource, owner and token.
//!
//! All clients of a process that have a quorum of the same name add to the same figures.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # fn recorder() -> metrics::NoopRecorder { metrics::NoopRecorder }
//! metrics::set_global_recorder(recorder())?; // of an exporter, which may do this itself
//!
//! let quorum = redquorum::Quorum::in_memory(3)?;
//! quorum.red_lock("report").lock().await?.unlock().await?;
//! // Prometheus is shown: redquorum_attempts_total{quorum="redquorum",outcome="acquired"} 1
//! # Ok(())
//! # }
//! ```
//!
//! [OBSERVABILITY.md] says what to alert on; in the repository, `docs/grafana-dashboard.json` is a
//! dashboard, and `cargo run -p redquorum-recipes --bin metrics` serves the figures to Prometheus.
//!
//! [OBSERVABILITY.md]: https://github.com/redquorum/redquorum/blob/main/docs/OBSERVABILITY.md

mod label;
mod meter;
mod metric;

pub(crate) use self::meter::Meter;
pub use self::metric::{Kind, Metric};

/// Attempts to acquire a lease, by how they ended; a call that waits makes several.
pub(crate) const ATTEMPTS: &str = "redquorum_attempts_total";

/// Answers of nodes to locks, write-backs and renewals, silence included.
pub(crate) const VOTES: &str = "redquorum_votes_total";

/// Seconds from a call to lock to its end, by mode, and how it ended.
pub(crate) const WAIT: &str = "redquorum_wait_seconds";

/// Calls to lock that go on at present.
pub(crate) const WAITING: &str = "redquorum_waiting";

/// Leases that are held at present, by mode.
pub(crate) const LEASES: &str = "redquorum_leases";

/// Seconds from the grant of a lease to its end, by mode, and how it ended.
pub(crate) const HOLD: &str = "redquorum_hold_seconds";

/// Renewals, by how they ended.
pub(crate) const RENEWALS: &str = "redquorum_renewals_total";

/// Seconds from the first request of a renewal to its decision.
pub(crate) const RENEWAL: &str = "redquorum_renewal_seconds";

/// What was left of the validity when a renewal had its quorum, as a share of the ttl.
pub(crate) const MARGIN: &str = "redquorum_renewal_margin_ratio";

/// Leases that were lost, by reason.
pub(crate) const LOSSES: &str = "redquorum_losses_total";

/// Leases whose last guard was dropped, and not unlocked.
pub(crate) const ABANDONED: &str = "redquorum_abandoned_total";

/// Sightings of a semaphore's slot that is in use beyond the number of permits here.
pub(crate) const OTHER_COUNTS: &str = "redquorum_other_permit_counts_total";

/// Arrivals at latches that a quorum keeps, repeated ones too.
pub(crate) const ARRIVALS: &str = "redquorum_latch_arrivals_total";

/// Seconds from a call that waits for a latch to its end, by how it ended.
pub(crate) const LATCH_WAIT: &str = "redquorum_latch_wait_seconds";

/// Whether a node is in quarantine, by its last word on that.
pub(crate) const QUARANTINED: &str = "redquorum_node_quarantined";

/// Connections to a node at present, one for each client of the process.
pub(crate) const CONNECTIONS: &str = "redquorum_node_connections";

/// Connections to a node that were made anew after one was broken.
pub(crate) const RECONNECTS: &str = "redquorum_node_reconnects_total";

/// Unlocks that a node has not confirmed yet.
pub(crate) const UNDELIVERED: &str = "redquorum_unlocks_undelivered";

/// All metrics; OBSERVABILITY.md explains each.
pub const ALL: &[Metric] = metric::ALL;

/// Registers units and descriptions with the recorder. Every client does so when it connects; a recorder that is installed
/// later needs this call.
pub fn describe() {
    ALL.iter().for_each(Metric::describe);
}
