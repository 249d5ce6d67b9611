//! Counters, gauges and histograms of a client, for the `metrics` [facade](https://docs.rs/metrics).
//!
//! With the feature `metrics`, every quorum is measured. The measurements go to the recorder that the program has
//! installed, such as `metrics-exporter-prometheus`. Without a recorder, events are not recorded. Install the recorder
//! before the first quorum is connected. A gauge of a later recorder would not count earlier events, and a client
//! registers the descriptions of the metrics when it connects.
//!
//! A label is the name of the quorum ([`QuorumBuilder::name`](crate::QuorumBuilder::name)), the address of a node, or
//! a value of a fixed set, so the number of series is bounded. The resource is **no** label, because an exporter keeps
//! a series for every value of a label, and a program may have a resource for each invoice. The
//! [traces](https://docs.rs/tracing) have resource, lease id and token.
//!
//! If the quorums of two clients of a process have the same name, the clients share their series.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # fn recorder() -> metrics::NoopRecorder { metrics::NoopRecorder }
//! metrics::set_global_recorder(recorder())?; // of an exporter, which may do this itself
//!
//! let quorum = redquorum::Quorum::in_memory(3)?;
//! quorum.red_lock("report").lock().await?.unlock().await?;
//! // Prometheus reads: redquorum_attempts_total{quorum="redquorum",outcome="acquired"} 1
//! # Ok(())
//! # }
//! ```
//!
//! [OBSERVABILITY.md] lists the conditions to alert on. In the repository, `docs/grafana-dashboard.json` is a
//! dashboard, and `cargo run -p redquorum-recipes --bin metrics` serves the metrics to Prometheus.
//!
//! [OBSERVABILITY.md]: https://github.com/redquorum/redquorum/blob/main/docs/OBSERVABILITY.md

mod label;
mod meter;
mod metric;

pub(crate) use self::meter::Meter;
pub use self::metric::{Kind, Metric};

/// All metrics. OBSERVABILITY.md explains each of them.
pub const ALL: &[Metric] = metric::ALL;

/// Registers units and descriptions with the recorder.
///
/// Every client calls this function when it connects. If a program installs a recorder later, the program has to call
/// this function again.
pub fn describe() {
    ALL.iter().for_each(Metric::describe);
}
