//! The record of replaced nodes, which the other nodes keep in their metadata. Pure.

use std::{collections::BTreeMap, fmt};

use crate::mutation::{self, Mutation};

/// The addresses of an old node and of the new server that stands in for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) old: String,
    pub(super) new: String,
}

/// How far a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// The old node may vote. No call has opened the new server.
    Begun,
    /// The old node is retired or gone. No other server may stand in for it.
    Retired,
    /// The new server was opened after that.
    Done,
}

/// The replacements that a node has recorded. The text has one part for each: `OLD by NEW PROGRESS`. The
/// progress `begun` is followed by the id of the call, so a call continues only while no other call has changed its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplacementRecord(BTreeMap<Pair, Entry>);

/// The progress of one replacement. Later progress is ordered after earlier progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    progress: Progress,
    /// The id of the call that has begun the replacement; empty for later progress.
    call: String,
}

impl ReplacementRecord {
    /// Reads the text of a node. Parts of another form are ignored.
    pub(super) fn read(text: &str) -> Self {
        let part = |part: &str| match part.split(' ').collect::<Vec<_>>()[..] {
            [old, "by", new, progress, ref call @ ..] => {
                let progress = Progress::ALL.into_iter().find(|known| known.word() == progress)?;
                let call = match (progress, call) {
                    (Progress::Begun, [call]) => (*call).to_owned(),
                    (Progress::Retired | Progress::Done, []) => String::new(),
                    _ => return None,
                };
                Some((Pair { old: old.to_owned(), new: new.to_owned() }, Entry { progress, call }))
            }
            _ => None,
        };
        Self(text.split(", ").filter_map(part).collect())
    }

    /// Adds the replacements of another node, each with the later progress of both nodes.
    pub(super) fn merge(&mut self, other: &Self) {
        for (pair, entry) in &other.0 {
            let known = self.0.entry(pair.clone()).or_insert_with(|| entry.clone());
            if known.progress < entry.progress {
                known.clone_from(entry);
            }
        }
    }

    /// Returns how far this replacement is; `None` if no node has recorded it.
    pub(super) fn progress(&self, pair: &Pair) -> Option<Progress> {
        self.0.get(pair).map(|entry| entry.progress)
    }

    /// Whether this call may continue the replacement on the node: the call has begun the replacement there, or the old
    /// node is retired or gone.
    pub(super) fn is_continued_by(&self, pair: &Pair, call: &str) -> bool {
        self.0.get(pair).is_some_and(|entry| entry.progress >= Progress::Retired || entry.call == call)
    }

    /// Returns another server that stands in for the old node by this record.
    pub(super) fn other_server(&self, pair: &Pair) -> Option<&str> {
        let is_other = |other: &Pair| other.old == pair.old && other.new != pair.new;
        self.ended().map(|(other, _)| other).find(|other| is_other(other)).map(|other| &*other.new)
    }

    /// Returns the server that stands in for the node at this address. If that server was replaced in turn, returns its
    /// successor.
    pub(super) fn successor(&self, old: &str) -> Option<&str> {
        let next = |old: &str| {
            let (pair, _) = self.ended().find(|(pair, _)| pair.old == old)?;
            Some(&*pair.new)
        };
        // A recorded address is never its own successor, but a record that was damaged may have a cycle.
        std::iter::successors(next(old), |new| next(new)).take(self.0.len()).last()
    }

    /// Returns another replacement that was begun and whose old node may vote.
    pub(super) fn begun_beside(&self, pair: &Pair) -> Option<&Pair> {
        let is_ended = |old: &str| self.ended().any(|(ended, _)| ended.old == old);
        let mut begun =
            self.0.iter().filter(|(_, entry)| entry.progress == Progress::Begun).map(|(other, _)| other);
        let begun = begun.find(|other| *other != pair && !is_ended(&other.old));
        mutation::altered(Mutation::ForgetReplacements, begun, |_| None)
    }

    /// Returns the record with this progress of a replacement, and without what the replacement ends: the record that
    /// another server had replaced a node at the new address, and other servers for the old node.
    pub(super) fn with(&self, pair: &Pair, progress: Progress, call: &str) -> Self {
        let is_kept = |other: &Pair, of_other: &Entry| {
            other.old != pair.new && (other.old != pair.old || of_other.progress != Progress::Begun)
        };
        let mut record: BTreeMap<_, _> =
            self.0.clone().into_iter().filter(|(other, of_other)| is_kept(other, of_other)).collect();
        let progress = self.progress(pair).map_or(progress, |known| known.max(progress));
        let call = if progress == Progress::Begun { call.to_owned() } else { String::new() };
        record.insert(pair.clone(), Entry { progress, call });
        Self(record)
    }

    /// Returns the record without this replacement, unless its old node is retired or gone.
    pub(super) fn without_begun(&self, pair: &Pair) -> Self {
        let mut record = self.0.clone();
        record.retain(|other, entry| other != pair || entry.progress != Progress::Begun);
        Self(record)
    }

    /// Returns the ended replacements whose new server was not replaced in turn.
    pub(super) fn standing_in(&self) -> impl Iterator<Item = &Pair> {
        let is_replaced = |new: &str| self.ended().any(|(pair, _)| pair.old == new);
        self.ended().map(|(pair, _)| pair).filter(move |pair| !is_replaced(&pair.new))
    }

    fn ended(&self) -> impl Iterator<Item = (&Pair, &Entry)> {
        let is_read = mutation::altered(Mutation::ForgetReplacements, true, |_| false);
        self.0.iter().filter(move |(_, entry)| is_read && entry.progress >= Progress::Retired)
    }

    /// Returns the record without the replacements whose old nodes may vote.
    pub(super) fn only_ended(&self) -> Self {
        Self(self.ended().map(|(pair, entry)| (pair.clone(), entry.clone())).collect())
    }
}

impl Progress {
    const ALL: [Self; 3] = [Self::Begun, Self::Retired, Self::Done];

    fn word(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Retired => "retired",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for ReplacementRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (Pair { old, new }, Entry { progress, call })) in self.0.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            write!(f, "{separator}{old} by {new} {}", progress.word())?;
            if *progress == Progress::Begun {
                write!(f, " {call}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(old: &str, new: &str) -> Pair {
        Pair { old: old.to_owned(), new: new.to_owned() }
    }

    #[test]
    fn a_record_is_written_and_read() {
        let text = "a:1 by b:1 done, c:1 by d:1 begun x";
        let record = ReplacementRecord::read(text);
        assert_eq!(record.to_string(), text);
        assert_eq!(record.progress(&pair("a:1", "b:1")), Some(Progress::Done));
        assert_eq!(record.begun_beside(&pair("a:1", "b:1")), Some(&pair("c:1", "d:1")));
        assert_eq!(record.begun_beside(&pair("c:1", "d:1")), None);
        assert_eq!(ReplacementRecord::read(""), ReplacementRecord::default());
        assert_eq!(
            ReplacementRecord::read("x, a by b later, a:1 by b:1 done").to_string(),
            "a:1 by b:1 done"
        );
    }

    #[test]
    fn a_merged_record_has_the_later_progress_of_each_replacement() {
        let mut record = ReplacementRecord::read("a by b begun x");
        record.merge(&ReplacementRecord::read("a by b retired, c by d done"));
        record.merge(&ReplacementRecord::read("a by b begun y"));
        assert_eq!(record.to_string(), "a by b retired, c by d done");
        assert_eq!(record.without_begun(&pair("a", "b")), record);
        assert_eq!(record.with(&pair("a", "b"), Progress::Begun, "z"), record);
    }

    #[test]
    fn a_record_is_continued_only_by_the_call_that_wrote_it_last() {
        let begun = ReplacementRecord::default().with(&pair("a", "b"), Progress::Begun, "x");
        let taken_over = begun.with(&pair("a", "b"), Progress::Begun, "y");
        assert_eq!(taken_over.to_string(), "a by b begun y");
        assert_eq!(["x", "y"].map(|call| taken_over.is_continued_by(&pair("a", "b"), call)), [false, true]);
        let retired = taken_over.with(&pair("a", "b"), Progress::Retired, "y");
        assert!(retired.is_continued_by(&pair("a", "b"), "x"));
        assert_eq!(retired.other_server(&pair("a", "c")), Some("b"));
        assert_eq!(begun.other_server(&pair("a", "c")), None);
    }

    #[test]
    fn the_successor_of_a_node_is_the_last_server_that_stands_in_for_it() {
        let record = ReplacementRecord::read("a by b done, b by c retired, d by e begun x");
        assert_eq!(["a", "b", "d"].map(|old| record.successor(old)), [Some("c"), Some("c"), None]);
        assert!(ReplacementRecord::read("a by b done, b by a done").successor("a").is_some());
    }

    #[test]
    fn an_address_that_is_used_again_was_replaced_by_no_server() {
        let record = ReplacementRecord::read("a by b done, a by x begun y");
        let back = record.with(&pair("b", "a"), Progress::Done, "");
        assert_eq!(back.to_string(), "b by a done");
        assert_eq!(record.begun_beside(&pair("b", "c")), None, "the node a is retired");
        assert_eq!(record.without_begun(&pair("a", "x")).to_string(), "a by b done");
    }
}
