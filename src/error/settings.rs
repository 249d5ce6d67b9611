//! Settings that cannot be read.

use std::{path::PathBuf, sync::Arc};

use crate::error::ConfigError;

/// What is wrong with settings from a file or the environment: where it stands, what was given, and
/// what would be right. Urls, which may have passwords, are not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        reason: Arc<str>,
    },
    /// A file is read, and not understood.
    #[error("{}: line {line}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What is wrong there, and what would be right.
        reason: Arc<str>,
    },
    /// A variable of the environment is not understood.
    #[error("the environment variable {name}={given:?}: {reason}")]
    Variable {
        /// Which.
        name: &'static str,
        /// What it is set to.
        given: Arc<str>,
        /// What is wrong with it, and what would be right.
        reason: Arc<str>,
    },
    /// Nobody names a node.
    #[error(
        "no nodes: set REDQUORUM_NODES, or name them as `nodes` in a file, whose path may be in \
         REDQUORUM_CONFIG"
    )]
    NoNodes,
    /// A certificate of the client's without its key, or a key without its certificate.
    #[error(
        "a certificate needs its key, and a key its certificate: name both, as `certificate` and `key` in \
         the table [tls] of the file, or by REDQUORUM_CERT and REDQUORUM_KEY"
    )]
    HalfACertificate,
    /// A PEM file does not hold what it should.
    #[error("{}: {error}", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// Files for TLS are named, which this build has not.
    #[error(
        "{} is for TLS, which this program was built without: switch on redquorum's feature `tls`",
        path.display()
    )]
    NoTls {
        /// One of them.
        path: PathBuf,
    },
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no duration, {reason}: write it like 30s or 500ms")]
#[non_exhaustive]
pub struct InvalidDuration {
    /// What was given.
    pub given: Arc<str>,
    /// What is wrong with it.
    pub reason: Arc<str>,
}
