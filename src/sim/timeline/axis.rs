//! The axis of time in a picture.

use std::time::Duration;

/// A mapping of points of time to positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) left: f64,
    pub(super) width: f64,
    end: f64,
}

impl Axis {
    pub(super) fn new(left: f64, width: f64, end: Duration) -> Self {
        Self { left, width, end: end.as_secs_f64().max(1e-6) }
    }

    /// Returns the position of a point of time. Points after the end have the position of the end.
    pub(super) fn x(&self, at: Duration) -> f64 {
        self.x_of(at.as_secs_f64().min(self.end))
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Returns the positions of round points of time, at least a hundred pixels apart, with their text.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let coarsest = self.end / (self.width / 100.0).max(1.0);
        let magnitude = 10_f64.powf(coarsest.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors.into_iter().find(|factor| factor * magnitude >= coarsest).unwrap_or(10.0);
        let step = factor * magnitude;
        let count = (self.end / step + 1e-9) as u32;
        (0..=count)
            .map(f64::from)
            .map(|index| (self.x_of(index * step), written(index * step, self.end)))
            .collect()
    }

    fn x_of(&self, seconds: f64) -> f64 {
        self.left + seconds / self.end * self.width
    }
}

/// Returns the text of a tick: seconds if the history lasts two seconds or more, otherwise
/// milliseconds; without trailing zeros.
fn written(seconds: f64, end: f64) -> String {
    let (number, unit) = if end >= 2.0 { (seconds, "s") } else { (seconds * 1000.0, "ms") };
    let number = format!("{number:.3}");
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let axis = Axis::new(50.0, 1000.0, Duration::from_millis(730));
        let ticks = axis.ticks();
        let labels: Vec<_> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, ["0 ms", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms", "600 ms", "700 ms"]);
        assert!(ticks.iter().all(|(x, _)| (50.0..=1050.0).contains(x)));
        assert_eq!(Axis::new(0.0, 200.0, Duration::from_secs(30)).ticks().last().unwrap().1, "20 s");
    }

    #[test]
    fn a_history_without_duration_has_an_axis() {
        let axis = Axis::new(10.0, 100.0, Duration::ZERO);
        assert!(axis.ticks().len() < 20);
        assert!(axis.x(Duration::from_secs(9)) <= axis.right());
    }
}
