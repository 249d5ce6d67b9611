//! The state of a latch, as a part of an [`Inspection`](super::Inspection).

use std::{collections::BTreeMap, time::Duration};

use crate::{node::LatchInfo, values::Arrivals};

/// The state of a latch by the records of the nodes that answered, from
/// [`Inspection::latch`](crate::inspection::Inspection::latch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatchInspection {
    count: u32,
    arrived: u32,
    is_open: bool,
    arrivals: Arrivals,
    names_all: bool,
    remaining: Duration,
    nodes: usize,
}

impl LatchInspection {
    /// Merges the records of nodes. Returns `None` without a record.
    ///
    /// Arrivals are a set that only grows, so the arrivals of any nodes count together. If nodes have recorded different
    /// counts, the count of most nodes decides, and at a tie the smallest.
    pub(super) fn new<'a>(records: impl Iterator<Item = &'a LatchInfo>) -> Option<Self> {
        let mut by_count: BTreeMap<u32, Vec<&LatchInfo>> = BTreeMap::new();
        for record in records {
            by_count.entry(record.count).or_default().push(record);
        }
        let (count, records) = by_count.into_iter().rev().max_by_key(|(_, records)| records.len())?;
        let arrivals: Arrivals = records.iter().flat_map(|record| record.arrivals.iter().cloned()).collect();
        let most = records.iter().map(|record| record.arrived).max().unwrap_or(0);
        let arrived = most.max(u32::try_from(arrivals.len()).unwrap_or(u32::MAX)).min(count);
        Some(Self {
            count,
            arrived,
            is_open: arrived >= count || records.iter().any(|record| record.is_open),
            names_all: records.iter().all(|record| record.arrived as usize <= record.arrivals.len()),
            arrivals,
            remaining: records.iter().map(|record| record.remaining).max().unwrap_or_default(),
            nodes: records.len(),
        })
    }

    /// Returns the number of arrivals that opens the latch, as nodes have recorded it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of arrivals that the nodes have recorded, at most [`count`](Self::count). Nodes record no
    /// arrivals at an open latch. If the inspection does not [name all arrivals](Self::names_all), the number is that of
    /// the node with the most arrivals, or of all named arrivals if there are more.
    #[must_use]
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Whether the latch is open, so that every wait ends as soon as a quorum votes.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the ids of the arrivals, in the order of the ids. If a node has recorded more than 32 arrivals, the ids
    /// on this node are left out, and [`names_all`](Self::names_all) is false.
    pub fn arrivals(&self) -> impl Iterator<Item = &[u8]> {
        self.arrivals.iter().map(|arrival| &**arrival)
    }

    /// Whether [`arrivals`](Self::arrivals) has each recorded arrival: no node has recorded more than 32 arrivals.
    #[must_use]
    pub fn names_all(&self) -> bool {
        self.names_all
    }

    /// Returns the time for which nodes keep the latch if it is not used again.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// Returns the number of nodes that have a record of the latch with this [count](Self::count).
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the record of a latch: its count, the letters of the arrivals, and `!` if the latch is open.
    fn record(text: &str) -> LatchInfo {
        let (count, letters) = text.split_at(1);
        let arrivals: Arrivals =
            letters.bytes().filter(u8::is_ascii_alphabetic).map(|letter| [letter].into()).collect();
        LatchInfo {
            count: count.parse().unwrap(),
            is_open: letters.ends_with('!'),
            arrived: u32::try_from(arrivals.len()).unwrap(),
            arrivals,
            remaining: Duration::from_secs(u64::try_from(text.len()).unwrap()),
        }
    }

    #[test]
    fn arrivals_of_all_nodes_count_together() {
        for (nodes, count, arrived, is_open) in [
            ("3a 3b", 3, 2, false),
            ("3a 3bc", 3, 3, true),
            ("3a 3ab", 3, 2, false),
            ("3a 3!", 3, 1, true),
            ("3abcd 3a", 3, 3, true),
            ("2a 3ab 3c", 3, 3, true),
            ("3ab 2c", 2, 1, false),
        ] {
            let records: Vec<LatchInfo> = nodes.split(' ').map(record).collect();
            let latch = LatchInspection::new(records.iter()).unwrap();
            assert_eq!(
                (latch.count(), latch.arrived(), latch.is_open()),
                (count, arrived, is_open),
                "{nodes}"
            );
        }
        assert_eq!(LatchInspection::new([].iter()), None);
    }

    #[test]
    fn a_number_of_arrivals_without_ids_counts() {
        let many = LatchInfo { arrived: 70, arrivals: Arrivals::new(), ..record("9") };
        let latch = LatchInspection::new([&record("9a"), &many].into_iter()).unwrap();
        assert_eq!((latch.arrived(), latch.is_open(), latch.arrivals().count()), (9, true, 1));
        assert!(!latch.names_all());
        assert!(LatchInspection::new([record("9a"), record("9ab")].iter()).unwrap().names_all());
    }
}
