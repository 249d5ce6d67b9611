//! The configuration of TLS.

use std::{fmt, sync::Arc};

use rustls_native_certs::{CertificateResult, load_native_certs};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::error::ConfigError;

/// The certificates for TLS: the CAs to trust, and the certificate to show.
#[derive(Clone, Default)]
#[must_use = "it is for the builder"]
pub(crate) struct Tls {
    /// The trusted roots; `None` for those of the system.
    roots: Option<RootCertStore>,
    certificate: Option<Arc<CertifiedKey>>,
}

impl Tls {
    /// Returns the default: the certificates of the system, and none to show.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Trusts the CAs with these certificates, as PEM, in place of those of the system. A further call adds
    /// CAs.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Tls`] if the text has no certificate, or one that cannot be read.
    pub(crate) fn ca(mut self, pem: &[u8]) -> Result<Self, ConfigError> {
        let refused = |reason: String| {
            tls_error(format!(
                "the certificates of the CA cannot be used ({reason}): expected PEM with at least one"
            ))
        };
        let mut roots = self.roots.take().unwrap_or_else(RootCertStore::empty);
        for certificate in certificates(pem).map_err(refused)? {
            roots.add(certificate).map_err(|error| refused(error.to_string()))?;
        }
        Ok(Self { roots: Some(roots), ..self })
    }

    /// Shows a certificate to servers that request a certificate (default: none). `chain` has the certificate first, and
    /// `key` is its private key, both as PEM.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Tls`] if one of them cannot be read, or the key belongs to another certificate.
    pub(crate) fn client_certificate(mut self, chain: &[u8], key: &[u8]) -> Result<Self, ConfigError> {
        let refused = |reason: String| {
            tls_error(format!(
                "the client certificate cannot be used ({reason}): expected PEM of the certificate and its chain, and \
                 PEM of its own private key without a passphrase"
            ))
        };
        let chain = certificates(chain).map_err(refused)?;
        // The error of a PEM reader may quote a line of the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| refused("no private key can be read".to_owned()))?;
        let certified = CertifiedKey::from_der(chain, key, &provider());
        self.certificate = Some(Arc::new(certified.map_err(|error| refused(describe(&error)))?));
        Ok(self)
    }

    /// Returns the configuration of connections.
    pub(crate) fn config(&self) -> Result<ClientConfig, ConfigError> {
        let roots = self.roots.clone().map_or_else(system_roots, Ok)?;
        let versions = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = versions
            .map_err(|error| {
                tls_error(format!(
                    "the process's crypto provider cannot make TLS ({error}): install another one for rustls, or none \
                     for *ring*"
                ))
            })?
            .with_root_certificates(roots);
        Ok(match &self.certificate {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(certificate))))
            }
            None => builder.with_no_client_auth(),
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("cas", &self.roots.as_ref().map(RootCertStore::len))
            .field("has_certificate", &self.certificate.is_some())
            .finish()
    }
}

fn tls_error(reason: String) -> ConfigError {
    ConfigError::Tls { reason: reason.into() }
}

/// Returns the crypto provider that the process has chosen, so that a process can use a certified library. If
/// none was chosen, *ring* is used, without a panic.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| error.to_string())?;
    if read.is_empty() { Err("the text has no certificate".to_owned()) } else { Ok(read) }
}

/// The names that rustls gives to causes, each with its meaning. An error shows both, because people search for the
/// name.
const CAUSES: [(&str, &str); 6] = [
    (
        "UnsupportedCertVersion",
        "the certificate is X.509 version 1, and TLS needs version 3, which `openssl x509 -req` \
         makes with `-extfile`",
    ),
    ("CaUsedAsEndEntity", "the certificate is that of a CA, and a server needs one of its own that is none"),
    ("UnknownIssuer", "no CA that is trusted here vouches for the certificate"),
    ("InvalidContentType", "the port has no TLS"),
    (
        "tls handshake eof",
        "the server closed the connection during the handshake; likely causes: the port has no TLS, the server has too \
         many clients (maxclients), or a proxy has no server behind it",
    ),
    ("KeyMismatch", "the key is another certificate's"),
];

/// Describes a TLS error, also where rustls gives only the name of a cause.
pub(crate) fn describe(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    if let Some((cause, words)) = CAUSES.iter().find(|(cause, _)| text.contains(cause)) {
        return format!("{words} ({cause})");
    }
    // A cause without words is a name in two wrappers.
    match text.split_once("Other(OtherError(") {
        Some((before, rest)) => format!("{before}{}", rest.trim_end_matches(')')),
        None => text,
    }
}

/// Returns the roots of the system. A root that cannot be read is left out, and servers with certificates of that root
/// are not trusted.
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
            "the certificate is that of a CA, and a server needs one of its own that is none \
             (CaUsedAsEndEntity)"
        );
        assert_eq!(
            described("UnknownIssuer"),
            "no CA that is trusted here vouches for the certificate (UnknownIssuer)"
        );
        assert_eq!(
            described("Other(OtherError(PathLenConstraintViolated))"),
            "invalid peer certificate: PathLenConstraintViolated"
        );
        assert_eq!(described("certificate expired"), "invalid peer certificate: certificate expired");
    }
}
