//! What all locks of a quorum share.

use std::time::Duration;

use crate::{
    algorithm::{attempt::HEDGE_SHARE, node_set::MOST_NODES, tally::Electorate, validity::Validity},
    error::ConfigError,
    node::{NewNodes, QuarantineParameters, QuorumParameters, RestartGuard},
    values::{Fingerprint, LONGEST_LABEL, Label},
};

/// What a counter that was lost counts from is known to a second: within less, a node that forgets
/// twice would give the same votes again.
const COUNTED_AS: Duration = Duration::from_secs(1);

/// What all clients and nodes of a quorum agree on beside its settings: the names of keys, when a
/// tombstone is left, who looks at a counter's ttl. It grows with every version of this crate that
/// agrees on something else.
const PROTOCOL: u32 = 1;

/// The longest `max_ttl` and counter ttl: ten years. It keeps every sum of times far from what a
/// [`Duration`] can hold.
const LONGEST_TTL: Duration = Duration::from_secs(3650 * 24 * 3600);

/// What was asked of a quorum, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct QuorumSettings {
    pub(crate) name: String,
    pub(crate) label: Option<String>,
    pub(crate) votes_needed: Option<usize>,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) drift: f64,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) counter_ttl: Duration,
    pub(crate) restart_guard: RestartGuard,
    pub(crate) admits_new: bool,
    pub(crate) is_read_only: bool,
}

/// Settings that can work.
#[derive(Clone, Debug)]
pub(crate) struct CheckedQuorum {
    /// `None`: host and process.
    pub(crate) label: Option<Label>,
    pub(crate) electorate: Electorate,
    pub(crate) validity: Validity,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    /// As set for all locks; otherwise each lock's ttl gives its own.
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) parameters: QuorumParameters,
    /// What is thought of nodes without metadata.
    new_nodes: NewNodes,
}

impl QuorumSettings {
    /// Checks everything against a number of nodes.
    pub(crate) fn check(&self, nodes: usize) -> Result<CheckedQuorum, ConfigError> {
        let electorate = self.electorate(nodes)?;
        let validity = Validity::with_drift(self.drift)
            .ok_or_else(|| ConfigError::Drift { given: self.drift.to_string().into() })?;
        self.check_name()?;
        let label = self.label.as_deref().map(check_label).transpose()?;
        check_longest("max_ttl", self.max_ttl, LONGEST_TTL)?;
        check_longest("counter ttl", self.counter_ttl, LONGEST_TTL)?;
        check_ttl(self.ttl, self.max_ttl, validity)?;
        if let Some(given) = self.node_timeout {
            check_node_timeout(given, self.ttl)?;
        }
        if self.attempt_timeout.is_zero() || self.attempt_timeout > self.max_ttl {
            return Err(ConfigError::AttemptTimeout { given: self.attempt_timeout, most: self.max_ttl });
        }
        let least = self.max_ttl.max(COUNTED_AS);
        if self.counter_ttl < least {
            return Err(ConfigError::CounterTtl { given: self.counter_ttl, least });
        }
        Ok(CheckedQuorum {
            label,
            electorate,
            validity,
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            node_timeout: self.node_timeout,
            attempt_timeout: self.attempt_timeout,
            connect_timeout: self.connect_timeout,
            parameters: QuorumParameters {
                fingerprint: self.fingerprint(electorate),
                guard: self.restart_guard,
                max_ttl: self.max_ttl,
                counter_ttl: self.counter_ttl,
                quarantine: QuarantineParameters {
                    lasts: validity.outlasting(self.max_ttl.max(COUNTED_AS)),
                    renewals_after: validity.seen_by_any(self.attempt_timeout),
                },
                hand_over: self.node_timeout.unwrap_or_else(|| default_node_timeout(self.ttl)) / HEDGE_SHARE,
                incarnation: None,
            },
            new_nodes: match (self.is_read_only, self.admits_new) {
                (true, _) => NewNodes::Leave,
                (false, true) => NewNodes::Admit,
                (false, false) => NewNodes::Quarantine,
            },
        })
    }

    fn electorate(&self, nodes: usize) -> Result<Electorate, ConfigError> {
        if nodes == 0 {
            return Err(ConfigError::NoNodes);
        }
        if nodes > MOST_NODES {
            return Err(ConfigError::TooManyNodes { given: nodes, most: MOST_NODES });
        }
        let majority = Electorate::majority(nodes);
        let needed = self.votes_needed.unwrap_or(majority);
        if needed < majority || needed > nodes {
            return Err(ConfigError::VotesNeeded { given: needed, nodes, majority });
        }
        Ok(Electorate::new(nodes, needed))
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=64).contains(&self.name.len()) && self.name.bytes().all(is_plain) {
            return Ok(());
        }
        Err(ConfigError::QuorumName { given: self.name.escape_debug().to_string().into() })
    }

    fn fingerprint(&self, electorate: Electorate) -> Fingerprint {
        Fingerprint::new(&format!(
            "name={} nodes={} needed={} max_ttl={}ms attempt_timeout={}ms drift={} protocol={PROTOCOL}",
            self.name,
            electorate.nodes(),
            electorate.needed(),
            self.max_ttl.as_millis(),
            self.attempt_timeout.as_millis(),
            self.drift,
        ))
    }
}

impl Default for QuorumSettings {
    fn default() -> Self {
        Self {
            name: "redquorum".to_owned(),
            label: None,
            votes_needed: None,
            ttl: Duration::from_secs(30),
            max_ttl: Duration::from_secs(60),
            drift: 0.01,
            node_timeout: None,
            attempt_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            counter_ttl: Duration::from_secs(3600),
            restart_guard: RestartGuard::default(),
            admits_new: false,
            is_read_only: false,
        }
    }
}

impl CheckedQuorum {
    /// What a connection says first; nothing where no node is asked what it remembers.
    pub(crate) fn registration(&self) -> Option<NewNodes> {
        let is_guarded = self.parameters.guard != RestartGuard::Off;
        is_guarded.then_some(self.new_nodes)
    }

    /// Whether its client only looks.
    pub(crate) fn is_read_only(&self) -> bool {
        self.new_nodes == NewNodes::Leave
    }

    /// How long a node is waited for where no lock says otherwise.
    pub(crate) fn node_timeout_for(&self, ttl: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| default_node_timeout(ttl))
    }
}

fn check_label(given: &str) -> Result<Label, ConfigError> {
    Label::new(given).ok_or_else(|| ConfigError::Label {
        given: given.escape_debug().to_string().into(),
        most: LONGEST_LABEL,
    })
}

fn default_node_timeout(ttl: Duration) -> Duration {
    (ttl / 10).min(Duration::from_secs(1))
}

/// A ttl must leave at least a millisecond after drift and margin, and must not pass `most`.
pub(super) fn check_ttl(given: Duration, most: Duration, validity: Validity) -> Result<(), ConfigError> {
    let least = validity.least_ttl(Duration::from_millis(1));
    if given < least {
        return Err(ConfigError::TtlTooShort { given, least });
    }
    if given > most {
        return Err(ConfigError::TtlTooLong { given, most });
    }
    Ok(())
}

/// `setting` is what the error calls it.
pub(super) fn check_longest(
    setting: &'static str,
    given: Duration,
    most: Duration,
) -> Result<(), ConfigError> {
    if given > most { Err(ConfigError::TooLong { setting, given, most }) } else { Ok(()) }
}

pub(super) fn check_node_timeout(given: Duration, ttl: Duration) -> Result<(), ConfigError> {
    if given.is_zero() || given >= ttl {
        return Err(ConfigError::NodeTimeout { given, ttl });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut QuorumSettings)) -> ConfigError {
        let mut settings = QuorumSettings::default();
        change(&mut settings);
        settings.check(5).unwrap_err()
    }

    #[test]
    fn the_defaults_work_for_any_number_of_nodes() {
        for nodes in 1..=MOST_NODES {
            QuorumSettings::default().check(nodes).unwrap();
        }
    }

    #[test]
    fn what_cannot_work_is_named_with_what_would_be_right() {
        let settings = QuorumSettings::default();
        assert_eq!(settings.check(0).unwrap_err(), ConfigError::NoNodes);
        assert_eq!(settings.check(65).unwrap_err(), ConfigError::TooManyNodes { given: 65, most: 64 });
        for given in [2, 6] {
            let expected = ConfigError::VotesNeeded { given, nodes: 5, majority: 3 };
            assert_eq!(error(|settings| settings.votes_needed = Some(given)), expected);
        }
        for given in [0, 3] {
            let given = Duration::from_millis(given);
            let least = Duration::from_millis(4);
            assert_eq!(error(|settings| settings.ttl = given), ConfigError::TtlTooShort { given, least });
        }
        let given = Duration::from_secs(61);
        let most = Duration::from_secs(60);
        assert_eq!(error(|settings| settings.ttl = given), ConfigError::TtlTooLong { given, most });
        for given in [Duration::ZERO, Duration::from_secs(30)] {
            let ttl = Duration::from_secs(30);
            assert_eq!(
                error(|settings| settings.node_timeout = Some(given)),
                ConfigError::NodeTimeout { given, ttl }
            );
        }
        assert_eq!(error(|settings| settings.drift = -0.5), ConfigError::Drift { given: "-0.5".into() });
        for name in ["", "a b", "line\nbreak"] {
            let given = name.escape_debug().to_string().into();
            assert_eq!(error(|settings| settings.name = name.to_owned()), ConfigError::QuorumName { given });
        }
    }

    #[test]
    fn messages_say_the_value_and_the_way_out() {
        assert_eq!(
            error(|settings| settings.votes_needed = Some(2)).to_string(),
            "2 votes needed of 5 nodes: a majority is 3, so give 3 to 5"
        );
        assert_eq!(
            error(|settings| settings.ttl = Duration::ZERO).to_string(),
            "a ttl of 0ns leaves no time to work after drift and margin: give 4ms or more"
        );
    }
}
