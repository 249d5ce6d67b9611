//! The PEM files of the settings.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::raw_settings::Environment;
#[cfg(feature = "__command")]
use super::raw_settings::differs;
use crate::{error::ConfigError, quorum::QuorumBuilder};

/// The paths of PEM files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    /// The CAs to trust, in place of the CAs of the system.
    pub(super) ca: Option<PathBuf>,
    /// The client's certificate and its key, which must be set together.
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Files {
    /// Returns the files that the environment names. A path need not be UTF-8.
    pub(super) fn of_environment(environment: &Environment<'_>) -> Self {
        Self {
            ca: environment.path("REDQUORUM_CA"),
            certificate: environment.path("REDQUORUM_CERT"),
            key: environment.path("REDQUORUM_KEY"),
        }
    }

    /// Returns the files. Relative paths are resolved in this directory.
    pub(super) fn resolved_in(self, directory: &Path) -> Self {
        let resolved = |path: Option<PathBuf>| path.map(|path| directory.join(path));
        Self { ca: resolved(self.ca), certificate: resolved(self.certificate), key: resolved(self.key) }
    }

    /// Returns these files, with the files of `other` in place of missing files.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            ca: self.ca.or(other.ca),
            certificate: self.certificate.or(other.certificate),
            key: self.key.or(other.key),
        }
    }

    /// Returns the variables whose paths differ from the paths in `file`. A variable is left out if `arguments` also
    /// name its file.
    #[cfg(feature = "__command")]
    pub(super) fn overridden_by(&self, file: &Self, arguments: &Self) -> impl Iterator<Item = &'static str> {
        let overridden = [
            ("REDQUORUM_CA", differs(self.ca.as_ref(), file.ca.as_ref(), arguments.ca.as_ref())),
            (
                "REDQUORUM_CERT",
                differs(self.certificate.as_ref(), file.certificate.as_ref(), arguments.certificate.as_ref()),
            ),
            ("REDQUORUM_KEY", differs(self.key.as_ref(), file.key.as_ref(), arguments.key.as_ref())),
        ];
        overridden.into_iter().filter_map(|(name, differs)| differs.then_some(name))
    }

    /// Checks the files, and passes their paths to the builder of a quorum. The clients of the quorum read the files
    /// again at every dial.
    ///
    /// # Errors
    ///
    /// [`ConfigError::File`] if a file cannot be read or does not have the expected content, [`ConfigError::Tls`]
    /// if a certificate is set without its key, or a key without its certificate.
    #[cfg(feature = "tls")]
    pub(super) fn apply(&self, builder: QuorumBuilder) -> Result<QuorumBuilder, ConfigError> {
        use crate::node::redis::{Pem, Tls};

        let file = |path: &PathBuf| Pem::file(path.clone());
        let mut tls = Tls::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca(file(ca));
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => tls = tls.client_certificate(file(certificate), file(key)),
            (None, None) => {}
            _ => {
                let reason = "a certificate needs its key, and a key its certificate: name both, as `certificate` and \
                              `key` in the table [tls] of the file, or by REDQUORUM_CERT and REDQUORUM_KEY";
                return Err(ConfigError::Tls { reason: reason.into() });
            }
        }
        tls.check()?;
        Ok(builder.tls(tls))
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn apply(&self, builder: QuorumBuilder) -> Result<QuorumBuilder, ConfigError> {
        match [&self.ca, &self.certificate, &self.key].into_iter().flatten().next() {
            Some(path) => {
                let reason = "the file is for TLS, which this program was built without: switch on redquorum's feature \
                              `tls`";
                Err(crate::error::file_error(path, None, reason))
            }
            None => Ok(builder),
        }
    }
}
