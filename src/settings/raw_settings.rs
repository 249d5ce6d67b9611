//! The settings of one source: a file, the environment, or the arguments of a program.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use super::{
    duration::{DurationText, parse_duration},
    files::Files,
};
use crate::{
    error::{ConfigError, file_error},
    node::{
        RestartGuard,
        redis::{NODES_VARIABLE, UrlSource, node_urls, node_urls_of_variable},
    },
    quorum::QuorumBuilder,
    values::shown_value,
};

/// Declares [`RawSettings`]. Each line has the key of a setting in a file, its type, variable and setter.
macro_rules! raw_settings {
    ($($key:ident: $type:ty, $variable:literal, $set:path;)*) => {
        /// The settings of one source. If a setting is `None`, the next source decides.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct RawSettings {
            #[serde(default)]
            pub(super) nodes: Nodes,
            #[serde(default, rename = "tls")]
            pub(super) files: Files,
            $(#[serde(default, deserialize_with = "optional_from_file")]
            pub(super) $key: Option<$type>,)*
        }

        /// The keys of the settings in a file, except nodes and the files for TLS.
        const KEYS: &[&str] = &[$(stringify!($key)),*];

        impl RawSettings {
            /// Returns the settings of the environment.
            ///
            /// # Errors
            ///
            /// If a variable cannot be parsed.
            pub(super) fn of_environment(environment: &Environment<'_>) -> Result<Self, ConfigError> {
                let files = Files::of_environment(environment);
                Ok(Self { nodes: environment.nodes()?, files, $($key: environment.read($variable)?,)* })
            }

            /// Returns these settings, with the settings of `other` in place of missing settings.
            pub(super) fn or(self, other: Self) -> Self {
                let files = self.files.or(other.files);
                Self { nodes: self.nodes.or(other.nodes), files, $($key: self.$key.or(other.$key),)* }
            }

            /// Returns the variables whose values differ from the settings of `file`. A variable is left out if
            /// `arguments` also have its setting.
            #[cfg(feature = "__command")]
            pub(super) fn overridden_by(&self, file: &Self, arguments: &Self) -> Vec<&'static str> {
                let nodes = differs(self.nodes.given(), file.nodes.given(), arguments.nodes.given());
                let nodes = nodes.then_some(NODES_VARIABLE);
                let files = self.files.overridden_by(&file.files, &arguments.files);
                let others = [$(differs(self.$key.as_ref(), file.$key.as_ref(), arguments.$key.as_ref()).then_some($variable)),*];
                nodes.into_iter().chain(others.into_iter().flatten()).chain(files).collect()
            }

            /// Returns the variables of [`SHARED`] that apply because neither `file` nor `arguments` have their settings.
            #[cfg(feature = "__command")]
            pub(super) fn shared_beside(&self, file: &Self, arguments: &Self) -> Vec<&'static str> {
                let nodes = (!self.nodes.is_empty() && file.nodes.is_empty() && arguments.nodes.is_empty())
                    .then_some(NODES_VARIABLE);
                let others = [$((self.$key.is_some() && file.$key.is_none() && arguments.$key.is_none()).then_some($variable)),*];
                let applied = nodes.into_iter().chain(others.into_iter().flatten());
                applied.filter(|variable| SHARED.contains(variable)).collect()
            }

            /// Returns the variable of a setting if this source has the setting.
            #[cfg(feature = "__command")]
            pub(super) fn variable_if_given(&self, setting: &str) -> Option<&'static str> {
                match setting {
                    "nodes" => (!self.nodes.is_empty()).then_some(NODES_VARIABLE),
                    $(stringify!($key) => self.$key.is_some().then_some($variable),)*
                    _ => None,
                }
            }

            /// Returns the builder of a quorum with these settings. `file` is the source that reads the urls again, if
            /// the urls are from a file.
            ///
            /// # Errors
            ///
            /// If no node is named, or if the files for TLS cannot be used.
            pub(super) fn builder(self, file: Option<UrlSource>) -> Result<QuorumBuilder, ConfigError> {
                let Nodes(nodes) = self.nodes;
                if nodes.is_empty() {
                    return Err(ConfigError::NoNodes);
                }
                let builder = self.files.apply(QuorumBuilder::new().nodes_of(nodes, file))?;
                $(let builder = match self.$key {
                    Some(value) => $set(builder, value),
                    None => builder,
                };)*
                Ok(builder)
            }
        }
    };
}

raw_settings! {
    name: String, "REDQUORUM_NAME", QuorumBuilder::name;
    label: String, "REDQUORUM_LABEL", QuorumBuilder::label;
    votes_needed: usize, "REDQUORUM_VOTES_NEEDED", QuorumBuilder::votes_needed;
    ttl: Duration, "REDQUORUM_TTL", QuorumBuilder::ttl;
    max_ttl: Duration, "REDQUORUM_MAX_TTL", QuorumBuilder::max_ttl;
    attempt_timeout: Duration, "REDQUORUM_ATTEMPT_TIMEOUT", QuorumBuilder::attempt_timeout;
    node_timeout: Duration, "REDQUORUM_NODE_TIMEOUT", QuorumBuilder::node_timeout;
    connect_timeout: Duration, "REDQUORUM_CONNECT_TIMEOUT", QuorumBuilder::connect_timeout;
    counter_ttl: Duration, "REDQUORUM_COUNTER_TTL", QuorumBuilder::counter_ttl;
    drift: f64, "REDQUORUM_DRIFT", QuorumBuilder::drift;
    restart_guard: RestartGuard, "REDQUORUM_RESTART_GUARD", QuorumBuilder::restart_guard;
}

/// The variables of the settings that all clients of a quorum share.
#[cfg(feature = "__command")]
const SHARED: [&str; 6] = [
    NODES_VARIABLE,
    "REDQUORUM_NAME",
    "REDQUORUM_VOTES_NEEDED",
    "REDQUORUM_MAX_TTL",
    "REDQUORUM_ATTEMPT_TIMEOUT",
    "REDQUORUM_DRIFT",
];

impl RawSettings {
    /// Returns the settings of a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or parsed.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| file_error(path, None, error.to_string()))?;
        let mut settings =
            Self::parse(&text).map_err(|(line, reason)| file_error(path, Some(line), reason))?;
        settings.files = settings.files.resolved_in(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(settings)
    }

    /// Parses a file. The error has the number of the line, but not the text of the line, which may hold a password.
    fn parse(text: &str) -> Result<Self, (usize, Arc<str>)> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            (before.matches('\n').count() + 1, without_values(error.message(), key_before(before)).into())
        })
    }
}

/// Returns the key of the value that follows `before` in its line, if the key is a setting.
fn key_before(before: &str) -> Option<&str> {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    ["nodes", "ca", "certificate", "key"].iter().chain(KEYS).find(|known| **known == key).copied()
}

/// Returns the words for a type of serde.
fn shown_type(expected: &str) -> &str {
    match expected {
        "usize" => "a whole number, such as 2",
        "f64" => "a number, such as 0.01",
        "a string" => "a text in quotes",
        "path string" => "a path in quotes",
        other => other,
    }
}

/// Returns the message of an error in a file, without values and unknown keys of the file. A value or key may be a
/// misplaced password. `key` is the setting with the wrong value. The messages of serde quote a value between a prefix
/// and the expected type.
fn without_values(message: &str, key: Option<&str>) -> String {
    let expected = || message.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    let quotes_value = ["invalid type: ", "invalid value: ", "invalid length "];
    if quotes_value.iter().any(|prefix| message.starts_with(prefix)) {
        let of_key = key.map(|key| format!("{key} has ")).unwrap_or_default();
        return format!("{of_key}a value of a wrong kind, expected {}", shown_type(expected()));
    }
    let key = message.split('`').nth(1).unwrap_or_default();
    if message.starts_with("unknown field `") && shown_value(key) != key {
        return format!("unknown field, expected {}", expected());
    }
    if message.starts_with("duplicate ") && shown_value(key) != key {
        return "a key is given twice".to_owned();
    }
    message.to_owned()
}

/// The variables of a process or a test. An empty variable counts as unset.
pub(super) struct Environment<'a>(pub(super) &'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    fn get(&self, name: &str) -> Option<OsString> {
        self.0(name).filter(|value| !value.is_empty())
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    fn nodes(&self) -> Result<Nodes, ConfigError> {
        node_urls_of_variable(&self.get(NODES_VARIABLE).unwrap_or_default()).map(Nodes)
    }

    fn read<T: Setting>(&self, name: &'static str) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let read = value.to_str().ok_or_else(|| "expected UTF-8".to_owned()).and_then(T::from_variable);
        read.map(Some).map_err(|reason| ConfigError::Variable {
            name,
            given: shown_value(&value.to_string_lossy()).into(),
            reason: reason.into(),
        })
    }
}

/// A type of settings, with its parsers for variables and files.
trait Setting: Sized {
    /// Parses the value of a variable. The error names the accepted values.
    fn from_variable(text: &str) -> Result<Self, String>;

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error>;
}

/// Whether a variable and a file have different values, and the arguments have none.
#[cfg(feature = "__command")]
pub(super) fn differs<T: PartialEq + ?Sized>(
    variable: Option<&T>,
    file: Option<&T>,
    argument: Option<&T>,
) -> bool {
    variable.is_some() && file.is_some() && variable != file && argument.is_none()
}

/// Parses the value of a setting in a file.
fn optional_from_file<'de, D: Deserializer<'de>, T: Setting>(value: D) -> Result<Option<T>, D::Error> {
    T::from_file(value).map(Some)
}

impl Setting for String {
    fn from_variable(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }
}

impl Setting for usize {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected a number of nodes, such as 3".to_owned())
    }

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }
}

impl Setting for f64 {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected a share of time, such as 0.01".to_owned())
    }

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }
}

impl Setting for Duration {
    fn from_variable(text: &str) -> Result<Self, String> {
        parse_duration(text)
    }

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(DurationText)
    }
}

impl Setting for RestartGuard {
    fn from_variable(text: &str) -> Result<Self, String> {
        match text {
            "per-connection" => Ok(Self::PerConnection),
            "per-vote" => Ok(Self::PerVote),
            "off" => Ok(Self::Off),
            _ => Err(format!(
                "unknown restart guard {:?}, expected per-connection, per-vote or off",
                shown_value(text)
            )),
        }
    }

    fn from_file<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::from_variable(&String::deserialize(value)?).map_err(D::Error::custom)
    }
}

/// The urls of nodes: a list, or one text as in the environment. `Debug` does not show the urls, because they
/// may hold passwords.
#[derive(Clone, Default)]
pub(super) struct Nodes(pub(super) Vec<String>);

impl Nodes {
    /// Returns the urls; `None` if the list is empty.
    #[cfg(feature = "__command")]
    fn given(&self) -> Option<&[String]> {
        (!self.0.is_empty()).then_some(&self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn or(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nodes").field(&self.0.len()).finish()
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeUrls).map(Self)
    }
}

/// The visitor of the urls in a file.
struct NodeUrls;

impl<'de> Visitor<'de> for NodeUrls {
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
