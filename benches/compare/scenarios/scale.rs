//! The time of a lock with its unlock, for several numbers of nodes.

use super::{
    Effort,
    uncontended::{Times, by_turns},
};
use crate::{
    Problem,
    compare::{contestant::Contestant, section::Section, servers::Servers, verdict::Verdict},
};

const NODES: [usize; 5] = [1, 3, 5, 7, 9];

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let mut measured: Vec<Vec<Times>> = Vec::new();
    let mut names = Vec::new();
    for nodes in NODES {
        let servers = Servers::start(nodes).await;
        let contestants = Contestant::three(&servers).await?;
        names = contestants.iter().map(ToString::to_string).collect();
        measured.push(by_turns(&contestants, effort.pick(3, 31), effort.pick(40, 200)).await?);
    }
    let columns = NODES.map(|nodes| format!("{nodes}_nodes_us"));
    let mut section = Section::new("scale", "median of lock + unlock, one task", columns);
    for (at, name) in names.into_iter().enumerate() {
        section.row(name, measured.iter().map(|times| times[at].medians.median()));
    }
    for (nodes, times) in NODES.iter().zip(&measured) {
        if let [ours, rival, floor] = &**times {
            let (to_rival, to_floor) =
                (ours.medians.ratio_to(&rival.medians), ours.medians.ratio_to(&floor.medians));
            section.verdict(Verdict::of_ratio(format!("{nodes} nodes, ours / rslock"), to_rival, None));
            section.verdict(Verdict::of_ratio(format!("{nodes} nodes, ours / floor"), to_floor, None));
        }
    }
    Ok(section)
}
