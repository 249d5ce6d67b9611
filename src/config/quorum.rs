//! The settings that all locks of a quorum share, and their check.

use std::{fmt, time::Duration};

use crate::{
    algorithm::{attempt::HEDGE_SHARE, node_set::MAX_NODES, tally::Electorate, validity::Validity},
    error::{ConfigError, duration_out_of_range, out_of_range, refused_text},
    node::{NewNodes, QuarantineParameters, QuorumParameters, RestartGuard},
    values::{Fingerprint, Label, MAX_LABEL_BYTES, may_be_url, shown_value},
};

/// The precision of the time from which a node computes the start of a lost counter. If a node forgot its counters
/// twice within less time, the node would give the same votes again.
const COUNTER_PRECISION: Duration = Duration::from_secs(1);

/// The attempt timeout without a setting, unless `max_ttl` is shorter. A call that waits also waits for this time for a
/// vote, so nodes may have seconds of work before attempts fail.
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The version of the protocol, on which all clients and nodes of a quorum must agree. The protocol includes the names
/// of keys, the cases in which an unlock leaves a tombstone, and the rule that decides whether the client or the node
/// checks the ttl of a counter. The number grows with every change of the protocol.
const PROTOCOL: u32 = 3;

/// The longest `max_ttl` and counter ttl: ten years. The limit keeps every sum of times far below the largest
/// [`Duration`].
const MAX_TTL_LIMIT: Duration = Duration::from_secs(3650 * 24 * 3600);

/// The settings of a quorum before their check. `Debug` shows a refused name or label as its error does, because the
/// text may be a url with a password.
#[derive(Clone)]
pub(crate) struct QuorumSettings {
    pub(crate) name: String,
    pub(crate) label: Option<String>,
    pub(crate) votes_needed: Option<usize>,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) drift: f64,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) counter_ttl: Duration,
    pub(crate) restart_guard: RestartGuard,
    pub(crate) admits_new: bool,
    pub(crate) is_read_only: bool,
}

/// The checked settings of a quorum.
#[derive(Clone, Debug)]
pub(crate) struct CheckedQuorum {
    /// The label; `None` for the name of the host and the process id.
    pub(crate) label: Option<Label>,
    pub(crate) electorate: Electorate,
    pub(crate) validity: Validity,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    /// The node timeout of locks without their own; `None` if these locks derive the node timeout from their ttl.
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) parameters: QuorumParameters,
    /// The treatment of nodes without metadata.
    new_nodes: NewNodes,
}

impl QuorumSettings {
    /// Checks all settings for this number of nodes.
    pub(crate) fn check(&self, nodes: usize) -> Result<CheckedQuorum, ConfigError> {
        let electorate = self.electorate(nodes)?;
        let validity = Validity::with_drift(self.drift).ok_or_else(|| {
            out_of_range("drift", self.drift, "a share of time from 0 to below 0.5, such as 0.01")
        })?;
        self.check_name()?;
        let label = self.label.as_deref().map(check_label).transpose()?;
        check_maximum("max_ttl", self.max_ttl, MAX_TTL_LIMIT)?;
        check_maximum("counter_ttl", self.counter_ttl, MAX_TTL_LIMIT)?;
        check_ttl(self.ttl, self.max_ttl, validity)?;
        if let Some(given) = self.node_timeout {
            check_node_timeout(given, self.ttl)?;
        }
        let attempt_timeout = self.attempt_timeout();
        if attempt_timeout.is_zero() || attempt_timeout > self.max_ttl {
            let expected = format!("a time above zero, and at most the max_ttl of {:?}", self.max_ttl);
            return Err(duration_out_of_range("attempt_timeout", attempt_timeout, expected));
        }
        let least = self.max_ttl.max(COUNTER_PRECISION);
        if self.counter_ttl < least {
            let expected = format!(
                "{least:?} or more, since a counter has to outlive every lease of max_ttl {:?}",
                self.max_ttl
            );
            return Err(duration_out_of_range("counter_ttl", self.counter_ttl, expected));
        }
        Ok(CheckedQuorum {
            label,
            electorate,
            validity,
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            node_timeout: self.node_timeout,
            attempt_timeout,
            connect_timeout: self.connect_timeout,
            parameters: QuorumParameters {
                fingerprint: self.fingerprint(electorate),
                guard: self.restart_guard,
                max_ttl: self.max_ttl,
                counter_ttl: self.counter_ttl,
                quarantine: QuarantineParameters {
                    lasts: validity.outlasting(self.max_ttl.max(COUNTER_PRECISION)),
                    renewals_after: validity.seen_by_any(attempt_timeout),
                },
                hand_over: self.node_timeout.unwrap_or_else(|| default_node_timeout(self.ttl)) / HEDGE_SHARE,
                incarnation: None,
            },
            new_nodes: match (self.is_read_only, self.admits_new) {
                (true, _) => NewNodes::Ignore,
                (false, true) => NewNodes::Admit,
                (false, false) => NewNodes::Quarantine,
            },
        })
    }

    fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout.unwrap_or_else(|| DEFAULT_ATTEMPT_TIMEOUT.min(self.max_ttl))
    }

    fn electorate(&self, nodes: usize) -> Result<Electorate, ConfigError> {
        if nodes == 0 {
            return Err(ConfigError::NoNodes);
        }
        if nodes > MAX_NODES {
            return Err(out_of_range("nodes", nodes, format!("at most {MAX_NODES}")));
        }
        let majority = Electorate::majority(nodes);
        let needed = self.votes_needed.unwrap_or(majority);
        if needed < majority || needed > nodes {
            let expected = format!("{majority} to {nodes}: {majority} of {nodes} nodes are a majority");
            return Err(out_of_range("votes_needed", needed, expected));
        }
        Ok(Electorate::new(nodes, needed))
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=64).contains(&self.name.len()) && self.name.bytes().all(is_plain) {
            return Ok(());
        }
        Err(refused_text("name", &self.name, "1 to 64 letters, digits, '-', '_' or '.'"))
    }

    fn fingerprint(&self, electorate: Electorate) -> Fingerprint {
        Fingerprint::new(&format!(
            "name={} nodes={} needed={} max_ttl={}ms attempt_timeout={}ms drift={} protocol={PROTOCOL}",
            self.name,
            electorate.nodes(),
            electorate.needed(),
            self.max_ttl.as_millis(),
            self.attempt_timeout().as_millis(),
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
            attempt_timeout: None,
            connect_timeout: Duration::from_secs(30),
            counter_ttl: Duration::from_secs(3600),
            restart_guard: RestartGuard::default(),
            admits_new: false,
            is_read_only: false,
        }
    }
}

impl fmt::Debug for QuorumSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            label,
            votes_needed,
            ttl,
            max_ttl,
            drift,
            node_timeout,
            attempt_timeout,
            connect_timeout,
            counter_ttl,
            restart_guard,
            admits_new,
            is_read_only,
        } = self;
        let name = if self.check_name().is_ok() { name } else { shown_value(name) };
        let shown_label = |label| if check_label(label).is_ok() { label } else { shown_value(label) };
        f.debug_struct("QuorumSettings")
            .field("name", &name)
            .field("label", &label.as_deref().map(shown_label))
            .field("votes_needed", votes_needed)
            .field("ttl", ttl)
            .field("max_ttl", max_ttl)
            .field("drift", drift)
            .field("node_timeout", node_timeout)
            .field("attempt_timeout", attempt_timeout)
            .field("connect_timeout", connect_timeout)
            .field("counter_ttl", counter_ttl)
            .field("restart_guard", restart_guard)
            .field("admits_new", admits_new)
            .field("is_read_only", is_read_only)
            .finish()
    }
}

impl CheckedQuorum {
    /// Returns the treatment of nodes without metadata at registrations; `None` without registrations, because the
    /// restart guard is off.
    pub(crate) fn registration(&self) -> Option<NewNodes> {
        let is_guarded = self.parameters.guard != RestartGuard::Off;
        is_guarded.then_some(self.new_nodes)
    }

    /// Whether the client is read-only: it can inspect and observe, but changes no node.
    pub(crate) fn is_read_only(&self) -> bool {
        self.new_nodes == NewNodes::Ignore
    }

    /// Returns the node timeout of a lock with this ttl and without a node timeout of its own.
    pub(crate) fn node_timeout_for(&self, ttl: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| default_node_timeout(ttl))
    }
}

fn check_label(given: &str) -> Result<Label, ConfigError> {
    // All users of the nodes can read the label in lease ids and in names of connections.
    let label = Label::new(given).filter(|_| !may_be_url(given));
    label.ok_or_else(|| {
        let expected = format!("1 to {MAX_LABEL_BYTES} bytes of characters that print, and no url");
        refused_text("label", given, expected)
    })
}

fn default_node_timeout(ttl: Duration) -> Duration {
    (ttl / 10).min(Duration::from_secs(1))
}

/// Checks a ttl: drift and margin must leave at least a millisecond, and the ttl must not exceed `most`.
pub(super) fn check_ttl(given: Duration, most: Duration, validity: Validity) -> Result<(), ConfigError> {
    let least = validity.least_ttl(Duration::from_millis(1));
    if given < least {
        let expected = format!("{least:?} or more, since drift and margin leave nothing of a shorter ttl");
        return Err(duration_out_of_range("ttl", given, expected));
    }
    if given > most {
        let expected = format!(
            "at most the quorum's max_ttl of {most:?}: shorten it, or raise max_ttl of the whole quorum by `redquorum \
             reconfigure` or `admin::reconfigure`"
        );
        return Err(duration_out_of_range("ttl", given, expected));
    }
    Ok(())
}

/// Checks a time against its maximum. The error names `setting`.
fn check_maximum(setting: &'static str, given: Duration, most: Duration) -> Result<(), ConfigError> {
    let refused = || duration_out_of_range(setting, given, format!("at most {most:?}"));
    if given > most { Err(refused()) } else { Ok(()) }
}

pub(super) fn check_node_timeout(given: Duration, ttl: Duration) -> Result<(), ConfigError> {
    if given.is_zero() || given >= ttl {
        let expected = format!("a time above zero and below the ttl of {ttl:?}");
        return Err(duration_out_of_range("node_timeout", given, expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_after(change: impl FnOnce(&mut QuorumSettings)) -> String {
        let mut settings = QuorumSettings::default();
        change(&mut settings);
        settings.check(5).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid_for_every_number_of_nodes() {
        for nodes in 1..=MAX_NODES {
            QuorumSettings::default().check(nodes).unwrap();
        }
    }

    #[test]
    fn the_error_of_a_setting_names_its_value_and_range() {
        let settings = QuorumSettings::default();
        assert_eq!(settings.check(0).unwrap_err(), ConfigError::NoNodes);
        assert_eq!(settings.check(65).unwrap_err().to_string(), "nodes is 65: expected at most 64");
        for given in [2, 6] {
            assert_eq!(
                error_after(|settings| settings.votes_needed = Some(given)),
                format!("votes_needed is {given}: expected 3 to 5: 3 of 5 nodes are a majority")
            );
        }
        for (given, shown) in [(0, "0"), (3, "3ms")] {
            assert_eq!(
                error_after(|settings| settings.ttl = Duration::from_millis(given)),
                format!(
                    "ttl is {shown}: expected 4ms or more, since drift and margin leave nothing of a shorter ttl"
                )
            );
        }
        assert_eq!(
            error_after(|settings| settings.ttl = Duration::from_secs(61)),
            "ttl is 61s: expected at most the quorum's max_ttl of 60s: shorten it, or raise max_ttl of the \
             whole quorum by `redquorum reconfigure` or `admin::reconfigure`"
        );
        for (given, shown) in [(Duration::ZERO, "0"), (Duration::from_secs(30), "30s")] {
            assert_eq!(
                error_after(|settings| settings.node_timeout = Some(given)),
                format!("node_timeout is {shown}: expected a time above zero and below the ttl of 30s")
            );
        }
        assert_eq!(
            error_after(|settings| settings.drift = -0.5),
            "drift is -0.5: expected a share of time from 0 to below 0.5, such as 0.01"
        );
        for (name, shown) in
            [("", "\"\""), ("a b", "a b"), ("line\nbreak", "***"), ("redis://:secret@a", "***")]
        {
            assert_eq!(
                error_after(|settings| settings.name = name.to_owned()),
                format!("name is {shown}: expected 1 to 64 letters, digits, '-', '_' or '.'")
            );
        }
        assert_eq!(
            error_after(|settings| settings.counter_ttl = Duration::from_secs(59)),
            "counter_ttl is 59s: expected 60s or more, since a counter has to outlive every lease of max_ttl 60s"
        );
        assert_eq!(
            error_after(|settings| settings.attempt_timeout = Some(Duration::ZERO)),
            "attempt_timeout is 0: expected a time above zero, and at most the max_ttl of 60s"
        );
    }
}
