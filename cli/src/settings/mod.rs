//! Which quorum, with which settings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use redquorum::{Quorum, QuorumBuilder, RestartGuard, Tls, admin::node_urls};

use self::file::File;
use crate::{arguments::General, failure::Failure};

mod file;
mod security;

/// Nodes in the environment, as the library reads them.
const NODES: &str = "REDQUORUM_NODES";

/// The configuration file in the environment.
const CONFIG: &str = "REDQUORUM_CONFIG";

// Where the library has its defaults, they are the same.
const DEFAULT_TTL: Duration = Duration::from_secs(30);
const DEFAULT_MAX_TTL: Duration = Duration::from_secs(60);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// As long as the library gives a connection at least: one who waits no time for a quorum connects
/// all the same.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_DRIFT: f64 = 0.01;
const MOST_NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Which quorum, with which settings: what the command line says, or else the environment, or else
/// the file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    nodes: Vec<String>,
    file: File,
    tls: Tls,
    admits_new_nodes: bool,
}

impl Settings {
    /// Puts together what the arguments, the environment and the configuration file say.
    ///
    /// # Errors
    ///
    /// [`Exit::Config`](crate::exit::Exit::Config) if the file cannot be understood, or nobody
    /// names a node; [`Exit::Io`](crate::exit::Exit::Io) if it cannot be read.
    pub(crate) fn gather(
        general: &General,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        // A variable that is set to nothing says nothing.
        let variable = |name| environment(name).filter(|value| !value.is_empty());
        let path = general.config.clone().or_else(|| variable(CONFIG).map(PathBuf::from));
        let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let directory = path.as_deref().and_then(Path::parent).unwrap_or_else(|| Path::new(""));
        let tls = file.tls.read(directory)?;
        let nodes = if !general.nodes.is_empty() {
            general.nodes.clone()
        } else if let Some(nodes) = variable(NODES) {
            node_urls(&nodes.to_string_lossy())
        } else {
            file.nodes.clone()
        };
        if nodes.is_empty() {
            return Err(Failure::new(
                crate::exit::Exit::Config,
                format!(
                    "no nodes: give --node URL for each, set {NODES}, or name them in a file (--config FILE)"
                ),
            ));
        }
        Ok(Self { nodes, file, tls, admits_new_nodes: general.admit_new_nodes })
    }

    /// The quorum, to be connected, or to be made.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        let builder = self.file.apply(Quorum::builder().nodes(self.nodes.iter()).tls(self.tls.clone()));
        if self.admits_new_nodes { builder.admit_new_nodes() } else { builder }
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

    /// The ttl of locks that set none.
    pub(crate) fn ttl(&self) -> Duration {
        self.file.ttl.map_or(DEFAULT_TTL, |ttl| ttl.0)
    }

    /// The longest ttl that any lock may have.
    pub(crate) fn max_ttl(&self) -> Duration {
        self.file.max_ttl.map_or(DEFAULT_MAX_TTL, |max_ttl| max_ttl.0)
    }

    /// How long a node is waited for by locks that set no ttl.
    pub(crate) fn node_timeout(&self) -> Duration {
        let default = || (self.ttl() / 10).min(MOST_NODE_TIMEOUT);
        self.file.node_timeout.map_or_else(default, |timeout| timeout.0)
    }

    /// How long a node may take to be connected.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.file.connect_timeout.map_or(DEFAULT_CONNECT_TIMEOUT, |timeout| timeout.0)
    }

    /// The share of a ttl that clocks may disagree by.
    pub(crate) fn drift(&self) -> f64 {
        self.file.drift.unwrap_or(DEFAULT_DRIFT)
    }

    /// How many nodes have to grant.
    pub(crate) fn votes_needed(&self) -> usize {
        self.file.votes_needed.unwrap_or(self.nodes.len() / 2 + 1)
    }

    /// When a node is asked whether it may have forgotten votes.
    pub(crate) fn restart_guard(&self) -> RestartGuard {
        self.file.restart_guard.map(Into::into).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn gather(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let nodes = flags.iter().map(|node| (*node).to_owned()).collect();
        let general = General { nodes, ..General::default() };
        Settings::gather(&general, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(*value))
        })
    }

    #[test]
    fn flags_go_before_the_environment() {
        let settings = gather(&["redis://a"], &[(NODES, "redis://b")]).unwrap();
        assert_eq!(settings.nodes, ["redis://a"]);
    }

    #[test]
    fn the_environment_names_nodes_between_commas_or_blanks() {
        let nodes = " redis://a,redis+sentinel://b:1,c:2/mymaster\n redis://d, ";
        let settings = gather(&[], &[(NODES, nodes)]).unwrap();
        assert_eq!(settings.nodes, ["redis://a", "redis+sentinel://b:1,c:2/mymaster", "redis://d"]);
    }

    #[test]
    fn the_environment_goes_before_the_file_whose_other_settings_stay() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/redquorum.toml");
        let settings = gather(&[], &[(CONFIG, example)]).unwrap();
        assert_eq!(settings.nodes.len(), 3);
        let settings = gather(&[], &[(CONFIG, example), (NODES, "redis://b")]).unwrap();
        assert_eq!(settings.nodes, ["redis://b"]);
        assert_eq!(settings.file.name.as_deref(), Some("production"));
    }

    #[test]
    fn without_nodes_it_is_said_how_to_name_them() {
        for variables in [&[][..], &[(NODES, "")], &[(NODES, " , ")]] {
            let failure = gather(&[], variables).unwrap_err();
            assert_eq!(failure.exit, Exit::Config);
            assert!(failure.message.contains("--node URL"), "{}", failure.message);
        }
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        let builder = || Quorum::builder().nodes(["redis://a", "redis://b", "redis://c"]);
        let ours = gather(&["redis://a", "redis://b", "redis://c"], &[]).unwrap();
        let told = builder()
            .ttl(ours.ttl())
            .max_ttl(ours.max_ttl())
            .connect_timeout(ours.connect_timeout())
            .drift(ours.drift())
            .restart_guard(ours.restart_guard());
        // Whatever can be set is in what is shown of it.
        assert_eq!(format!("{told:?}"), format!("{:?}", builder()));
        let needed = builder().votes_needed(ours.votes_needed());
        assert_eq!(needed.fingerprint().unwrap(), builder().fingerprint().unwrap());
    }

    #[test]
    fn the_example_shows_defaults() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/redquorum.toml");
        let settings = gather(&[], &[(CONFIG, example)]).unwrap();
        let default = Quorum::builder().nodes(settings.nodes.iter()).name("production").votes_needed(2);
        assert_eq!(format!("{:?}", settings.builder()), format!("{default:?}"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let failure = gather(&["redis://a"], &[(CONFIG, "/nowhere/redquorum.toml")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Io);
        assert!(failure.message.starts_with("/nowhere/redquorum.toml: "), "{}", failure.message);
    }
}
