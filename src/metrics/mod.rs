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

/// All metrics; OBSERVABILITY.md explains each.
pub const ALL: &[Metric] = metric::ALL;

/// Registers units and descriptions with the recorder. Every client does so when it connects; a recorder that is installed
/// later needs this call.
pub fn describe() {
    ALL.iter().for_each(Metric::describe);
}
