//! What TLS is made with, and what cannot be.

use rcgen::{CertificateParams, KeyPair};
use redquorum::{ConfigError, ConnectError, Quorum, Tls};

/// A certificate and its key, as PEM.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn certificates_of_cas_that_cannot_be_read_are_refused() {
    let (good, key) = certificate();
    let broken = good.replace("MII", "!!!");
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "nonsense", &key, &broken, empty, &format!("{good}{empty}"), &good[..good.len() / 2]] {
        let error = Tls::new().ca(pem).unwrap_err();
        assert!(matches!(error, ConfigError::CaCertificates { .. }), "{error}");
        assert!(error.to_string().contains("PEM with at least one"), "{error}");
    }
    let several = Tls::new().ca(&good).unwrap().ca(format!("{good}{}", certificate().0)).unwrap();
    assert_eq!(format!("{several:?}"), "Tls { cas: Some(3), has_certificate: false }");
}

#[test]
fn client_certificates_that_cannot_be_used_are_refused_without_showing_the_key() {
    let ((chain, key), (other, others)) = (certificate(), certificate());
    let in_one_line = key.replace('\n', "");
    let cases = [
        ("", &*key),
        (&key, &key),
        (&chain, ""),
        (&chain, &chain),
        (&chain, &in_one_line),
        (&chain, &others),
        (&other, &key),
    ];
    for (chain, key) in cases {
        let error = Tls::new().client_certificate(chain, key).unwrap_err();
        assert!(matches!(error, ConfigError::ClientCertificate { .. }), "{error}");
        let secret = in_one_line.get(40..60).unwrap();
        assert!(!format!("{error:?}{error}").contains(secret), "{error}");
    }
    let tls = Tls::new().client_certificate(&chain, &key).unwrap();
    assert_eq!(format!("{tls:?}"), "Tls { cas: None, has_certificate: true }");
}

#[tokio::test]
async fn a_secured_url_is_never_trusted_blindly() {
    for url in ["rediss://10.0.0.1/#insecure", "rediss://10.0.0.1#other"] {
        let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Config(ConfigError::Url { .. })), "{error}");
    }
}
