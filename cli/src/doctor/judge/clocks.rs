//! Whether clocks are what locks need: nearly right in their rate, and not far apart.

use crate::{
    connect::Reply,
    doctor::{
        facts::{ClockReading, Facts, Rate},
        finding::Finding,
    },
};

/// A registration refuses a node that is further off, in seconds.
const MOST: f64 = 3600.0;

/// Clocks that are set by a time daemon are nearer to each other than this, in seconds.
const ORDINARY: f64 = 1.0;

pub(super) fn of_node(reply: &Reply<ClockReading>, drift: f64) -> Vec<Finding> {
    let reading = match reply {
        Ok(reading) => reading,
        Err(words) => {
            return vec![Finding::unknown("clock", words, "allow TIME to the user (ACL SETUSER ... +time)")];
        }
    };
    let offset = beside_this_machine(reading);
    match &reading.rate {
        Some(rate) => vec![offset, running(rate, drift)],
        None => vec![offset],
    }
}

fn beside_this_machine(reading: &ClockReading) -> Finding {
    let ClockReading { ahead, within, .. } = reading;
    let direction = if *ahead < 0.0 { "behind" } else { "ahead of" };
    let found = format!("{} {direction} this machine, give or take {}", time(ahead.abs()), time(*within));
    let advice =
        "set whichever is wrong; a node's only while its server is stopped, since a step ends keys early";
    match ahead.abs() - within {
        off if off > MOST => Finding::fail("clock", format!("{found}: it is refused"), advice),
        off if off > ORDINARY => Finding::warn("clock", found, advice),
        _ => Finding::ok("clock", found),
    }
}

/// Half of the drift is for each of two clocks, and this is the difference of two.
fn running(rate: &Rate, drift: f64) -> Finding {
    let Rate { gains, within, watched } = rate;
    let found = format!(
        "gains {:.3} % on this machine, give or take {:.3} %, for a drift of {} %",
        gains * 100.0,
        within * 100.0,
        drift * 100.0
    );
    let advice = "see that no time daemon steps or slews fast (chrony: maxslewrate 1000), or set a \
        larger drift for all";
    let off = gains.abs() - within;
    if off > drift {
        return Finding::fail("drift", found, advice);
    }
    if off > drift / 2.0 {
        return Finding::warn("drift", found, advice);
    }
    if *within > drift {
        let found = format!("cannot tell in {watched:.1} s: {found}");
        return Finding::warn("drift", found, "watch for longer: --watch 30s");
    }
    Finding::ok("drift", found)
}

/// Among each other: what order leans on where counters were lost.
pub(super) fn among(facts: &Facts) -> Option<Finding> {
    let readings: Vec<&ClockReading> =
        facts.nodes.iter().filter_map(|node| node.server.as_ref().ok()?.clock.as_ref().ok()).collect();
    if readings.len() < 2 {
        return None;
    }
    let ahead = |reading: &&ClockReading| reading.ahead;
    let most = readings.iter().map(ahead).fold(f64::MIN, f64::max);
    let least = readings.iter().map(ahead).fold(f64::MAX, f64::min);
    let within: f64 = 2.0 * readings.iter().map(|reading| reading.within).fold(0.0, f64::max);
    let found =
        format!("nodes are within {} of each other, give or take {}", time(most - least), time(within));
    if most - least - within > ORDINARY {
        let advice = "let a time daemon set them: where counters are lost, tokens begin at a node's clock";
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
