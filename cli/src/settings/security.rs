//! What the configuration file says of TLS.

use std::path::{Path, PathBuf};

use redquorum::{Tls, error::ConfigError};
use serde::Deserialize;

use crate::{exit::Exit, failure::Failure};

/// Files with certificates, as PEM. A path that is not absolute begins where the configuration file
/// is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Security {
    /// Who is trusted in place of whom the system trusts.
    ca: Option<PathBuf>,
    /// What is shown to servers that ask for it, and its key: both or neither.
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Security {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`Exit::Io`] if one cannot be read, [`Exit::Config`] if it does not hold what it should.
    pub(super) fn read(&self, directory: &Path) -> Result<Tls, Failure> {
        let contents = |path: &PathBuf| {
            let path = directory.join(path);
            std::fs::read(&path).map_err(|error| Failure::file(&path, &error))
        };
        let mut tls = Tls::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca(contents(ca)?).map_err(in_file(directory.join(ca)))?;
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let (chain, secret) = (contents(certificate)?, contents(key)?);
                tls.client_certificate(chain, secret).map_err(in_file(directory.join(certificate)))
            }
            (None, None) => Ok(tls),
            _ => Err(Failure::new(
                Exit::Config,
                "tls: a `certificate` needs its `key`, and a `key` its `certificate`".to_owned(),
            )),
        }
    }
}

/// The failure that an error is which is about a file.
fn in_file(path: PathBuf) -> impl FnOnce(ConfigError) -> Failure {
    move |error| {
        let failure = Failure::from(error);
        Failure::new(failure.exit, format!("{}: {}", path.display(), failure.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Failure {
        let security: Security = toml::from_str(text).unwrap();
        security.read(Path::new("/nowhere")).unwrap_err()
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        for text in ["certificate = \"client.pem\"", "key = \"client.key\""] {
            let failure = read(text);
            assert_eq!(failure.exit, Exit::Config);
            assert!(failure.message.contains("needs its `key`"), "{}", failure.message);
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named_where_it_was_looked_for() {
        let failure = read("ca = \"ca.pem\"");
        assert_eq!(failure.exit, Exit::Io);
        assert!(failure.message.starts_with("/nowhere/ca.pem: "), "{}", failure.message);
    }
}
