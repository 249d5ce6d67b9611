//! The fingerprint of a quorum's configuration, and of nodes that are closed for a move or a replacement.
//! `quorum/moving.rs` describes the steps of a move, and `quorum/replacing.rs` the steps of a replacement.

use std::{fmt, sync::Arc};

use crate::values::Printable;

/// The configuration of a quorum as one readable line, on which all clients of the quorum must agree. A node that is
/// closed for a move or a replacement has a line that names the move or the replacement instead.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(Arc<ConfigurationLine>);

/// The beginning of the fingerprint of every closed node.
const CLOSED: &str = "closed for ";

/// The words before the address of the new server, in the fingerprint of a replaced node.
const REPLACED: &str = " replaced by ";

/// The words before the address of the old node, in the fingerprint of a new server that no replacement has opened yet.
const JOINING: &str = " in place of ";

/// The text of a fingerprint, and its hash.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ConfigurationLine {
    text: Box<str>,
    digest: Digest,
}

/// A hash that stands for a fingerprint in calls, and for a set of names in keys: 64 bits, as 16 hexadecimal digits.
///
/// The hash is FNV-1a (Fowler, Noll and Vo), so all clients in all versions compute the same digest. Two configurations
/// have the same digest with a chance of 2^-64. A deliberate collision does not help an attacker, because a client that
/// may call a node may also name the node's own configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn of(bytes: impl IntoIterator<Item = u8>) -> Self {
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Fingerprint {
    pub(crate) fn new(line: &str) -> Self {
        Self(Arc::new(ConfigurationLine { text: line.into(), digest: Digest::of(line.bytes()) }))
    }

    /// Returns the hash of the line. Calls have the hash as part of their stamp, in place of the line.
    pub(crate) fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns the fingerprint of a node that an earlier version has closed for a move to this configuration. The
    /// fingerprint does not name the configuration that the node comes from.
    pub(crate) fn closed_for(&self) -> Self {
        Self::new(&format!("closed for {}", self.0.text))
    }

    /// Returns the fingerprint of a node that is closed for a move from `from` to this configuration, and that a
    /// give-up of the move may open again. `request` is new for every request that closes nodes.
    pub(crate) fn closed_by(&self, from: &Self, request: &str) -> Self {
        Self::new(&format!("{}{request}", self.closed_prefix(from)))
    }

    /// Whether this is the fingerprint of a node that is closed for a move from `from` to `to`, but not for good.
    pub(crate) fn is_closed_between(&self, from: &Self, to: &Self) -> bool {
        self.0.text.starts_with(&to.closed_prefix(from))
    }

    /// Returns the fingerprint of a node that is closed for good, for a move from `from` to this configuration. A
    /// give-up of the move may open the node only after a quorum of the other old nodes is open. `round` is new for
    /// every round of a move.
    pub(crate) fn closed_for_good_by(&self, from: &Self, round: &str) -> Self {
        Self::new(&format!("{}{round}", self.closed_for_good_prefix(from)))
    }

    /// Whether this is the fingerprint of a node that is closed for good, for a move from `from` to `to`.
    pub(crate) fn is_closed_for_good_between(&self, from: &Self, to: &Self) -> bool {
        self.0.text.starts_with(&to.closed_for_good_prefix(from))
    }

    /// Returns the fingerprint of a new node that is closed for a move to this configuration, and that the first client
    /// of the node has registered for `theirs`. `request` is new for every request that closes nodes.
    pub(crate) fn taken_over_from(&self, theirs: &Self, request: &str) -> Self {
        Self::new(&format!("{}{} by {request}", self.taken_over_prefix(), theirs.0.text))
    }

    /// Returns the configuration of the first client of a new node, if this is the fingerprint of a node that is closed
    /// for a move to `to` and was registered by this client.
    pub(crate) fn first_configuration(&self, to: &Self) -> Option<Self> {
        let (theirs, _request) = self.0.text.strip_prefix(&to.taken_over_prefix())?.rsplit_once(" by ")?;
        Some(Self::new(theirs))
    }

    /// Whether this is the fingerprint of a node that is closed, for good or not, for a move from `from` to any
    /// configuration.
    pub(crate) fn is_closed_from(&self, from: &Self) -> bool {
        let is_from = |by: &str| self.0.text.contains(&format!(" from {}{by}", from.0.text));
        self.is_closed() && (is_from(" by ") || is_from(" for good by "))
    }

    /// Returns the fingerprint of a replaced node of this configuration, which never votes again. `new` is the address
    /// of the server that stands in for the node.
    pub(crate) fn replaced_by(&self, new: &str) -> Self {
        Self::new(&format!("{CLOSED}{}{REPLACED}{new}", self.0.text))
    }

    /// Returns the address of the server that stands in for the node, if this text is the fingerprint of a replaced node
    /// of this configuration.
    pub(crate) fn replacement_of<'t>(&self, text: &'t str) -> Option<&'t str> {
        let new = text.strip_prefix(CLOSED)?.strip_prefix(self.as_str())?.strip_prefix(REPLACED)?;
        (!new.contains(' ')).then_some(new)
    }

    /// Returns the address of the server that stands in for the node, if this text is the fingerprint of a node that was
    /// replaced in any quorum.
    pub(crate) fn replacement_in(text: &str) -> Option<&str> {
        Self::replaced_in(text).map(|(_quorum, new)| new)
    }

    /// Returns the fingerprint of the quorum and the address of the server that stands in for the node, if this text is
    /// the fingerprint of a node that was replaced in any quorum.
    pub(crate) fn replaced_in(text: &str) -> Option<(&str, &str)> {
        let (quorum, new) = text.strip_prefix(CLOSED)?.rsplit_once(REPLACED)?;
        (!new.contains(' ')).then_some((quorum, new))
    }

    /// Returns the fingerprint of a new server that is to stand in for the node at the address `old` in this
    /// configuration, and that is closed until the old node cannot vote any more. `request` is new for every call.
    pub(crate) fn joining_by(&self, old: &str, request: &str) -> Self {
        Self::new(&format!("{}{old} by {request}", self.joining_prefix()))
    }

    /// Returns the address of the node that a new server is to stand in for, if this is the fingerprint of such a server
    /// in the configuration `to`.
    pub(crate) fn joining_for(&self, to: &Self) -> Option<&str> {
        let (old, _request) = self.0.text.strip_prefix(&to.joining_prefix())?.rsplit_once(" by ")?;
        Some(old)
    }

    /// Returns the address of the node that a new server is to stand in for, if this text is the fingerprint of such a
    /// server in any configuration.
    pub(crate) fn joining_in(text: &str) -> Option<&str> {
        let (_ours, joining) = text.strip_prefix(CLOSED)?.rsplit_once(JOINING)?;
        let (old, request) = joining.split_once(" by ")?;
        (![old, request].iter().any(|part| part.contains(' '))).then_some(old)
    }

    /// Whether this is the fingerprint of a new server that is to stand in for a node in the configuration `to`.
    pub(crate) fn is_joining(&self, to: &Self) -> bool {
        self.0.text.starts_with(&to.joining_prefix())
    }

    /// Whether this is the fingerprint of a closed node: of any move, for good or not, or of a replacement.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.text.starts_with(CLOSED)
    }

    fn closed_prefix(&self, from: &Self) -> String {
        format!("closed for {} from {} by ", self.0.text, from.0.text)
    }

    fn closed_for_good_prefix(&self, from: &Self) -> String {
        format!("closed for {} from {} for good by ", self.0.text, from.0.text)
    }

    fn joining_prefix(&self) -> String {
        format!("{CLOSED}{}{JOINING}", self.0.text)
    }

    fn taken_over_prefix(&self) -> String {
        format!("closed for {} taken over from ", self.0.text)
    }

    /// Returns a text with the fields in which this fingerprint, of a client, differs from the fingerprint of a node.
    pub(crate) fn difference_from(&self, theirs: &Self) -> String {
        let fields = |of: &'_ Self| -> Vec<String> { of.0.text.split(' ').map(str::to_owned).collect() };
        let (our_fields, their_fields) = (fields(self), fields(theirs));
        let without = |fields: &[String], others: &[String]| -> Vec<String> {
            fields.iter().filter(|field| !others.contains(field)).cloned().collect()
        };
        let (ours, others) = (without(&our_fields, &their_fields), without(&their_fields, &our_fields));
        // If the numbers of fields differ, the node belongs to another version, or is closed for a move. In this case,
        // the text has both lines.
        if our_fields.len() != their_fields.len() || others.is_empty() {
            return format!("it has ({theirs}), this client ({self})");
        }
        let (others, ours) = (others.join(" and "), ours.join(" and "));
        format!("it has {}, this client {}", Printable(&others), Printable(&ours))
    }

    /// Returns the line as nodes store it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0.text).fmt(f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_only_the_fields_that_differ() {
        let fingerprint = Fingerprint::new;
        let difference_from = |own, other| fingerprint(own).difference_from(&fingerprint(other));
        assert_eq!(
            difference_from(
                "name=a nodes=3 needed=2 max_ttl=60000ms",
                "name=a nodes=3 needed=2 max_ttl=30000ms"
            ),
            "it has max_ttl=30000ms, this client max_ttl=60000ms"
        );
        assert_eq!(
            difference_from("name=a nodes=3 needed=2", "name=b nodes=5 needed=2"),
            "it has name=b and nodes=5, this client name=a and nodes=3"
        );
        assert_eq!(
            difference_from("name=a nodes=3", "closed for name=a nodes=3"),
            "it has (closed for name=a nodes=3), this client (name=a nodes=3)"
        );
    }

    #[test]
    fn a_closed_fingerprint_names_both_configurations_of_the_move() {
        let [old, new, other] = ["name=old", "name=new", "name=older"].map(Fingerprint::new);
        let closed = new.closed_by(&old, "1");
        assert_eq!(closed.to_string(), "closed for name=new from name=old by 1");
        assert!(closed.is_closed_between(&old, &new));
        assert!(!closed.is_closed_between(&other, &new) && !closed.is_closed_between(&old, &other));
        let for_good = new.closed_for_good_by(&old, "1");
        assert!(
            for_good.is_closed_for_good_between(&old, &new) && !closed.is_closed_for_good_between(&old, &new)
        );
        let taken_over = new.taken_over_from(&old, "1");
        for other in [for_good, new.closed_for(), taken_over, old.clone(), new.clone()] {
            assert!(!other.is_closed_between(&old, &new), "{other}");
        }
    }

    #[test]
    fn the_fingerprint_of_a_taken_over_node_names_its_first_configuration() {
        let [theirs, new, other] = ["name=a by b", "name=new", "name=other"].map(Fingerprint::new);
        let closed = new.taken_over_from(&theirs, "1");
        assert_eq!(closed.to_string(), "closed for name=new taken over from name=a by b by 1");
        assert_eq!(closed.first_configuration(&new), Some(theirs.clone()));
        assert_eq!(closed.first_configuration(&other), None);
        assert!(closed.is_closed_from(&theirs));
        for other in [new.closed_by(&theirs, "1"), new.closed_for_good_by(&theirs, "1"), new.closed_for()] {
            assert_eq!(other.first_configuration(&new), None, "{other}");
        }
    }

    #[test]
    fn the_fingerprints_of_a_replacement_name_the_other_server() {
        let ours = Fingerprint::new("name=a replaced by b nodes=3");
        let replaced = ours.replaced_by("10.0.0.4:6379");
        let text = "closed for name=a replaced by b nodes=3 replaced by 10.0.0.4:6379";
        assert_eq!(replaced.to_string(), text);
        assert_eq!(Fingerprint::replacement_in(text), Some("10.0.0.4:6379"));
        assert_eq!(Fingerprint::replaced_in(text), Some((ours.as_str(), "10.0.0.4:6379")));
        assert_eq!(ours.replacement_of(text), Some("10.0.0.4:6379"));
        assert_eq!(Fingerprint::new("name=a").replacement_of(text), None, "of another configuration");
        let joining = ours.joining_by("10.0.0.3:6379", "1");
        assert!(joining.is_joining(&ours));
        assert_eq!(joining.joining_for(&ours), Some("10.0.0.3:6379"));
        assert_eq!(Fingerprint::joining_in(joining.as_str()), Some("10.0.0.3:6379"));
        assert_eq!(Fingerprint::joining_in(text), None);
        assert_eq!((joining.joining_for(&replaced), replaced.joining_for(&ours)), (None, None));
        assert!(replaced.is_closed() && joining.is_closed());
        for other in [ours.clone(), joining, ours.closed_by(&Fingerprint::new("name=b"), "1")] {
            assert_eq!(Fingerprint::replacement_in(other.as_str()), None, "{other}");
            assert!(!other.is_closed_from(&ours), "{other}");
        }
    }

    #[test]
    fn a_digest_is_the_fnv_1a_hash_of_the_line() {
        for (line, digest) in
            [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")]
        {
            assert_eq!(Fingerprint::new(line).digest().to_string(), digest);
        }
    }

    #[test]
    fn control_characters_of_a_foreign_line_are_shown_escaped() {
        let (own, foreign) = (Fingerprint::new("name=a nodes=3"), Fingerprint::new("name=\u{1b}[2J nodes=3"));
        assert_eq!(foreign.to_string(), "name=\\u{1b}[2J nodes=3");
        assert_eq!(own.difference_from(&foreign), "it has name=\\u{1b}[2J, this client name=a");
    }
}
