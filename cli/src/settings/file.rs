//! The configuration file.

use std::path::Path;

use redquorum::{QuorumBuilder, RestartGuard};
use serde::Deserialize;

use super::security::Security;
use crate::{duration::Written, exit::Exit, failure::Failure};

/// What the file may say. Whatever it leaves out has the library's default; what it says and nobody
/// knows is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) votes_needed: Option<usize>,
    pub(super) ttl: Option<Written>,
    pub(super) max_ttl: Option<Written>,
    attempt_timeout: Option<Written>,
    pub(super) node_timeout: Option<Written>,
    pub(super) connect_timeout: Option<Written>,
    counter_ttl: Option<Written>,
    pub(super) drift: Option<f64>,
    pub(super) restart_guard: Option<Guard>,
    #[serde(default)]
    pub(super) tls: Security,
}

/// [`RestartGuard`], as the file calls it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guard {
    PerConnection,
    PerVote,
    Off,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Exit::Io`] if it cannot be read, [`Exit::Config`] if it cannot be understood, with the
    /// line.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
        Self::parse(&text).map_err(|error| Failure::new(Exit::Config, format!("{}: {error}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The quorum with the settings of this file.
    pub(super) fn apply(&self, mut builder: QuorumBuilder) -> QuorumBuilder {
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(votes) = self.votes_needed {
            builder = builder.votes_needed(votes);
        }
        if let Some(Written(ttl)) = self.ttl {
            builder = builder.ttl(ttl);
        }
        if let Some(Written(max_ttl)) = self.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(Written(attempt_timeout)) = self.attempt_timeout {
            builder = builder.attempt_timeout(attempt_timeout);
        }
        if let Some(Written(connect_timeout)) = self.connect_timeout {
            builder = builder.connect_timeout(connect_timeout);
        }
        if let Some(Written(node_timeout)) = self.node_timeout {
            builder = builder.node_timeout(node_timeout);
        }
        if let Some(Written(counter_ttl)) = self.counter_ttl {
            builder = builder.counter_ttl(counter_ttl);
        }
        if let Some(drift) = self.drift {
            builder = builder.drift(drift);
        }
        match self.restart_guard {
            Some(guard) => builder.restart_guard(guard.into()),
            None => builder,
        }
    }
}

impl From<Guard> for RestartGuard {
    fn from(guard: Guard) -> Self {
        match guard {
            Guard::PerConnection => Self::PerConnection,
            Guard::PerVote => Self::PerVote,
            Guard::Off => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read_whole() {
        let text = include_str!("../../../examples/redquorum.toml");
        // It follows from the ttl where it is not set.
        let text = text.replace("# node_timeout =", "node_timeout =");
        let file = File::parse(&text).unwrap();
        let given = [
            file.ttl.is_some(),
            file.max_ttl.is_some(),
            file.attempt_timeout.is_some(),
            file.node_timeout.is_some(),
            file.connect_timeout.is_some(),
            file.counter_ttl.is_some(),
            file.drift.is_some(),
            file.votes_needed.is_some(),
            file.restart_guard.is_some(),
            file.name.is_some(),
        ];
        assert_eq!(given, [true; 10]);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = File::parse("name = \"a\"\nvotes = 2\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("unknown field `votes`"), "{error}");
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_what_would_be_right() {
        let error = File::parse("ttl = \"30\"").unwrap_err().to_string();
        assert!(error.contains("write it like 30s"), "{error}");
        let error = File::parse("ttl = 10").unwrap_err().to_string();
        assert!(error.contains("10 is no duration, the unit is missing: write it like \"10s\""), "{error}");
        let error = File::parse("ttl = true").unwrap_err().to_string();
        assert!(error.contains("expected a duration such as \"30s\""), "{error}");
    }
}
