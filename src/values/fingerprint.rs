//! What all clients of a quorum agree on, as text.

use std::{fmt, sync::Arc};

use crate::values::Printable;

/// A quorum's configuration as one readable line: what all of its clients must agree on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(Arc<str>);

impl Fingerprint {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// What a node shows between two configurations: nobody's quorum.
    pub(crate) fn closed_for(&self) -> Self {
        Self(format!("closed for {}", self.0).into())
    }

    /// In which fields this client differs from a node.
    pub(crate) fn beside(&self, theirs: &Self) -> String {
        let fields = |of: &'_ Self| -> Vec<String> { of.0.split(' ').map(str::to_owned).collect() };
        let (our_fields, their_fields) = (fields(self), fields(theirs));
        let without = |fields: &[String], others: &[String]| -> Vec<String> {
            fields.iter().filter(|field| !others.contains(field)).cloned().collect()
        };
        let (ours, others) = (without(&our_fields, &their_fields), without(&their_fields, &our_fields));
        // A line with other fields is of another version, or of a quorum that is being changed.
        if our_fields.len() != their_fields.len() || others.is_empty() {
            return format!("it has ({theirs}), this client ({self})");
        }
        let (others, ours) = (others.join(" and "), ours.join(" and "));
        format!("it has {}, this client {}", Printable(&others), Printable(&ours))
    }

    /// The line as nodes store it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0).fmt(f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_nothing_else() {
        let of = Fingerprint::new;
        let beside = |ours, theirs| of(ours).beside(&of(theirs));
        assert_eq!(
            beside("name=a nodes=3 needed=2 max_ttl=60000ms", "name=a nodes=3 needed=2 max_ttl=30000ms"),
            "it has max_ttl=30000ms, this client max_ttl=60000ms"
        );
        assert_eq!(
            beside("name=a nodes=3 needed=2", "name=b nodes=5 needed=2"),
            "it has name=b and nodes=5, this client name=a and nodes=3"
        );
        assert_eq!(
            beside("name=a nodes=3", "closed for name=a nodes=3"),
            "it has (closed for name=a nodes=3), this client (name=a nodes=3)"
        );
    }

    #[test]
    fn a_line_that_somebody_planted_is_shown_escaped() {
        let (ours, planted) =
            (Fingerprint::new("name=a nodes=3"), Fingerprint::new("name=\u{1b}[2J nodes=3"));
        assert_eq!(planted.to_string(), "name=\\u{1b}[2J nodes=3");
        assert_eq!(ours.beside(&planted), "it has name=\\u{1b}[2J, this client name=a");
    }
}
