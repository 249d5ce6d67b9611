//! The metrics of one test run, read from the page that Prometheus would scrape.
#![allow(dead_code, reason = "each test binary uses only some functions")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a page that cannot be read fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::runtime::Runtime;

// The names of metrics, as `docs/OBSERVABILITY.md` lists them.
pub(crate) const LEASES_DROPPED: &str = "redquorum_leases_dropped_total";
pub(crate) const ARRIVALS: &str = "redquorum_latch_arrivals_total";
pub(crate) const ATTEMPTS: &str = "redquorum_attempts_total";
pub(crate) const CONNECTIONS: &str = "redquorum_node_connections";
pub(crate) const DIALS: &str = "redquorum_node_dials_total";
pub(crate) const HOLD: &str = "redquorum_hold_seconds";
pub(crate) const LATCH_WAIT: &str = "redquorum_latch_wait_seconds";
pub(crate) const LEASES_HELD: &str = "redquorum_leases_held";
pub(crate) const LEASES_LOST: &str = "redquorum_leases_lost_total";
pub(crate) const MARGIN: &str = "redquorum_renewal_margin_ratio";
pub(crate) const NOTICES_REFUSED: &str = "redquorum_notices_refused_total";
pub(crate) const OLDEST_CALL: &str = "redquorum_oldest_call_seconds";
pub(crate) const QUARANTINED: &str = "redquorum_node_quarantined";
pub(crate) const RECONNECTS: &str = "redquorum_node_reconnects_total";
pub(crate) const RENEWAL: &str = "redquorum_renewal_seconds";
pub(crate) const RENEWALS: &str = "redquorum_renewals_total";
pub(crate) const UNLOCKS_PENDING: &str = "redquorum_unlocks_pending";
pub(crate) const VOTES: &str = "redquorum_votes_total";
pub(crate) const WAIT: &str = "redquorum_wait_seconds";
pub(crate) const LOCK_CALLS_IN_FLIGHT: &str = "redquorum_lock_calls_in_flight";

/// The recorded metrics of one test.
#[derive(Clone, Debug)]
pub(crate) struct Figures(PrometheusHandle);

/// One line of the page.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Runs a test on a runtime of one thread, with a recorder that receives only the metrics of this test and
/// its tasks.
pub(crate) fn run_with_recorder<T>(runtime: &Runtime, test: impl AsyncFnOnce(Figures) -> T) -> T {
    let recorder = PrometheusBuilder::new().build_recorder();
    let figures = Figures(recorder.handle());
    ::metrics::with_local_recorder(&recorder, || runtime.block_on(test(figures)))
}

impl Figures {
    /// Returns the sum of all series of this name that have at least these labels. For a histogram, the name
    /// ends with `_count` or `_sum`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has_label = |sample: &Sample| {
            labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|is| is == value))
        };
        let samples = self.samples().into_iter().filter(|sample| sample.name == name && has_label(sample));
        samples.map(|sample| sample.value).sum()
    }

    /// Returns the recorded metrics by name, each with its type and the names of its labels.
    pub(crate) fn recorded(&self) -> BTreeMap<String, (String, BTreeSet<String>)> {
        let page = self.0.render();
        let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types
            .map(|(name, kind)| {
                let is_of = |sample: &Sample| {
                    sample.name.strip_prefix(name).is_some_and(|rest| ["", "_sum", "_count"].contains(&rest))
                };
                let samples = self.samples().into_iter().filter(is_of);
                let labels =
                    samples.flat_map(|sample| sample.labels.into_keys()).filter(|key| key != "quantile");
                (name.to_owned(), (kind.to_owned(), labels.collect()))
            })
            .collect()
    }

    /// Returns the page as text.
    pub(crate) fn page(&self) -> String {
        self.0.render()
    }

    fn samples(&self) -> Vec<Sample> {
        let page = self.0.render();
        page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(sample).collect()
    }
}

/// Parses a line such as `name{label="value",...} 1`. No label of the library contains a quotation mark.
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("the line has no value");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.trim_end_matches('}').split_terminator("\",").map(|label| {
        let (key, value) = label.split_once("=\"").expect("a label has no value");
        (key.to_owned(), value.trim_end_matches('"').to_owned())
    });
    Sample {
        name: name.to_owned(),
        labels: labels.collect(),
        value: value.parse().expect("the value is no number"),
    }
}
