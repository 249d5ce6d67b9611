//! Certificates in settings. Unusable certificates and keys are refused before a dial, and errors show no key.

use rcgen::{CertificateParams, KeyPair};
use redquorum::{Error, Quorum, QuorumBuilder, error::ConfigError};

/// Returns the error of certificates that cannot be used. No server runs at the address.
async fn refused(builder: QuorumBuilder) -> ConfigError {
    match builder.nodes(["rediss://10.0.0.1"]).connect().await {
        Err(Error::Config(error @ ConfigError::Tls { .. })) => error,
        other => panic!("{other:?}"),
    }
}

/// A certificate and its key, as PEM.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[tokio::test]
async fn unreadable_ca_certificates_are_refused() {
    let (good, key) = certificate();
    let broken = good.replace("MII", "!!!");
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "nonsense", &key, &broken, empty, &format!("{good}{empty}"), &good[..good.len() / 2]] {
        for builder in [
            Quorum::builder().ca_certificates(pem),
            Quorum::builder().ca_certificates(&*good).ca_certificates(pem),
            // A later valid certificate does not hide the error.
            Quorum::builder().ca_certificates(pem).ca_certificates(&*good),
        ] {
            let error = refused(builder).await.to_string();
            assert!(error.starts_with("tls: the certificates of the CA cannot be used ("), "{error}");
            assert!(error.ends_with("): expected PEM with at least one"), "{error}");
        }
    }
    let several = Quorum::builder().ca_certificates(&*good);
    let two = format!("{good}{}", certificate().0);
    let shown = format!("{:?}", several.ca_certificates(&*two));
    let sizes = format!("Tls {{ cas: [{} bytes, {} bytes], certificate: None }}", good.len(), two.len());
    assert!(shown.contains(&sizes), "{shown}");
}

#[tokio::test]
async fn unusable_client_certificates_are_refused_without_showing_the_key() {
    let ((chain, key), (other_chain, other_key)) = (certificate(), certificate());
    let in_one_line = key.replace('\n', "");
    let cases = [
        ("", &*key),
        (&key, &key),
        (&chain, ""),
        (&chain, &chain),
        (&chain, &in_one_line),
        (&chain, &other_key),
        (&other_chain, &key),
    ];
    for (chain, key) in cases {
        let error = refused(Quorum::builder().client_certificate(chain, key)).await;
        let text = error.to_string();
        assert!(text.starts_with("tls: the client certificate cannot be used ("), "{text}");
        let secret = in_one_line.get(40..60).unwrap();
        assert!(!format!("{error:?}{error}").contains(secret), "{error}");
    }
    let shown = format!("{:?}", Quorum::builder().client_certificate(&*chain, &*key));
    let sizes = format!("Tls {{ cas: [], certificate: Some(({} bytes, {} bytes)) }}", chain.len(), key.len());
    assert!(shown.contains(&sizes), "{shown}");
}

/// A certificate of X.509 version 1, which rcgen cannot generate, and its key.
const OLD: (&str, &str) = (
    "-----BEGIN CERTIFICATE-----
MIIBIzCBywIUQfzev4ewEE0G4ZAT3F5hDB7Pw0kwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjE5NDMzNVoYDzIxMjYxMDI5MTk0MzM1
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAREaddTriT65CyX89wwDXbCrALoF4u9+3DhrpHY6tF89+SXS80iLbf5uBPIP89y
ief6LE1+q4+BgFHWd2GHjr24MAoGCCqGSM49BAMCA0cAMEQCIAdCQIcxPuT/CzqM
AMjpTZkX0KaQgnTU6TXnhdGtl0vWAiAqHrhV1+ucXTJm4UJeYhfhJotQBEjI46xv
JSZyuu3Rew==
-----END CERTIFICATE-----
",
    "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8c7mIWeJMnYPLArC
O7L3Mr7dHLlBzcFClAbfCIFDDFChRANCAAREaddTriT65CyX89wwDXbCrALoF4u9
+3DhrpHY6tF89+SXS80iLbf5uBPIP89yief6LE1+q4+BgFHWd2GHjr24
-----END PRIVATE KEY-----
",
);

#[tokio::test]
async fn a_certificate_of_x509_version_1_is_refused_with_the_remedy() {
    let error = refused(Quorum::builder().client_certificate(OLD.0, OLD.1)).await.to_string();
    for words in ["the client certificate cannot be used", "X.509 version 1", "needs version 3", "`-extfile`"]
    {
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn options_that_disable_certificate_checks_are_refused() {
    for url in ["rediss://10.0.0.1/#insecure", "rediss://10.0.0.1#other"] {
        let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
        assert!(matches!(error, Error::Config(ConfigError::Url { .. })), "{error}");
    }
}
