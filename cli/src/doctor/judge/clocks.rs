//! The findings about the clocks of the nodes: offsets and rates.

use crate::{
    connect::Reply,
    doctor::{
        facts::{ClockReading, Facts, NodeFacts, Rate},
        finding::Finding,
        refusal::remedy,
    },
};

/// The offset in seconds above which a client refuses a node at its registration.
const MAX_OFFSET: f64 = 3600.0;

/// The offset in seconds above which a clock probably has no time daemon.
const USUAL_OFFSET: f64 = 1.0;

pub(super) fn of_node(reply: &Reply<ClockReading>, drift: f64) -> Vec<Finding> {
    let reading = match reply {
        Ok(reading) => reading,
        Err(text) => {
            return vec![Finding::unknown("clock", text, remedy(text, "time", ""))];
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
    let found = format!("{} {direction} this machine (± {})", time(ahead.abs()), time(*error_bound));
    let advice = "set the clock that is wrong, but a node's clock only while its server is stopped, because a step \
        ends keys early";
    match ahead.abs() - error_bound {
        off if off > MAX_OFFSET => {
            Finding::fail("clock", format!("{found}: clients refuse the node"), advice)
        }
        off if off > USUAL_OFFSET => Finding::warn("clock", found, advice),
        _ => Finding::ok("clock", found),
    }
}

/// Judges the rate of a node's clock, compared with this machine's clock. The drift bounds the difference between two
/// clocks, so each clock may use half of the drift. A larger difference is a warning.
fn rate_finding(rate: &Rate, drift: f64) -> Finding {
    let Rate { gain, error_bound, watched } = rate;
    let found = format!(
        "gains {:.3} % (± {:.3} %) on this machine, with a configured drift of {} %",
        gain * 100.0,
        error_bound * 100.0,
        drift * 100.0
    );
    let advice = "configure the time daemon not to step or slew fast (chrony: maxslewrate 1000), or set a larger \
        drift for all clients";
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

/// Compares the clocks of the nodes with each other. If counters are lost, tokens start from a node's clock, so the
/// order of tokens depends on the clocks. Returns `None` for fewer than two clocks.
pub(super) fn among(facts: &Facts) -> Option<Finding> {
    let reading =
        |node: &'_ NodeFacts| Some((node.address.clone(), *node.server.as_ref().ok()?.clock.as_ref().ok()?));
    let mut readings: Vec<(String, ClockReading)> = facts.nodes.iter().filter_map(reading).collect();
    readings.sort_by(|(_, one), (_, other)| one.ahead.total_cmp(&other.ahead));
    let [(earliest, first), .., (latest, last)] = &readings[..] else { return None };
    let apart = last.ahead - first.ahead;
    let error_bound = readings.iter().map(|(_, reading)| reading.error_bound).fold(0.0, f64::max) * 2.0;
    let found = format!("the clocks are within {} of each other (± {})", time(apart), time(error_bound));
    if apart - error_bound > USUAL_OFFSET {
        let found = format!("{found}: {latest} has the latest time, and {earliest} the earliest");
        let advice = "run a time daemon on each node: if counters are lost, tokens start from a node's clock";
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
