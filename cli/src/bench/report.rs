//! The report of a benchmark.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::{histogram::Percentiles, load::Load, nodes::NodeTimes};
use crate::{
    counted::counted,
    table::{table, width},
};

/// The output of `bench`.
#[derive(Debug, Serialize)]
pub(crate) struct BenchReport {
    tasks: usize,
    seconds: f64,
    /// The number of pairs of a lock and its unlock per second.
    cycles_per_second: f64,
    lock: Percentiles,
    unlock: Percentiles,
    failures: BTreeMap<&'static str, u64>,
    nodes: Vec<NodeLine>,
}

/// The response times of one node.
#[derive(Debug, Serialize)]
struct NodeLine {
    node: String,
    #[serde(flatten)]
    answers: Percentiles,
    /// The number of missing answers.
    silences: u64,
    /// The reason of the last missing answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl BenchReport {
    pub(crate) fn new(tasks: usize, took: Duration, load: &Load, nodes: &[NodeTimes]) -> Self {
        let unlock = load.unlock.percentiles();
        let line = |node: &NodeTimes| NodeLine {
            node: node.address.clone(),
            answers: node.answers.percentiles(),
            silences: node.silences,
            error: node.last_error.clone(),
        };
        Self {
            tasks,
            seconds: took.as_secs_f64(),
            cycles_per_second: count(unlock.count) / took.as_secs_f64().max(f64::MIN_POSITIVE),
            lock: load.lock.percentiles(),
            unlock,
            failures: load.failures.clone(),
            nodes: nodes.iter().map(line).collect(),
        }
    }

    /// Whether at least one lock was acquired.
    pub(crate) fn has_locked(&self) -> bool {
        self.lock.count > 0
    }
}

/// Converts a count. The result is exact below 2^53, which no benchmark reaches.
fn count(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than three figures")]
    let count = count as f64;
    count
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["what", "count", "median", "p90", "p99", "max", "failed"], width());
        let failed = |of: &str| -> u64 {
            self.failures.iter().filter(|(what, _)| what.starts_with(of)).map(|(_, count)| count).sum()
        };
        let nodes = self.nodes.iter().map(|line| (line.node.as_str(), &line.answers, line.silences));
        let whole = [("lock", &self.lock, failed("lock:")), ("unlock", &self.unlock, failed("unlock:"))];
        for (what, times, failed) in whole.into_iter().chain(nodes) {
            let [median, p90, p99, max] = times.cells();
            table.add_row([
                what.to_owned(),
                times.count.to_string(),
                median,
                p90,
                p99,
                max,
                failed.to_string(),
            ]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        for (what, count) in &self.failures {
            let times = counted(usize::try_from(*count).unwrap_or(usize::MAX), "time");
            writeln!(f, "{what}: {times}")?;
        }
        for NodeLine { node, error, .. } in &self.nodes {
            if let Some(error) = error {
                writeln!(f, "{node}: {error}")?;
            }
        }
        let Self { seconds, cycles_per_second, .. } = self;
        let tasks = counted(self.tasks, "task");
        write!(f, "{cycles_per_second:.0} locks and unlocks per second, by {tasks} in {seconds:.1} s")
    }
}
