//! A lock with its unlock, by one task, without contention.

use std::time::Instant;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::{Contender, Contestant},
        sample::{Sample, micros},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The times of one contestant.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// The median of each round, in microseconds.
    pub(super) medians: Sample,
    /// The microseconds of each lock with its unlock.
    pub(super) all: Sample,
}

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let servers = Servers::start(NODES).await;
    let contestants = Contestant::all(&servers).await?;
    let times = by_turns(&contestants, effort.pick(21, 61), effort.pick(80, 300)).await?;
    let mut section =
        Section::new("uncontended", "lock + unlock, one task, 5 nodes", ["median_us", "p99_us"]);
    for (contestant, times) in contestants.iter().zip(&times) {
        section.add_row(contestant.to_string(), [times.medians.median(), times.all.percentile(0.99)]);
    }
    if let [ours, rival, floor, one_line] = &*times {
        let ratio = |other: &Times| ours.medians.ratio_to(&other.medians);
        section.add_verdict(Verdict::of_ratio("median, ours / rslock", ratio(rival), Target::AtMost(1.0)));
        section.add_verdict(Verdict::of_ratio("median, ours / floor", ratio(floor), Target::AtMost(1.15)));
        let protocol = floor.medians.ratio_to(&one_line.medians);
        section.add_verdict(Verdict::of_ratio("median, floor / one-line floor", protocol, None));
    }
    Ok(section)
}

/// Lets each contestant lock and unlock `pairs` times in each round. The first contestant changes with
/// the round.
pub(super) async fn by_turns(
    contestants: &[Contestant],
    rounds: usize,
    pairs: usize,
) -> Result<Vec<Times>, Problem> {
    let mut contenders: Vec<Contender> =
        contestants.iter().map(|contestant| contestant.contender("r")).collect();
    for contender in &mut contenders {
        measure(contender, pairs).await?;
    }
    let mut times = vec![Times::default(); contenders.len()];
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            let sample = measure(&mut contenders[at], pairs).await?;
            times[at].medians.push(sample.median());
            times[at].all.extend(&sample);
        }
    }
    Ok(times)
}

/// Returns the microseconds of each lock with its unlock.
async fn measure(contender: &mut Contender, pairs: usize) -> Result<Sample, Problem> {
    let mut sample = Sample::default();
    for _ in 0..pairs {
        let begin = Instant::now();
        contender.lock_and_unlock().await?;
        sample.push(micros(begin.elapsed()));
    }
    Ok(sample)
}
