//! The stamp of a call, in place of the fingerprint and the incarnation.

use std::fmt;

use crate::{
    node::parameters::{QuorumParameters, RestartGuard},
    values::Digest,
};

/// Fingerprint and incarnation in short form: the digest of the fingerprint, a slash, and the beginnings of the two ids
/// of the incarnation.
///
/// The node metadata has the stamp that the script made at the registration, beside both complete texts. A
/// node votes only for calls with its stamp. Assumed: ids are random, as in Redis, so two incarnations of a
/// server have equal beginnings only with a chance of 2^-64.
pub(super) struct Stamp<'a> {
    digest: Digest,
    incarnation: &'a str,
}

impl<'a> Stamp<'a> {
    /// The number of characters of each id.
    const BEGINNING: usize = 16;

    pub(super) fn of(parameters: &'a QuorumParameters) -> Self {
        let incarnation = match parameters.guard {
            RestartGuard::PerConnection | RestartGuard::Off => {
                parameters.incarnation.as_deref().unwrap_or_default()
            }
            // No node metadata has this incarnation, so no lock or renewal takes the fast path: each
            // compares the server's incarnation.
            RestartGuard::PerVote => "-",
        };
        Self { digest: parameters.fingerprint.digest(), incarnation }
    }
}

impl fmt::Display for Stamp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beginning = |id: &'_ str| -> String { id.chars().take(Self::BEGINNING).collect() };
        let (run_id, replication_id) = self.incarnation.split_once('/').unwrap_or((self.incarnation, ""));
        write!(f, "{}/{}{}", self.digest, beginning(run_id), beginning(replication_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{node::operation::samples::parameters, values::Fingerprint};

    #[test]
    fn a_stamp_has_the_digest_and_the_starts_of_both_ids() {
        let (run_id, replication_id) = ("0123456789abcdef".repeat(2), "fedcba9876543210".repeat(2));
        let connected = QuorumParameters {
            fingerprint: Fingerprint::new("foobar"),
            guard: RestartGuard::PerConnection,
            incarnation: Some(format!("{run_id}/{replication_id}").into()),
            ..parameters()
        };
        assert_eq!(Stamp::of(&connected).to_string(), "85944171f73967e8/0123456789abcdeffedcba9876543210");
        let unregistered = QuorumParameters { incarnation: None, ..connected.clone() };
        assert_eq!(Stamp::of(&unregistered).to_string(), "85944171f73967e8/");
        let per_vote = QuorumParameters { guard: RestartGuard::PerVote, ..connected };
        assert_eq!(Stamp::of(&per_vote).to_string(), "85944171f73967e8/-");
    }
}
