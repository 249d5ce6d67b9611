//! The settings of a quorum, merged from the command line, the environment and a file.

use std::{ffi::OsString, path::Path, time::Duration};

use redquorum::{
    __command::{
        Arguments, EffectiveSettings, effective, load_from, overridden_variables, parse_node_urls,
        shared_variables_beside_file, source_of,
    },
    QuorumBuilder,
    error::{ConfigError, Error},
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{arguments::General, exit::Exit, failure::Failure, name, node_remedy};

/// The smallest connect timeout of a command. A shorter quorum timeout or wait, such as 0, would leave no time to
/// connect.
const MIN_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The settings of a quorum.
///
/// The command line has precedence, followed by a file that the command line names, the environment, and a file that
/// the environment names.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    builder: QuorumBuilder,
    pub(crate) effective: EffectiveSettings,
    /// A notice about the environment variables that the file of `--config` overrides.
    pub(crate) notice: Option<String>,
    /// The evidence for the error that nodes belong to another quorum: the environment variables of settings that the
    /// file of `--config` lacks.
    variables_beside_file: Option<String>,
}

impl Settings {
    /// Merges the arguments, the environment and the configuration file.
    ///
    /// # Errors
    ///
    /// [`Exit::Config`] if a setting is invalid, or no node is named; [`Exit::Usage`] if an option names several nodes;
    /// [`Exit::Io`] if a file cannot be read.
    pub(crate) fn gather(
        general: &General,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        let General { nodes, config, admit_new_nodes, .. } = general;
        if nodes.iter().any(|text| parse_node_urls(text).len() > 1) {
            return Err(Failure::usage(
                "--node has several urls, or a blank: give --node once for each node, and write no blank between the \
                 servers of one cluster or the Sentinels of one node",
            ));
        }
        let arguments = Arguments::new().nodes(nodes.iter());
        let arguments = set_if_given(arguments, config.as_ref(), Arguments::file_before_environment);
        let arguments = with_certificates(arguments, general);
        let builder = load_from(&arguments, &environment)?;
        let overridden = overridden_variables(&arguments, &environment)?;
        let notice = config.as_ref().filter(|_| !overridden.is_empty());
        let notice = notice
            .map(|file| format!("--config {} overrides {}", name::shown_path(file), listed(&overridden)));
        let beside = shared_variables_beside_file(&arguments, &environment)?;
        let variables_beside_file = config.as_ref().filter(|_| !beside.is_empty()).map(|file| {
            format!("--config {} lacks the settings of {}", name::shown_path(file), listed(&beside))
        });
        let builder = if *admit_new_nodes { builder.admit_new_nodes() } else { builder };
        let builder =
            set_if_given(builder, general.label.as_ref(), |builder, label: String| builder.label(label));
        let effective = effective(&builder).map_err(|error| {
            let is_option = |setting: &str| setting == "label" && general.label.is_some();
            let source = |setting: &str| match is_option(setting) {
                true => Some("the arguments".to_owned()),
                false => source_of(setting, &arguments, &environment).ok(),
            };
            with_sources(error, source)
        })?;
        Ok(Self { effective, builder, notice, variables_beside_file })
    }

    /// Reads one file, without the nodes and settings of the command line and the environment.
    ///
    /// Certificates are an exception: `--ca`, `--cert` and `--key` (or their variables) apply to a file without a table
    /// `[tls]`. If a file has this table, even an empty table, the options do not apply, because each of two quorums
    /// may have its own certificates.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather).
    pub(crate) fn of_file(path: &Path, general: &General) -> Result<Self, Failure> {
        let arguments = Arguments::new().file(path);
        let arguments = if has_tls(path) { arguments } else { with_certificates(arguments, general) };
        let builder = load_from(&arguments, |_| None).map_err(|error| match error {
            ConfigError::NoNodes => Failure::new(
                Exit::Config,
                format!("{}: no nodes: list their URLs as `nodes`", name::shown_path(path)),
            ),
            error => error.into(),
        })?;
        Ok(Self { effective: effective(&builder)?, builder, notice: None, variables_beside_file: None })
    }

    /// Returns the failure of a connect, with the remedies as the last evidence. If nodes belong to another quorum, the evidence names the environment
    /// variables that apply beside the file of `--config`.
    pub(crate) fn connect_failure(&self, error: Error) -> Failure {
        let is_other_quorum = matches!(error, Error::Config(ConfigError::WrongQuorum { .. }));
        let remedies = match &error {
            Error::NoQuorum(error) => node_remedy::for_failures(error.node_replies()),
            _ => Vec::new(),
        };
        let mut failure = Failure::from(error);
        failure.evidence.extend((!remedies.is_empty()).then(|| remedies.join(", ")));
        failure.evidence.extend(self.variables_beside_file.clone().filter(|_| is_other_quorum));
        failure
    }

    /// Returns a builder with these settings.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        self.builder.clone()
    }

    /// Returns a builder that connects within the quorum timeout, if one is given.
    pub(crate) fn builder_within(&self, quorum_timeout: Option<Duration>) -> QuorumBuilder {
        let builder = self.builder();
        match quorum_timeout {
            Some(timeout) => builder.connect_timeout(timeout.max(MIN_CONNECT_TIMEOUT)),
            None => builder,
        }
    }
}

/// Returns the failure of a setting that is out of its range. The evidence names the source of the setting, and of each
/// setting that the range depends on.
fn with_sources(error: ConfigError, source: impl Fn(&str) -> Option<String>) -> Failure {
    let settings = match &error {
        ConfigError::OutOfRange { setting, expected, .. } => settings_in(setting, expected),
        _ => Vec::new(),
    };
    let evidence =
        settings.into_iter().filter_map(|setting| Some(format!("{setting}: {}", source(setting)?)));
    Failure { evidence: evidence.collect(), ..Failure::from(error) }
}

/// Returns a setting, and the settings that a text names as words, each once.
fn settings_in(setting: &'static str, text: &str) -> Vec<&'static str> {
    const LIMITS: [&str; 4] = ["ttl", "max_ttl", "nodes", "attempt_timeout"];
    let words: Vec<&str> = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').collect();
    let named = LIMITS.into_iter().filter(|limit| *limit != setting && words.contains(limit));
    std::iter::once(setting).chain(named).collect()
}

/// Returns names in one text: `A`, `A and B`, `A, B and C`.
fn listed(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        names => names.concat(),
    }
}

/// Whether a file has a table `[tls]`. Returns false for an unreadable or invalid file, because the library reads the
/// file afterwards and reports the error.
fn has_tls(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct File {
        tls: Option<IgnoredAny>,
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    toml::from_str(&text).is_ok_and(|File { tls }| tls.is_some())
}

fn with_certificates(arguments: Arguments, General { ca, cert, key, .. }: &General) -> Arguments {
    let arguments = set_if_given(arguments, ca.as_ref(), Arguments::ca);
    let arguments = set_if_given(arguments, cert.as_ref(), Arguments::certificate);
    set_if_given(arguments, key.as_ref(), Arguments::key)
}

fn set_if_given<T, V: Clone>(settings: T, value: Option<&V>, set: fn(T, V) -> T) -> T {
    match value {
        Some(value) => set(settings, value.clone()),
        None => settings,
    }
}

#[cfg(test)]
mod tests {
    use redquorum::Quorum;

    use super::*;

    fn gather(general: &General, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        Settings::gather(general, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(*value))
        })
    }

    fn nodes(node: &str) -> General {
        General { nodes: vec![node.to_owned()], ..General::default() }
    }

    #[test]
    fn options_and_a_file_they_name_override_the_environment() {
        let variables = [("REDQUORUM_NODES", "redis://b"), ("REDQUORUM_CONFIG", "/nowhere")];
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/redquorum.toml");
        let urls = ["redis://a", "redis://b", "redis://c"];
        let nodes = urls.map(str::to_owned).to_vec();
        let general = General { config: Some(example.into()), nodes, ..General::default() };
        let variables = &[variables[0], variables[1], ("REDQUORUM_VOTES_NEEDED", "3")];
        let settings = gather(&general, variables).unwrap();
        let expected = Quorum::builder().nodes(urls).name("production").votes_needed(2);
        assert_eq!(format!("{:?}", settings.builder()), format!("{expected:?}"));
        let named = General { ca: Some("/nowhere/ca.pem".into()), ..general };
        let failure = gather(&named, &[variables[2], ("REDQUORUM_CA", "/elsewhere/ca.pem")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Io);
        assert!(failure.message.starts_with("/nowhere/ca.pem: "), "{}", failure.message);
    }

    #[test]
    fn the_notice_lists_the_overridden_variables() {
        for (names, expected) in
            [(&["A"][..], "A"), (&["A", "B"], "A and B"), (&["A", "B", "C"], "A, B and C")]
        {
            assert_eq!(listed(names), expected);
        }
    }

    #[test]
    fn an_error_without_nodes_names_the_ways_to_give_nodes() {
        let failure = gather(&General::default(), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        assert!(failure.message.contains("--node URL"), "{}", failure.message);
    }

    #[test]
    fn an_option_with_several_nodes_is_refused() {
        for text in ["redis://a,redis://b", "redis://a redis://b"] {
            let failure = gather(&nodes(text), &[]).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains("give --node once for each node"), "{}", failure.message);
        }
        let failure = gather(&nodes("redis+cluster://a:7000, b:7001/name"), &[]).unwrap_err();
        let advice = "write no blank between the servers of one cluster";
        assert!(failure.exit == Exit::Usage && failure.message.contains(advice), "{}", failure.message);
        let sentinels = "redis+sentinel://a,b/master";
        assert!(gather(&nodes(sentinels), &[]).is_ok());
    }

    #[test]
    fn the_error_of_a_range_names_the_source_of_each_value() {
        let path = std::env::temp_dir().join(format!("redquorum-sources-{}.toml", std::process::id()));
        let general = General { config: Some(path.clone()), ..nodes("redis://a") };
        let file = path.display();
        for (text, variables, expected) in [
            (
                "",
                &[("REDQUORUM_MAX_TTL", "10s")][..],
                ["ttl: the default".to_owned(), "max_ttl: REDQUORUM_MAX_TTL".to_owned()],
            ),
            (
                "ttl = '20s'",
                &[("REDQUORUM_MAX_TTL", "10s"), ("REDQUORUM_TTL", "5s")],
                [format!("ttl: {file}"), "max_ttl: REDQUORUM_MAX_TTL".to_owned()],
            ),
            (
                "max_ttl = '10s'",
                &[("REDQUORUM_TTL", "20s")],
                ["ttl: REDQUORUM_TTL".to_owned(), format!("max_ttl: {file}")],
            ),
            ("votes_needed = 7", &[], [format!("votes_needed: {file}"), "nodes: the arguments".to_owned()]),
        ] {
            std::fs::write(&path, text).unwrap();
            let failure = gather(&general, variables).unwrap_err();
            assert_eq!(
                (failure.exit, failure.evidence),
                (Exit::Config, expected.to_vec()),
                "{}",
                failure.message
            );
        }
        std::fs::write(&path, "label = 'web-1'").unwrap();
        let failure = gather(&General { label: Some(String::new()), ..general }, &[]).unwrap_err();
        assert_eq!(failure.evidence, ["label: the arguments"], "{}", failure.message);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_table_tls_in_a_file_overrides_the_certificates_of_arguments() {
        let path = std::env::temp_dir().join(format!("redquorum-of-file-{}.toml", std::process::id()));
        let general = General { ca: Some("/nowhere/ca.pem".into()), ..General::default() };
        let settings_of_file = |tls: &str| {
            std::fs::write(&path, format!("nodes = 'redis://a'\n{tls}")).unwrap();
            Settings::of_file(&path, &general).map(|_| ()).map_err(|failure| failure.message)
        };
        assert_eq!(settings_of_file("[tls]\n"), Ok(()));
        for (tls, named) in [("", "/nowhere/ca.pem: "), ("[tls]\nca = '/own.pem'", "/own.pem: ")] {
            let message = settings_of_file(tls).unwrap_err();
            assert!(message.starts_with(named), "{message}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_variable_without_an_option_is_a_setting() {
        let settings = gather(&nodes("redis://a"), &[("REDQUORUM_MAX_TTL", "31s")]).unwrap();
        assert_eq!(settings.effective.max_ttl, Duration::from_secs(31));
        let failure = gather(&nodes("redis://a"), &[("REDQUORUM_MAX_TTL", "31")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        assert!(failure.message.contains("REDQUORUM_MAX_TTL=\"31\""), "{}", failure.message);
    }
}
