//! Statistics of many measurements.

use std::time::Duration;

/// Measurements of one kind, in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample(Vec<f64>);

/// The ratio of two samples that were measured in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    /// The ratio of the medians over all rounds.
    pub(crate) value: f64,
    /// The smallest and the largest ratio of a round.
    pub(crate) spread: (f64, f64),
}

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum() / self.0.len() as f64
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    pub(crate) fn max(&self) -> f64 {
        self.percentile(1.0)
    }

    pub(crate) fn min(&self) -> f64 {
        self.percentile(0.0)
    }

    /// Returns the value that this share of the values does not exceed, or NaN without values.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len().saturating_sub(1)) as f64 * share;
        sorted.get(at.round() as usize).copied().unwrap_or(f64::NAN)
    }

    /// Returns the ratio to a second sample. Both samples have one value for each round.
    pub(crate) fn ratio_to(&self, other: &Self) -> Ratio {
        let ratios = Self(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect());
        Ratio { value: self.median() / other.median(), spread: (ratios.min(), ratios.max()) }
    }
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
