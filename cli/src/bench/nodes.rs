//! The response times of each node under the load.

use std::time::Duration;

use redquorum::Quorum;
use tokio::sync::watch;

use super::histogram::LatencyHistogram;
use crate::{failure::Failure, stopwatch};

/// The interval of the inspections. The interval is long, so that the inspections add little to the load.
const INTERVAL: Duration = Duration::from_millis(100);

/// The response times of a node.
#[derive(Debug)]
pub(crate) struct NodeTimes {
    pub(crate) address: String,
    pub(crate) answers: LatencyHistogram,
    /// The number of missing answers.
    pub(crate) silences: u64,
    /// The reason of the last missing answer.
    pub(crate) last_error: Option<String>,
}

/// Inspects a resource at each interval until `is_over`, and returns the response times.
///
/// # Errors
///
/// A histogram that fails. An inspection without a quorum is no error, and is not counted.
pub(crate) async fn watch(
    quorum: &Quorum,
    resource: &str,
    mut is_over: watch::Receiver<bool>,
) -> Result<Vec<NodeTimes>, Failure> {
    let mut nodes: Vec<NodeTimes> = Vec::new();
    while !*is_over.borrow() {
        if let Ok(found) = quorum.inspect(resource).await {
            for (index, answer) in found.nodes().enumerate() {
                if index == nodes.len() {
                    nodes.push(NodeTimes::new(answer.address())?);
                }
                let Some(node) = nodes.get_mut(index) else { continue };
                match (answer.holder(), answer.latency()) {
                    (Err(error), _) => {
                        node.silences += 1;
                        node.last_error = Some(error.to_string());
                    }
                    (Ok(_), None) => node.silences += 1,
                    (Ok(_), Some(latency)) => node.answers.record(latency),
                }
            }
        }
        tokio::select! {
            biased;
            changed = is_over.changed() => if changed.is_err() { break },
            () = stopwatch::pause(INTERVAL) => {}
        }
    }
    Ok(nodes)
}

impl NodeTimes {
    fn new(address: &str) -> Result<Self, Failure> {
        Ok(Self {
            address: address.to_owned(),
            answers: LatencyHistogram::new()?,
            silences: 0,
            last_error: None,
        })
    }
}
