//! The clock of a node, and the latency of its answers.

use std::time::{Duration, UNIX_EPOCH};

use redquorum::unstable_redis::redis::cmd;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{ClockReading, Rate},
    stopwatch,
};

/// The number of samples before the pause, and again after the pause. Of each, the quickest sample is used, because the
/// error of a sample is half the round trip.
const SAMPLES: usize = 10;

/// A single reading of the node's clock.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The seconds since the start of the measurement, by this machine's monotonic clock.
    at: f64,
    /// The seconds by which the node's clock is ahead.
    ahead: f64,
    round_trip: Duration,
}

/// Measures the latency of answers, and the offset and rate of the node's clock. The rate is measured over the pause,
/// and not without a pause.
///
/// The node reads its clock at some time between request and answer. The middle between request and answer differs from
/// this time by at most half the round trip, as in NTP. This machine's wall clock is read only once, at the start.
/// Otherwise a step of this clock would look like a step of the node's clock.
pub(super) async fn measure(
    connection: &mut NodeConnection,
    pause: Duration,
) -> Result<(Vec<Duration>, Reply<ClockReading>), Disconnected> {
    let epoch = stopwatch::now();
    let wall = stopwatch::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut latencies = Vec::with_capacity(2 * SAMPLES);
    let mut quickest = Vec::new();
    for round in 0..2 {
        let mut best: Option<Sample> = None;
        for _ in 0..SAMPLES {
            let start = stopwatch::now();
            let reply: Reply<(f64, f64)> = connection.query(&cmd("TIME")).await?;
            let round_trip = start.elapsed();
            latencies.push(round_trip);
            let (seconds, micros) = match reply {
                Ok(time) => time,
                // A refusal takes as long as an answer, so the latency is known.
                Err(text) => return Ok((latencies, Err(text))),
            };
            let at = start.duration_since(epoch).as_secs_f64() + round_trip.as_secs_f64() / 2.0;
            let sample = Sample { at, ahead: seconds + micros / 1e6 - (wall + at), round_trip };
            if best.is_none_or(|best| sample.round_trip < best.round_trip) {
                best = Some(sample);
            }
        }
        quickest.extend(best);
        if round == 0 {
            if pause.is_zero() {
                break;
            }
            stopwatch::pause(pause).await;
        }
    }
    let reading = reading(&quickest).ok_or_else(|| "no answer to TIME".to_owned());
    Ok((latencies, reading))
}

/// Returns the reading from the quickest samples before and after the pause.
fn reading(samples: &[Sample]) -> Option<ClockReading> {
    let half = |sample: &Sample| sample.round_trip.as_secs_f64() / 2.0;
    let first = samples.first()?;
    let rate = samples.get(1).map(|last| {
        let watched = last.at - first.at;
        let error_bound = (half(first) + half(last)) / watched;
        Rate { gain: (last.ahead - first.ahead) / watched, error_bound, watched }
    });
    Some(ClockReading { ahead: first.ahead, error_bound: half(first), rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, ahead: f64, round_trip: u64) -> Sample {
        Sample { at, ahead, round_trip: Duration::from_millis(round_trip) }
    }

    #[test]
    fn the_error_of_an_offset_is_half_the_round_trip() {
        let reading = reading(&[sample(0.0, -1.5, 10)]).unwrap();
        assert_eq!(reading, ClockReading { ahead: -1.5, error_bound: 0.005, rate: None });
    }

    #[test]
    fn the_error_of_a_rate_is_smaller_after_a_longer_time() {
        let rate = reading(&[sample(0.0, 1.0, 10), sample(2.0, 1.1, 30)]).unwrap().rate.unwrap();
        assert!((rate.gain - 0.05).abs() < 1e-9, "{rate:?}");
        assert!((rate.error_bound - 0.01).abs() < 1e-9, "{rate:?}");
    }
}
