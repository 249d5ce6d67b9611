//! A node's clock, and how fast it answers.

use std::time::{Duration, UNIX_EPOCH};

use redquorum::unstable_redis::redis::cmd;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{ClockReading, Rate},
    stopwatch,
};

/// How often the time is asked for, before and after the clock is watched: the quickest answer is
/// the most exact.
const QUESTIONS: usize = 10;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// When it was, in seconds since the first was asked for, by this machine's monotonic clock.
    at: f64,
    /// How far ahead the node's clock is.
    ahead: f64,
    round_trip: Duration,
}

/// How long answers take, and how the node's clock stands and runs beside this machine's.
///
/// As in NTP: the node read its clock some time between question and answer, so the middle is wrong
/// by half the round trip at most. This machine's wall clock is read once, so that a step of it in
/// between does not look like one of the node's.
pub(super) async fn watch(
    connection: &mut NodeConnection,
    lasts: Duration,
) -> Result<(Vec<Duration>, Reply<ClockReading>), Disconnected> {
    let epoch = stopwatch::now();
    let wall = stopwatch::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut latencies = Vec::with_capacity(2 * QUESTIONS);
    let mut quickest = Vec::new();
    for round in 0..2 {
        let mut best: Option<Sample> = None;
        for _ in 0..QUESTIONS {
            let start = stopwatch::now();
            let reply: Reply<(f64, f64)> = connection.ask(&cmd("TIME")).await?;
            let round_trip = start.elapsed();
            latencies.push(round_trip);
            let (seconds, micros) = match reply {
                Ok(time) => time,
                // A refusal takes as long as an answer.
                Err(words) => return Ok((latencies, Err(words))),
            };
            let at = start.duration_since(epoch).as_secs_f64() + round_trip.as_secs_f64() / 2.0;
            let sample = Sample { at, ahead: seconds + micros / 1e6 - (wall + at), round_trip };
            if best.is_none_or(|best| sample.round_trip < best.round_trip) {
                best = Some(sample);
            }
        }
        quickest.extend(best);
        if round == 0 {
            if lasts.is_zero() {
                break;
            }
            stopwatch::pause(lasts).await;
        }
    }
    let reading = reading(&quickest).ok_or_else(|| "no time was told".to_owned());
    Ok((latencies, reading))
}

/// From the quickest answers, before and after.
fn reading(samples: &[Sample]) -> Option<ClockReading> {
    let half = |sample: &Sample| sample.round_trip.as_secs_f64() / 2.0;
    let first = samples.first()?;
    let rate = samples.get(1).map(|last| {
        let watched = last.at - first.at;
        let within = (half(first) + half(last)) / watched;
        Rate { gains: (last.ahead - first.ahead) / watched, within, watched }
    });
    Some(ClockReading { ahead: first.ahead, within: half(first), rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, ahead: f64, round_trip: u64) -> Sample {
        Sample { at, ahead, round_trip: Duration::from_millis(round_trip) }
    }

    #[test]
    fn a_clock_is_as_exact_as_half_the_round_trip() {
        let reading = reading(&[sample(0.0, -1.5, 10)]).unwrap();
        assert_eq!(reading, ClockReading { ahead: -1.5, within: 0.005, rate: None });
    }

    #[test]
    fn a_clock_that_gains_is_seen_as_exactly_as_the_time_that_it_was_watched_allows() {
        let rate = reading(&[sample(0.0, 1.0, 10), sample(2.0, 1.1, 30)]).unwrap().rate.unwrap();
        assert!((rate.gains - 0.05).abs() < 1e-9, "{rate:?}");
        assert!((rate.within - 0.01).abs() < 1e-9, "{rate:?}");
    }
}
