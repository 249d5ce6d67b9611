//! The record of replaced nodes, which nodes keep in their metadata, and the rules by which a step of a replacement
//! changes it. Pure.
//!
//! Each rule concerns the record of one node. A node changes its record only if the record is still the whole text on
//! which the rule was applied.

use std::{collections::BTreeMap, fmt};

use crate::mutation::{self, Mutation};

/// The addresses of an old node and of the new server that stands in for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pair {
    pub(super) old: String,
    pub(super) new: String,
}

/// How far a replacement is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Progress {
    /// The call with this id has begun the replacement. The old node may vote.
    Begun(String),
    /// The old node is retired or gone. No other server may stand in for it.
    Retired,
    /// The new server votes.
    Done,
}

/// The replacements that a node has recorded. The text has one part for each: `OLD by NEW begun CALL`, `OLD by NEW
/// retired` or `OLD by NEW done`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReplacementRecord(BTreeMap<Pair, Progress>);

/// The reason why the record of a node excludes a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// This other replacement was begun, and neither ended nor abandoned.
    Unfinished(Pair),
    /// Another server stands in for the server at this address.
    Replaced { node: String, by: String },
    /// The begin of this call is missing: another call has continued, ended or abandoned the replacement.
    Superseded,
}

impl ReplacementRecord {
    /// Reads the text of a node. Parts of another form are ignored.
    pub(super) fn read(text: &str) -> Self {
        let part = |part: &str| match part.split(' ').collect::<Vec<_>>()[..] {
            [old, "by", new, ref progress @ ..] => {
                let progress = match progress {
                    ["begun", call] => Progress::Begun((*call).to_owned()),
                    ["retired"] => Progress::Retired,
                    ["done"] => Progress::Done,
                    _ => return None,
                };
                Some((Pair { old: old.to_owned(), new: new.to_owned() }, progress))
            }
            _ => None,
        };
        Self(text.split(", ").filter_map(part).collect())
    }

    /// Returns the record after the begin of a replacement by this call. The begin of another call with the same servers
    /// is replaced, so that call can no longer continue. A replacement whose old node is retired or gone is not begun again.
    pub(super) fn begin(&self, pair: &Pair, call: &str) -> Result<Self, Conflict> {
        self.refuse_other_server(pair)?;
        if let Some(other) = self.unfinished_beside(pair) {
            return Err(Conflict::Unfinished(other.clone()));
        }
        if !self.is_ended(pair) {
            return Ok(self.with(pair, Progress::Begun(call.to_owned())));
        }
        // The new server was replaced in turn, so it must not stand in for the old node again.
        match self.successor(&pair.new) {
            Some(by) => Err(Conflict::Replaced { node: pair.new.clone(), by: by.to_owned() }),
            None => Ok(self.clone()),
        }
    }

    /// Checks that the node has the begin of this call, or that the old node is retired or gone.
    pub(super) fn confirm(&self, pair: &Pair, call: &str) -> Result<(), Conflict> {
        let is_present = match self.0.get(pair) {
            Some(Progress::Begun(of)) => of == call,
            progress => progress.is_some(),
        };
        let is_present = mutation::altered(Mutation::ContinueWithoutBegin, is_present, |_| true);
        if is_present { Ok(()) } else { Err(Conflict::Superseded) }
    }

    /// Returns the record after the end of the old node, which is retired or gone. `opens`: whether the call opens the new
    /// server.
    pub(super) fn retire(&self, pair: &Pair, call: &str, opens: bool) -> Result<Self, Conflict> {
        self.end(pair, call, opens, Progress::Retired)
    }

    /// Returns the record after the first vote of the new server.
    pub(super) fn complete(&self, pair: &Pair, call: &str, opens: bool) -> Result<Self, Conflict> {
        self.end(pair, call, opens, Progress::Done)
    }

    fn end(&self, pair: &Pair, call: &str, opens: bool, progress: Progress) -> Result<Self, Conflict> {
        self.refuse_other_server(pair)?;
        self.confirm(pair, call)?;
        match self.0.get(pair) {
            Some(known) if *known >= progress => Ok(self.clone()),
            Some(Progress::Retired) => Ok(self.with(pair, progress)),
            // A call that does not open the new server may have stalled while that server was replaced in turn.
            _ if !mutation::altered(Mutation::EndUnopened, opens, |_| true)
                && self.successor(&pair.new).is_some() =>
            {
                Err(Conflict::Superseded)
            }
            // The address of the new server is used again. What the record has about the earlier node ends.
            _ => Ok(self.without(|other, _| other.old == pair.new).with(pair, progress)),
        }
    }

    /// Returns the record without the begin of this call.
    pub(super) fn withdraw(&self, pair: &Pair, call: &str) -> Self {
        self.without(|other, progress| other == pair && *progress == Progress::Begun(call.to_owned()))
    }

    /// Returns the record without the begin of any call with these servers.
    pub(super) fn abandon(&self, pair: &Pair) -> Result<Self, Conflict> {
        if self.is_ended(pair) {
            return Err(Conflict::Replaced { node: pair.old.clone(), by: pair.new.clone() });
        }
        Ok(self.without(|other, _| other == pair))
    }

    /// Returns the record of a new server when a replacement opens it: the replacement, and the ended replacements that
    /// the other nodes have recorded. The record shows that the new server was opened after the end of the old node.
    pub(super) fn of_opened<'a>(pair: &Pair, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let of_others = Self::merged(others);
        let ended = of_others.without(|other, progress| {
            matches!(progress, Progress::Begun(_)) || (other != pair && other.old == pair.new)
        });
        ended.with(pair, Progress::Retired)
    }

    /// Returns the replacements of several nodes, each with the latest progress.
    pub(super) fn merged<'a>(records: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut merged = Self::default();
        for (pair, progress) in records.into_iter().flat_map(|record| &record.0) {
            let known = merged.0.entry(pair.clone()).or_insert_with(|| progress.clone());
            if *known < *progress {
                known.clone_from(progress);
            }
        }
        merged
    }

    /// Whether the node has recorded this replacement.
    pub(super) fn contains(&self, pair: &Pair) -> bool {
        self.0.contains_key(pair)
    }

    /// Whether the old node is retired or gone, by this record.
    pub(super) fn is_ended(&self, pair: &Pair) -> bool {
        self.0.get(pair).is_some_and(|progress| *progress >= Progress::Retired)
    }

    /// Returns another replacement that was begun and has not ended.
    pub(super) fn unfinished_beside(&self, pair: &Pair) -> Option<&Pair> {
        let is_begun = |progress: &Progress| matches!(progress, Progress::Begun(_));
        let mut others = self.0.iter().filter(|(other, progress)| *other != pair && is_begun(progress));
        let other = others.next().map(|(other, _)| other);
        mutation::altered(Mutation::IgnoreUnfinished, other, |_| None)
    }

    /// Returns the server that stands in for the node at this address. If that server was replaced in turn, returns its
    /// successor.
    pub(super) fn successor(&self, old: &str) -> Option<&str> {
        let next = |old: &str| self.ended().find(|pair| pair.old == old).map(|pair| &*pair.new);
        // A record that was damaged may have a cycle.
        std::iter::successors(next(old), |new| next(new)).take(self.0.len()).last()
    }

    /// Returns the ended replacements whose new server was not replaced in turn.
    pub(super) fn standing_in(&self) -> impl Iterator<Item = &Pair> {
        self.ended().filter(|pair| !self.ended().any(|later| later.old == pair.new))
    }

    /// Returns an error if another server stands in for the old node.
    fn refuse_other_server(&self, pair: &Pair) -> Result<(), Conflict> {
        let is_other = |ended: &Pair| ended.old == pair.old && ended.new != pair.new;
        let is_replaced = self.ended().any(is_other);
        if !mutation::altered(Mutation::ForgetReplacements, is_replaced, |_| false) {
            return Ok(());
        }
        let by =
            self.ended().find(|ended| is_other(ended)).map(|ended| ended.new.clone()).unwrap_or_default();
        let by = self.successor(&by).map_or_else(|| by.clone(), str::to_owned);
        Err(Conflict::Replaced { node: pair.old.clone(), by })
    }

    fn ended(&self) -> impl Iterator<Item = &Pair> {
        self.0.iter().filter(|(_, progress)| **progress >= Progress::Retired).map(|(pair, _)| pair)
    }

    fn with(&self, pair: &Pair, progress: Progress) -> Self {
        let mut record = self.0.clone();
        record.insert(pair.clone(), progress);
        Self(record)
    }

    fn without(&self, is_left_out: impl Fn(&Pair, &Progress) -> bool) -> Self {
        let mut record = self.0.clone();
        record.retain(|pair, progress| !is_left_out(pair, progress));
        Self(record)
    }
}

impl fmt::Display for ReplacementRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (Pair { old, new }, progress)) in self.0.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            write!(f, "{separator}{old} by {new} ")?;
            match progress {
                Progress::Begun(call) => write!(f, "begun {call}")?,
                Progress::Retired => f.write_str("retired")?,
                Progress::Done => f.write_str("done")?,
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

    fn read(text: &str) -> ReplacementRecord {
        ReplacementRecord::read(text)
    }

    fn shown(changed: Result<ReplacementRecord, Conflict>) -> Result<String, Conflict> {
        changed.map(|record| record.to_string())
    }

    fn replaced(node: &str, by: &str) -> Conflict {
        Conflict::Replaced { node: node.to_owned(), by: by.to_owned() }
    }

    #[test]
    fn a_record_is_written_and_read() {
        for text in ["", "a:1 by b:1 done, c:1 by d:1 begun x", "a by b retired"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("x, a by b later, a by b begun, a:1 by b:1 done").to_string(), "a:1 by b:1 done");
    }

    #[test]
    fn a_begin_is_refused_beside_another_replacement_and_takes_over_the_same_one() {
        let begin = |text: &str| shown(read(text).begin(&pair("a", "b"), "x"));
        for (text, begun) in [
            ("", Ok("a by b begun x")),
            ("a by b begun y", Ok("a by b begun x")),
            ("a by b retired", Ok("a by b retired")),
            ("c by d done", Ok("a by b begun x, c by d done")),
            // The address b is used again.
            ("b by c done", Ok("a by b begun x, b by c done")),
            ("c by d begun y", Err(Conflict::Unfinished(pair("c", "d")))),
            ("c by a begun y", Err(Conflict::Unfinished(pair("c", "a")))),
            ("a by b done, c by d begun y", Err(Conflict::Unfinished(pair("c", "d")))),
            ("a by c retired", Err(replaced("a", "c"))),
            ("a by c done, c by d done", Err(replaced("a", "d"))),
            ("a by b done, b by c done", Err(replaced("b", "c"))),
        ] {
            assert_eq!(begin(text), begun.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn only_the_call_that_has_begun_a_replacement_last_continues_it() {
        let pair = pair("a", "b");
        for (text, continues, retired) in [
            ("a by b begun x", Ok(()), "a by b retired"),
            ("a by b retired", Ok(()), "a by b retired"),
            ("a by b done", Ok(()), "a by b done"),
            ("a by b begun y", Err(Conflict::Superseded), ""),
            ("", Err(Conflict::Superseded), ""),
        ] {
            let record = read(text);
            assert_eq!(record.confirm(&pair, "x"), continues, "{text}");
            assert_eq!(
                shown(record.retire(&pair, "x", true)),
                continues.map(|()| retired.to_owned()),
                "{text}"
            );
        }
        assert_eq!(
            shown(read("a by c retired, a by b begun x").retire(&pair, "x", true)),
            Err(replaced("a", "c"))
        );
    }

    #[test]
    fn the_end_of_a_replacement_ends_what_was_recorded_about_its_new_address() {
        let record = read("b by a done, c by d done, a by b begun x");
        assert_eq!(shown(record.retire(&pair("a", "b"), "x", true)).unwrap(), "a by b retired, c by d done");
        assert_eq!(record.retire(&pair("a", "b"), "x", false), Err(Conflict::Superseded));
        let later = read("a by b done, b by c done");
        assert_eq!(
            shown(later.complete(&pair("a", "b"), "x", true)).unwrap(),
            later.to_string(),
            "b was replaced later"
        );
    }

    #[test]
    fn a_begin_is_withdrawn_by_its_call_and_abandoned_by_any() {
        let record = read("a by b begun x, c by d retired");
        assert_eq!(record.withdraw(&pair("a", "b"), "y"), record);
        assert_eq!(record.withdraw(&pair("c", "d"), ""), record);
        assert_eq!(record.withdraw(&pair("a", "b"), "x").to_string(), "c by d retired");
        assert_eq!(shown(record.abandon(&pair("a", "b"))), Ok("c by d retired".to_owned()));
        assert_eq!(shown(record.abandon(&pair("c", "d"))), Err(replaced("c", "d")));
    }

    #[test]
    fn an_opened_server_has_the_ended_replacements_of_the_other_nodes() {
        let others =
            [read("a by b begun x, c by d retired"), read("b by a done, c by d done, e by f begun y")];
        let opened = ReplacementRecord::of_opened(&pair("a", "b"), &others);
        assert_eq!(opened.to_string(), "a by b retired, c by d done");
    }

    #[test]
    fn the_successor_of_a_node_is_the_last_server_that_stands_in_for_it() {
        let record = read("a by b done, b by c retired, d by e begun x");
        assert_eq!(["a", "b", "d"].map(|old| record.successor(old)), [Some("c"), Some("c"), None]);
        assert!(read("a by b done, b by a done").successor("a").is_some());
        assert_eq!(record.standing_in().collect::<Vec<_>>(), [&pair("b", "c")]);
    }
}
