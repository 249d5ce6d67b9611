//! What a file or the environment says: each setting, or nothing of it.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

use super::{
    duration::{Written, parse_duration},
    files::{Files, file_error},
};
use crate::{
    error::ConfigError,
    node::{
        RestartGuard,
        redis::{NODES_VARIABLE, node_urls},
    },
    quorum::QuorumBuilder,
};

/// What is said. Whatever it leaves out has the library's default; what a file says and nobody knows
/// is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    #[serde(default)]
    pub(super) nodes: Nodes,
    pub(super) name: Option<String>,
    pub(super) label: Option<String>,
    pub(super) votes_needed: Option<usize>,
    pub(super) ttl: Option<Written>,
    pub(super) max_ttl: Option<Written>,
    pub(super) attempt_timeout: Option<Written>,
    pub(super) node_timeout: Option<Written>,
    pub(super) connect_timeout: Option<Written>,
    pub(super) counter_ttl: Option<Written>,
    pub(super) drift: Option<f64>,
    pub(super) restart_guard: Option<Guard>,
    #[serde(default, rename = "tls")]
    pub(super) files: Files,
}

/// [`RestartGuard`], as a file calls it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guard {
    PerConnection,
    PerVote,
    Off,
}

/// The environment, in which a variable that is set to nothing says nothing.
pub(super) struct Environment<'a>(pub(super) &'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.0(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// What `read` makes of a variable, or the error that says what would be right.
    fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.0(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        let wrong = |reason: String| ConfigError::Variable {
            name,
            given: value.to_string_lossy().into(),
            reason: reason.into(),
        };
        let text = value.to_str().ok_or_else(|| wrong("expected UTF-8".to_owned()))?;
        read(text).map(Some).map_err(wrong)
    }

    fn duration(&self, name: &'static str) -> Result<Option<Written>, ConfigError> {
        self.read(name, |text| parse_duration(text).map(Written))
    }
}

impl Given {
    /// What a file says.
    ///
    /// # Errors
    ///
    /// If it cannot be read or understood.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| file_error(path, &error))?;
        let mut given = Self::parse(&text).map_err(|(line, reason)| {
            let path = path.to_owned();
            ConfigError::File { path, line: Some(line), reason }
        })?;
        given.files = given.files.beside(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(given)
    }

    /// The number of the line is told with the reason, and not its text: that may have a password.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, Arc<str>)> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            (before.matches('\n').count() + 1, error.message().into())
        })
    }

    /// What the environment says.
    ///
    /// # Errors
    ///
    /// If a variable cannot be understood.
    pub(super) fn of_environment(environment: &Environment<'_>) -> Result<Self, ConfigError> {
        let nodes = environment.0(NODES_VARIABLE).unwrap_or_default();
        Ok(Self {
            nodes: Nodes(node_urls(&nodes.to_string_lossy())),
            name: environment.read("REDQUORUM_NAME", |text| Ok(text.to_owned()))?,
            label: environment.read("REDQUORUM_LABEL", |text| Ok(text.to_owned()))?,
            votes_needed: environment.read("REDQUORUM_VOTES_NEEDED", |text| {
                text.parse().map_err(|_| "expected a number of nodes, such as 3".to_owned())
            })?,
            ttl: environment.duration("REDQUORUM_TTL")?,
            max_ttl: environment.duration("REDQUORUM_MAX_TTL")?,
            attempt_timeout: environment.duration("REDQUORUM_ATTEMPT_TIMEOUT")?,
            node_timeout: environment.duration("REDQUORUM_NODE_TIMEOUT")?,
            connect_timeout: environment.duration("REDQUORUM_CONNECT_TIMEOUT")?,
            counter_ttl: environment.duration("REDQUORUM_COUNTER_TTL")?,
            drift: environment.read("REDQUORUM_DRIFT", |text| {
                text.parse().map_err(|_| "expected a share of time, such as 0.01".to_owned())
            })?,
            restart_guard: environment.read("REDQUORUM_RESTART_GUARD", Guard::read)?,
            files: Files {
                ca: environment.path("REDQUORUM_CA"),
                certificate: environment.path("REDQUORUM_CERT"),
                key: environment.path("REDQUORUM_KEY"),
            },
        })
    }

    /// This, and of `other` whatever this says nothing of.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            nodes: if self.nodes.0.is_empty() { other.nodes } else { self.nodes },
            name: self.name.or(other.name),
            label: self.label.or(other.label),
            votes_needed: self.votes_needed.or(other.votes_needed),
            ttl: self.ttl.or(other.ttl),
            max_ttl: self.max_ttl.or(other.max_ttl),
            attempt_timeout: self.attempt_timeout.or(other.attempt_timeout),
            node_timeout: self.node_timeout.or(other.node_timeout),
            connect_timeout: self.connect_timeout.or(other.connect_timeout),
            counter_ttl: self.counter_ttl.or(other.counter_ttl),
            drift: self.drift.or(other.drift),
            restart_guard: self.restart_guard.or(other.restart_guard),
            files: self.files.or(other.files),
        }
    }

    /// The quorum with all of that.
    ///
    /// # Errors
    ///
    /// If nobody names a node, or files for TLS cannot be used.
    pub(super) fn builder(self) -> Result<QuorumBuilder, ConfigError> {
        let Nodes(nodes) = self.nodes;
        if nodes.is_empty() {
            return Err(ConfigError::NoNodes);
        }
        let builder = self.files.apply(QuorumBuilder::new().nodes(nodes))?;
        let set = |builder, written: Option<Written>, set: fn(QuorumBuilder, Duration) -> QuorumBuilder| {
            match written {
                Some(Written(duration)) => set(builder, duration),
                None => builder,
            }
        };
        let builder = set(builder, self.ttl, QuorumBuilder::ttl);
        let builder = set(builder, self.max_ttl, QuorumBuilder::max_ttl);
        let builder = set(builder, self.attempt_timeout, QuorumBuilder::attempt_timeout);
        let builder = set(builder, self.node_timeout, QuorumBuilder::node_timeout);
        let builder = set(builder, self.connect_timeout, QuorumBuilder::connect_timeout);
        let mut builder = set(builder, self.counter_ttl, QuorumBuilder::counter_ttl);
        if let Some(name) = self.name {
            builder = builder.name(name);
        }
        if let Some(label) = self.label {
            builder = builder.label(label);
        }
        if let Some(votes) = self.votes_needed {
            builder = builder.votes_needed(votes);
        }
        if let Some(drift) = self.drift {
            builder = builder.drift(drift);
        }
        Ok(match self.restart_guard {
            Some(guard) => builder.restart_guard(guard.into()),
            None => builder,
        })
    }
}

impl Guard {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "per-connection" => Ok(Self::PerConnection),
            "per-vote" => Ok(Self::PerVote),
            "off" => Ok(Self::Off),
            _ => Err("expected per-connection, per-vote or off".to_owned()),
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

/// Urls: a list, or one text as in the environment. Errors do not show them.
#[derive(Clone, Default)]
pub(super) struct Nodes(pub(super) Vec<String>);

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nodes").field(&self.0.len()).finish()
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Urls).map(Self)
    }
}

struct Urls;

impl<'de> Visitor<'de> for Urls {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("urls such as [\"redis://10.0.0.1\", \"redis://10.0.0.2\"]")
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(node_urls(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut urls = Vec::new();
        while let Some(url) = items.next_element()? {
            urls.push(url);
        }
        Ok(urls)
    }
}
