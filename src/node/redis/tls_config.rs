//! The configuration of TLS: the CAs to trust and the certificate to show, from PEM texts, PEM files or the system.

use std::{fmt, path::PathBuf, sync::Arc};

use rustls_native_certs::{CertificateResult, load_native_certs};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{
    error::{ConfigError, file_error},
    values::shown_name,
};

/// The certificates for TLS: the CAs to trust, and the certificate to show.
#[derive(Clone, Debug, Default)]
#[must_use = "TLS settings do nothing by themselves"]
pub(crate) struct Tls {
    /// The CAs to trust; empty for the CAs of the system.
    cas: Vec<Pem>,
    /// The chain of the certificate to show, and its key.
    certificate: Option<(Pem, Pem)>,
}

/// PEM as a text, or in a file that is read again at every dial.
#[derive(Clone)]
pub(crate) enum Pem {
    Text(Arc<[u8]>),
    File {
        /// The path as given, for messages.
        path: PathBuf,
        /// The absolute path, by which the file is found even if the process has changed its directory.
        absolute: PathBuf,
    },
}

/// The contents of all certificates and keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    cas: Vec<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
}

/// The parsed certificates.
struct Parsed {
    /// `None` for the CAs of the system.
    roots: Option<RootCertStore>,
    certificate: Option<Arc<CertifiedKey>>,
}

impl Pem {
    pub(crate) fn file(path: PathBuf) -> Self {
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Self::File { path, absolute }
    }

    fn read(&self) -> Result<Vec<u8>, ConfigError> {
        match self {
            Self::Text(text) => Ok(text.to_vec()),
            Self::File { absolute, .. } => {
                std::fs::read(absolute).map_err(|error| self.error(error.to_string()))
            }
        }
    }

    /// Returns an error about this PEM, with the path if the PEM is in a file.
    fn error(&self, reason: String) -> ConfigError {
        match self {
            Self::Text(_) => tls_error(reason),
            Self::File { path, .. } => file_error(path, None, reason),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{} bytes", text.len()),
            Self::File { path, .. } => write!(f, "{:?}", shown_name(&path.to_string_lossy())),
        }
    }
}

impl Tls {
    /// Returns the default: the CAs of the system, and no certificate to show.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Trusts the CAs with these certificates, in place of the CAs of the system. A further call adds CAs.
    pub(crate) fn ca(mut self, pem: Pem) -> Self {
        self.cas.push(pem);
        self
    }

    /// Shows a certificate to servers that request a certificate (default: none). `chain` begins with the
    /// certificate, and `key` is the private key of the certificate.
    pub(crate) fn client_certificate(mut self, chain: Pem, key: Pem) -> Self {
        self.certificate = Some((chain, key));
        self
    }

    /// Whether any certificate is in a file, which may change.
    pub(super) fn has_files(&self) -> bool {
        let certificate = self.certificate.iter().flat_map(|(chain, key)| [chain, key]);
        self.cas.iter().chain(certificate).any(|pem| matches!(pem, Pem::File { .. }))
    }

    /// Whether the CAs of the system are used.
    pub(super) fn trusts_system(&self) -> bool {
        self.cas.is_empty()
    }

    /// Reads the files, and checks the certificates and the key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Tls`] if a text has no certificate or cannot be parsed, or if the key belongs to another
    /// certificate; [`ConfigError::File`] if a file cannot be read or has one of these faults.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.parse(&self.read()?).map(drop)
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<Contents, ConfigError> {
        let cas = self.cas.iter().map(Pem::read).collect::<Result<_, _>>()?;
        let certificate = match &self.certificate {
            Some((chain, key)) => Some((chain.read()?, key.read()?)),
            None => None,
        };
        Ok(Contents { cas, certificate })
    }

    fn parse(&self, contents: &Contents) -> Result<Parsed, ConfigError> {
        let mut roots = (!self.cas.is_empty()).then(RootCertStore::empty);
        for (ca, pem) in self.cas.iter().zip(&contents.cas) {
            let refused = |reason: String| {
                ca.error(format!(
                    "the certificates of the CA cannot be used ({reason}): expected PEM with at least one"
                ))
            };
            let roots = roots.get_or_insert_with(RootCertStore::empty);
            for certificate in certificates(pem).map_err(refused)? {
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
        }
        let certificate = match (&self.certificate, &contents.certificate) {
            (Some((of_chain, _)), Some((chain, key))) => Some(certified(of_chain, chain, key)?),
            _ => None,
        };
        Ok(Parsed { roots, certificate })
    }

    /// Returns the configuration of connections with these contents.
    pub(super) fn config(&self, contents: &Contents) -> Result<ClientConfig, ConfigError> {
        let Parsed { roots, certificate } = self.parse(contents)?;
        let roots = roots.map_or_else(system_roots, Ok)?;
        let versions = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = versions
            .map_err(|error| {
                tls_error(format!(
                    "the process's crypto provider cannot make TLS ({error}): install another one for rustls, or none \
                     for *ring*"
                ))
            })?
            .with_root_certificates(roots);
        Ok(match certificate {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)))
            }
            None => builder.with_no_client_auth(),
        })
    }
}

/// Returns the certificate with its key. An error about the certificate or the key has the path of the chain.
fn certified(of_chain: &Pem, chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, ConfigError> {
    let refused = |reason: String| {
        of_chain.error(format!(
            "the client certificate cannot be used ({reason}): expected PEM of the certificate and its chain, and \
             PEM of its own private key without a passphrase"
        ))
    };
    let chain = certificates(chain).map_err(refused)?;
    // The error of the PEM reader is not shown, because it may quote a line of the key.
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| refused("no private key can be read".to_owned()))?;
    let certified = CertifiedKey::from_der(chain, key, &provider());
    certified.map(Arc::new).map_err(|error| refused(describe(&error)))
}

fn tls_error(reason: String) -> ConfigError {
    ConfigError::Tls { reason: reason.into() }
}

/// Returns the crypto provider that the process has installed, so that a process can use a certified library. If the
/// process has installed no provider, returns *ring*.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| error.to_string())?;
    if read.is_empty() { Err("the text has no certificate".to_owned()) } else { Ok(read) }
}

/// The meaning of a close without a reason during a handshake. The close may be a reset, because the server has not read
/// the first message of the handshake.
const CLOSED_IN_HANDSHAKE: &str = "the server closed the connection during the handshake; likely causes: the port has \
                                   no TLS, the server has too many clients (maxclients) or does not admit this \
                                   address, or a proxy has no server behind it";

/// The names that rustls or the system give to causes, each with its meaning. An error shows the name as well, because users search
/// for the name.
const CAUSES: [(&str, &str); 8] = [
    (
        "UnsupportedCertVersion",
        "the certificate is X.509 version 1, and TLS needs version 3, which `openssl x509 -req` \
         makes with `-extfile`",
    ),
    (
        "CaUsedAsEndEntity",
        "the server presents the certificate of a CA as its own: give the server a certificate that is \
         no CA, signed by the CA",
    ),
    ("UnknownIssuer", "no CA that this client trusts has signed the certificate"),
    ("InvalidContentType", "the port has no TLS"),
    ("tls handshake eof", CLOSED_IN_HANDSHAKE),
    ("Connection reset by peer", CLOSED_IN_HANDSHAKE),
    ("Broken pipe", CLOSED_IN_HANDSHAKE),
    ("KeyMismatch", "the key belongs to another certificate"),
];

/// Returns the text of a TLS error. If rustls shows only the name of the cause, the text has the meaning in [`CAUSES`].
pub(crate) fn describe(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    if let Some((cause, meaning)) = CAUSES.iter().find(|(cause, _)| text.contains(cause)) {
        return format!("{meaning} ({cause})");
    }
    // The name of a cause that is not in `CAUSES` is shown without its two wrappers.
    match text.split_once("Other(OtherError(") {
        Some((before, rest)) => format!("{before}{}", rest.trim_end_matches(')')),
        None => text,
    }
}

/// Returns the CAs of the system. A CA that cannot be read is left out, so servers with certificates of that CA are not
/// trusted.
fn system_roots() -> Result<RootCertStore, ConfigError> {
    let CertificateResult { certs, errors, .. } = load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(certs);
    if added == 0 {
        let reason = errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        return Err(tls_error(format!(
            "this system has no certificates of CAs to trust ({reason}): install them, or give those of your own by \
             `ca_certificates`"
        )));
    }
    if ignored > 0 || !errors.is_empty() {
        tracing::warn!(ignored, ?errors, "some of the system's CAs cannot be read and are not trusted");
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tls_error_is_described_or_shown_without_its_wrapping_text() {
        let described = |cause: &str| describe(&format!("invalid peer certificate: {cause}"));
        assert_eq!(
            described("Other(OtherError(CaUsedAsEndEntity))"),
            "the server presents the certificate of a CA as its own: give the server a certificate that is no CA, \
             signed by the CA (CaUsedAsEndEntity)"
        );
        assert_eq!(
            described("UnknownIssuer"),
            "no CA that this client trusts has signed the certificate (UnknownIssuer)"
        );
        assert_eq!(
            described("Other(OtherError(PathLenConstraintViolated))"),
            "invalid peer certificate: PathLenConstraintViolated"
        );
        assert_eq!(described("certificate expired"), "invalid peer certificate: certificate expired");
    }
}
