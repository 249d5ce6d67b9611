//! Which quorum, with which settings.

use std::{ffi::OsString, path::Path, time::Duration};

use redquorum::{
    __command::{Arguments, EffectiveSettings, effective, load_from},
    QuorumBuilder,
    error::ConfigError,
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{arguments::General, exit::Exit, failure::Failure};

/// As long as the library gives a connection at least: one who waits no time for a quorum connects
/// all the same.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Which quorum, with which settings: what the command line says, or else the environment, or else
/// the file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    builder: QuorumBuilder,
    pub(crate) effective: EffectiveSettings,
}

impl Settings {
    /// Puts together what the arguments, the environment and the configuration file say.
    ///
    /// # Errors
    ///
    /// [`Exit::Config`] if something cannot be understood, or cannot work, or nobody names a node;
    /// [`Exit::Io`] if a file cannot be read.
    pub(crate) fn gather(
        general: &General,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        let General { nodes, config, admit_new_nodes, .. } = general;
        let arguments = Arguments::new().nodes(nodes.iter());
        let arguments = with(arguments, config.as_ref(), Arguments::file);
        let builder = load_from(&with_files(arguments, general), environment)?;
        let builder = if *admit_new_nodes { builder.admit_new_nodes() } else { builder };
        let builder = with(builder, general.label.as_ref(), |builder, label: String| builder.label(label));
        Ok(Self { effective: effective(&builder)?, builder })
    }

    /// What one file says, and nobody else but that the command line or the environment may name
    /// certificates for a file that says nothing of them. One that has a table `[tls]`, if only an
    /// empty one, is taken at its word: of two quorums, each may have certificates of its own.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather).
    pub(crate) fn of_file(path: &Path, general: &General) -> Result<Self, Failure> {
        let arguments = Arguments::new().file(path);
        let arguments = if has_tls(path) { arguments } else { with_files(arguments, general) };
        let builder = load_from(&arguments, |_| None).map_err(|error| match error {
            ConfigError::NoNodes => {
                Failure::new(Exit::Config, format!("{}: no nodes: name them as `nodes`", path.display()))
            }
            error => error.into(),
        })?;
        Ok(Self { effective: effective(&builder)?, builder })
    }

    /// The quorum, to be connected, or to be made.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        self.builder.clone()
    }

    /// The quorum, for a command that goes on for so long while no quorum can be asked, if it says
    /// so.
    pub(crate) fn builder_within(&self, quorum_timeout: Option<Duration>) -> QuorumBuilder {
        let builder = self.builder();
        match quorum_timeout {
            Some(timeout) => builder.connect_timeout(timeout.max(LEAST_CONNECT_TIMEOUT)),
            None => builder,
        }
    }
}

/// Whether a file has a table `[tls]`. Why it cannot be read is found out by who reads all of it.
fn has_tls(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct File {
        tls: Option<IgnoredAny>,
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    toml::from_str(&text).is_ok_and(|File { tls }| tls.is_some())
}

fn with_files(arguments: Arguments, General { ca, cert, key, .. }: &General) -> Arguments {
    let arguments = with(arguments, ca.as_ref(), Arguments::ca);
    let arguments = with(arguments, cert.as_ref(), Arguments::certificate);
    with(arguments, key.as_ref(), Arguments::key)
}

fn with<T, V: Clone>(settings: T, value: Option<&V>, set: fn(T, V) -> T) -> T {
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
    fn what_the_command_line_names_goes_before_the_environment() {
        let variables = [("REDQUORUM_NODES", "redis://b"), ("REDQUORUM_CONFIG", "/nowhere")];
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/redquorum.toml");
        let general = General { config: Some(example.into()), ..nodes("redis://a") };
        let variables = &[variables[0], variables[1], ("REDQUORUM_VOTES_NEEDED", "1")];
        let settings = gather(&general, variables).unwrap();
        let expected = Quorum::builder().nodes(["redis://a"]).name("production").votes_needed(1);
        assert_eq!(format!("{:?}", settings.builder()), format!("{expected:?}"));
        let named = General { ca: Some("/nowhere/ca.pem".into()), ..general };
        let failure = gather(&named, &[variables[2], ("REDQUORUM_CA", "/elsewhere/ca.pem")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Io);
        assert!(failure.message.starts_with("/nowhere/ca.pem: "), "{}", failure.message);
    }

    #[test]
    fn without_nodes_it_is_said_how_to_name_them() {
        let failure = gather(&General::default(), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        assert!(failure.message.contains("--node URL"), "{}", failure.message);
    }

    #[test]
    fn a_file_of_two_is_taken_at_its_word_about_certificates_if_it_says_anything_of_them() {
        let path = std::env::temp_dir().join(format!("redquorum-of-file-{}.toml", std::process::id()));
        let general = General { ca: Some("/nowhere/ca.pem".into()), ..General::default() };
        let of_file = |tls: &str| {
            std::fs::write(&path, format!("nodes = 'redis://a'\n{tls}")).unwrap();
            Settings::of_file(&path, &general).map(|_| ()).map_err(|failure| failure.message)
        };
        assert_eq!(of_file("[tls]\n"), Ok(()));
        for (tls, named) in [("", "/nowhere/ca.pem: "), ("[tls]\nca = '/own.pem'", "/own.pem: ")] {
            let message = of_file(tls).unwrap_err();
            assert!(message.starts_with(named), "{message}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_a_variable_says_that_no_option_reads_is_a_setting_too() {
        let settings = gather(&nodes("redis://a"), &[("REDQUORUM_MAX_TTL", "31s")]).unwrap();
        assert_eq!(settings.effective.max_ttl, Duration::from_secs(31));
        let failure = gather(&nodes("redis://a"), &[("REDQUORUM_MAX_TTL", "31")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        assert!(failure.message.contains("REDQUORUM_MAX_TTL=\"31\""), "{}", failure.message);
    }
}
