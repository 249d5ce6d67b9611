//! The clocks of the nodes: their rates, and their offsets.

use crate::{
    connect::Reply,
    doctor::{
        facts::{ClockReading, Facts, Rate},
        finding::Finding,
    },
};

/// The offset in seconds above which the registration refuses a node.
const MAX_OFFSET: f64 = 3600.0;

/// The offset in seconds that clocks with a time daemon do not reach.
const USUAL_OFFSET: f64 = 1.0;

pub(super) fn of_node(reply: &Reply<ClockReading>, drift: f64) -> Vec<Finding> {
    let reading = match reply {
        Ok(reading) => reading,
        Err(text) => {
            return vec![Finding::unknown("clock", text, "allow TIME to the user (ACL SETUSER ... +time)")];
        }
    };
    let offset = offset(reading);
    match &reading.rate {
        Some(rate) => vec![offset, rate_finding(rate, drift)],
        None => vec![offset],
    }
}

fn offset(reading: &ClockReading) -> Finding {
    let ClockReading { ahead, error_bound, .. } = reading;
    let direction = if *ahead < 0.0 { "behind" } else { "ahead of" };
    let found =
        format!("{} {direction} this machine, give or take {}", time(ahead.abs()), time(*error_bound));
    let advice =
        "set the wrong clock; a node's only while its server is stopped, because a step ends keys early";
    match ahead.abs() - error_bound {
        off if off > MAX_OFFSET => {
            Finding::fail("clock", format!("{found}: the registration is refused"), advice)
        }
        off if off > USUAL_OFFSET => Finding::warn("clock", found, advice),
        _ => Finding::ok("clock", found),
    }
}

/// Judges a rate, which is the difference between two clocks. The drift bounds this difference. A
/// warning begins at half of the drift, which is the share of one clock.
fn rate_finding(rate: &Rate, drift: f64) -> Finding {
    let Rate { gain, error_bound, watched } = rate;
    let found = format!(
        "gains {:.3} % on this machine, give or take {:.3} %, for a drift of {} %",
        gain * 100.0,
        error_bound * 100.0,
        drift * 100.0
    );
    let advice = "let no time daemon step or slew fast (chrony: maxslewrate 1000), or set a larger drift \
        for all clients";
    let off = gain.abs() - error_bound;
    if off > drift {
        return Finding::fail("drift", found, advice);
    }
    if off > drift / 2.0 {
        return Finding::warn("drift", found, advice);
    }
    if *error_bound > drift {
        let found = format!("cannot tell in {watched:.1} s: {found}");
        return Finding::warn("drift", found, "watch for longer: --watch 30s");
    }
    Finding::ok("drift", found)
}

/// Compares the clocks with each other. If counters are lost, tokens start at a node's clock, so their
/// order depends on the clocks.
pub(super) fn among(facts: &Facts) -> Option<Finding> {
    let readings: Vec<&ClockReading> =
        facts.nodes.iter().filter_map(|node| node.server.as_ref().ok()?.clock.as_ref().ok()).collect();
    if readings.len() < 2 {
        return None;
    }
    let ahead = |reading: &&ClockReading| reading.ahead;
    let most = readings.iter().map(ahead).fold(f64::MIN, f64::max);
    let least = readings.iter().map(ahead).fold(f64::MAX, f64::min);
    let error_bound: f64 = 2.0 * readings.iter().map(|reading| reading.error_bound).fold(0.0, f64::max);
    let found =
        format!("nodes are within {} of each other, give or take {}", time(most - least), time(error_bound));
    if most - least - error_bound > USUAL_OFFSET {
        let advice = "run a time daemon on each node: if counters are lost, tokens start at a node's clock";
        return Some(Finding::warn("clocks", found, advice));
    }
    Some(Finding::ok("clocks", found))
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => format!("{:.3} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}
