//! How long something took, many times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    duration::{milliseconds, shown},
    failure::Failure,
};

/// Three figures of every duration are kept, up to this one.
const LONGEST: Duration = Duration::from_secs(600);

/// How long something took, many times, to a thousandth.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    micros: Histogram<u64>,
}

/// What of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    median_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl LatencyHistogram {
    /// # Errors
    ///
    /// There is no memory for it.
    pub(crate) fn new() -> Result<Self, Failure> {
        let most = u64::try_from(LONGEST.as_micros()).unwrap_or(u64::MAX);
        let micros = Histogram::new_with_bounds(1, most, 3);
        let micros = micros.map_err(|error| Failure::internal("a histogram", error))?;
        Ok(Self { micros })
    }

    pub(crate) fn note(&mut self, took: Duration) {
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds what another has noted.
    ///
    /// # Errors
    ///
    /// The counts are too large.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), Failure> {
        self.micros.add(&other.micros).map_err(|error| Failure::internal("a histogram", error))
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
    /// The cells of a row, without the count.
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
    fn percentiles_are_those_of_what_was_noted() {
        let mut histogram = LatencyHistogram::new().unwrap();
        let mut other = LatencyHistogram::new().unwrap();
        for milliseconds in 1..=50 {
            histogram.note(Duration::from_millis(milliseconds));
            other.note(Duration::from_millis(50 + milliseconds));
        }
        histogram.add(&other).unwrap();
        let Percentiles { count, median_ms, p90_ms, p99_ms, max_ms } = histogram.percentiles();
        assert_eq!(count, 100);
        for (shown, expected) in [(median_ms, 50.0), (p90_ms, 90.0), (p99_ms, 99.0), (max_ms, 100.0)] {
            assert!((shown - expected).abs() < expected / 500.0, "{shown} is not {expected}");
        }
    }

    #[test]
    fn what_was_never_noted_is_shown_as_nothing() {
        let nothing = LatencyHistogram::new().unwrap().percentiles();
        assert_eq!((nothing.count, nothing.cells()), (0, ["-", "-", "-", "-"].map(str::to_owned)));
    }
}
