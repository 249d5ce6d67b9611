//! Histograms of latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    duration::{milliseconds, shown},
    failure::Failure,
};

/// The largest recorded latency. A longer latency is recorded as this latency.
const MAX_LATENCY: Duration = Duration::from_secs(600);

/// A histogram of latencies, to three significant figures.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    micros: Histogram<u64>,
}

/// The percentiles of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    median_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl LatencyHistogram {
    /// Creates an empty histogram.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if there is no memory for it.
    pub(crate) fn new() -> Result<Self, Failure> {
        let most = u64::try_from(MAX_LATENCY.as_micros()).unwrap_or(u64::MAX);
        let micros = Histogram::new_with_bounds(1, most, 3);
        let micros = micros.map_err(|error| Failure::internal("create a histogram", error))?;
        Ok(Self { micros })
    }

    pub(crate) fn record(&mut self, took: Duration) {
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |quantile| milliseconds(Duration::from_micros(self.micros.value_at_quantile(quantile)));
        Percentiles {
            count: self.micros.len(),
            median_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

impl Percentiles {
    /// Returns the cells of a row, without the count.
    pub(crate) fn cells(&self) -> [String; 4] {
        [self.median_ms, self.p90_ms, self.p99_ms, self.max_ms].map(|milliseconds| {
            if self.count == 0 {
                return "-".to_owned();
            }
            Duration::try_from_secs_f64(milliseconds / 1e3).map_or_else(|_| "-".to_owned(), shown)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_match_the_recorded_latencies() {
        let mut histogram = LatencyHistogram::new().unwrap();
        for milliseconds in 1..=100 {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let Percentiles { count, median_ms, p90_ms, p99_ms, max_ms } = histogram.percentiles();
        assert_eq!(count, 100);
        for (actual, expected) in [(median_ms, 50.0), (p90_ms, 90.0), (p99_ms, 99.0), (max_ms, 100.0)] {
            assert!((actual - expected).abs() < expected / 500.0, "{actual} is not {expected}");
        }
    }

    #[test]
    fn an_empty_histogram_is_shown_as_dashes() {
        let empty = LatencyHistogram::new().unwrap().percentiles();
        assert_eq!((empty.count, empty.cells()), (0, ["-", "-", "-", "-"].map(str::to_owned)));
    }
}
