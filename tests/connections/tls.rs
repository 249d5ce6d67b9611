//! Nodes behind TLS, on real servers: trusted authorities, client certificates, passwords, wrong schemes of URLs,
//! Sentinels, and the rotation of certificates.

use std::{path::Path, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use redis::{AsyncConnectionConfig, Client, TlsCertificates, cmd};
use redquorum::{
    __command::connectors,
    Error, LockOptions, Quorum, QuorumBuilder,
    error::{ConfigError, NodeError},
};
use redquorum_tests::{Cluster, Kind, Port, ServerOptions, eventually};
use tokio::time::timeout;

use super::{SOON, assert_locks, init_and_connect, refusal, replies_of, told_reasons::StandIn};

/// The connect timeout of tests with a wrong scheme. A longer timeout would only make these tests slower.
const PATIENCE: Duration = Duration::from_secs(2);

/// A certificate authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
struct Certificate {
    chain: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = named(&format!("authority {:?}", key.public_key_pem()), vec![]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn certify(&self, name: &str) -> Certificate {
        self.certify_as(IsCa::NoCa, name)
    }

    fn certify_as(&self, is_ca: IsCa, name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = named(name, vec![name.to_owned()]);
        params.is_ca = is_ca;
        Certificate { chain: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// Returns parameters of a certificate with a subject of its own. If the subject equalled that of the issuer,
/// the certificate would count as self-signed.
fn named(subject: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).unwrap();
    let subject: String = subject.chars().filter(char::is_ascii_alphanumeric).rev().take(32).collect();
    params.distinguished_name.push(DnType::CommonName, subject);
    params
}

/// Servers with a second port behind TLS.
struct TlsSetup {
    cluster: Cluster,
    authority: Authority,
    /// The port behind TLS of each server.
    ports: Vec<Port>,
}

impl TlsSetup {
    /// Starts servers with certificates for the host name `localhost`.
    async fn start(count: usize, options: ServerOptions) -> Self {
        Self::start_with(count, "no", options).await
    }

    /// Starts servers that demand certificates of clients.
    async fn start_demanding_certificates(count: usize) -> Self {
        Self::start_with(count, "yes", ServerOptions::default()).await
    }

    /// Starts servers with this value of `tls-auth-clients`.
    async fn start_with(count: usize, auth_clients: &str, options: ServerOptions) -> Self {
        let cluster = Cluster::start_as(Kind::Processes, count, options).await;
        let authority = Authority::new();
        let certificate = authority.certify("localhost");
        let mut ports = Vec::new();
        let files =
            [("ca.pem", &authority.pem), ("node.pem", &certificate.chain), ("node.key", &certificate.key)];
        let [ca, chain, key] = files.map(|(name, pem)| {
            let path = cluster.directory().join(name);
            std::fs::write(&path, pem).unwrap();
            path.display().to_string()
        });
        for server in cluster.servers() {
            let port = Port::reserve();
            let number = port.number().to_string();
            server
                .command(&[
                    "CONFIG",
                    "SET",
                    "tls-cert-file",
                    &chain,
                    "tls-key-file",
                    &key,
                    "tls-ca-cert-file",
                    &ca,
                ])
                .await;
            server.command(&["CONFIG", "SET", "tls-auth-clients", auth_clients]).await;
            server.command(&["CONFIG", "SET", "tls-port", &number]).await;
            ports.push(port);
        }
        Self { cluster, authority, ports }
    }

    /// Makes the servers read their certificate files again.
    async fn reload_certificates(&self) {
        let path = |name| self.cluster.directory().join(name).display().to_string();
        let [ca, chain, key] = ["ca.pem", "node.pem", "node.key"].map(path);
        let files = ["tls-cert-file", &chain, "tls-key-file", &key, "tls-ca-cert-file", &ca];
        for server in self.cluster.servers() {
            server.command(&[&["CONFIG", "SET"][..], &files].concat()).await;
        }
    }

    /// Closes the connections of the client, and waits until each server has a new connection of the client. `step`
    /// names the step of the rotation for the message of a failure.
    async fn reconnect_client(&self, step: &str) {
        for server in self.cluster.servers() {
            let ids = async || {
                let clients: String = server.query(cmd("CLIENT").arg("LIST")).await;
                let lines = clients.lines().filter(|line| line.contains("name=") && !line.contains("name= "));
                lines
                    .map(|line| line["id=".len()..].split(' ').next().unwrap_or_default().to_owned())
                    .collect::<Vec<_>>()
            };
            let before = ids().await;
            for id in &before {
                server.command(&["CLIENT", "KILL", "ID", id]).await;
            }
            eventually(SOON, &format!("the client has connected again: {step}"), async || {
                ids().await.iter().any(|id| !before.contains(id))
            })
            .await;
        }
    }

    fn urls(&self, login: &str, host: &str) -> Vec<String> {
        self.ports.iter().map(|port| format!("rediss://{login}{host}:{}", port.number())).collect()
    }

    fn builder(&self) -> QuorumBuilder {
        Quorum::builder().nodes(self.urls("", "localhost"))
    }

    /// Returns settings for all servers that trust the authority of this setup.
    fn trusting(&self) -> QuorumBuilder {
        self.builder().ca_certificates(&*self.authority.pem)
    }

    /// Returns settings for nodes at these URLs that trust the authority of this setup.
    fn trusting_at(&self, urls: impl IntoIterator<Item = String>) -> QuorumBuilder {
        Quorum::builder().nodes(urls).ca_certificates(&*self.authority.pem)
    }
}

/// Returns the reason why the first node cannot be connected.
async fn reason(builder: QuorumBuilder) -> NodeError {
    let replies = replies_of(builder.connect().await.unwrap_err());
    let (_, reply) = replies.iter().next().unwrap();
    refusal(reply).unwrap_or_else(|| panic!("{reply}")).clone()
}

#[tokio::test]
async fn a_quorum_behind_tls_locks_with_passwords_and_databases() {
    let setup = TlsSetup::start(3, ServerOptions::default().password("word")).await;
    let urls = setup.urls(":word@", "localhost").into_iter().map(|url| url + "/2");
    let quorum = init_and_connect(setup.trusting_at(urls)).await;
    let guard = assert_locks(&quorum).await;
    let waiting = tokio::spawn(async move { assert_locks(&quorum).await });
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
    let keyspace = setup.cluster.server(0).info("keyspace").await;
    assert!(keyspace.contains("db2:") && !keyspace.contains("db0:"), "{keyspace}");
    let wrong = setup.trusting_at(setup.urls(":other@", "localhost"));
    assert!(matches!(reason(wrong).await, NodeError::NoAuth(_)));
}

#[tokio::test]
async fn the_error_of_a_mistaken_scheme_names_the_right_scheme() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let with_tls = Quorum::builder().nodes([format!("redis://localhost:{}", setup.ports[0].number())]);
    let error = with_tls.connect_timeout(PATIENCE).connect().await.unwrap_err().to_string();
    assert!(error.contains("the port has TLS") && error.contains("write rediss://"), "{error}");
    let plain = format!("rediss://localhost:{}", setup.cluster.server(0).port());
    let plain = setup.trusting_at([plain]);
    let error = plain.connect_timeout(PATIENCE).connect().await.unwrap_err().to_string();
    assert!(error.ends_with("if the port has no TLS, write redis:// instead of rediss://"), "{error}");
}

#[tokio::test]
async fn a_server_certificate_without_a_trusted_signature_is_refused() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let node_error = reason(setup.builder().ca_certificates(Authority::new().pem)).await;
    assert!(matches!(&node_error, NodeError::Tls(why) if why.contains("UnknownIssuer")), "{node_error}");
    // By default, the client trusts the CAs of the system, which may have no certificates of CAs.
    match setup.builder().connect().await.unwrap_err() {
        Error::Config(ConfigError::Tls { reason, .. }) => {
            assert!(reason.contains("this system has no certificates of CAs to trust"), "{reason}");
        }
        error => assert!(error.to_string().contains("UnknownIssuer"), "{error}"),
    }
    let named_otherwise = setup.trusting_at(setup.urls("", "127.0.0.1"));
    let node_error = reason(named_otherwise).await;
    assert!(matches!(&node_error, NodeError::Tls(why) if why.contains("not valid for name")), "{node_error}");
    assert!(setup.cluster.server(0).keys().await.is_empty());
    // If several authorities are trusted, one valid signature is enough.
    let either = setup.builder().ca_certificates(Authority::new().pem);
    drop(assert_locks(&init_and_connect(either.ca_certificates(&*setup.authority.pem)).await).await);
}

#[tokio::test]
async fn a_server_with_the_certificate_of_a_ca_is_refused_with_a_clear_error() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let shown = setup.authority.certify_as(IsCa::Ca(BasicConstraints::Unconstrained), "localhost");
    let [chain, key] = [("other.pem", &shown.chain), ("other.key", &shown.key)].map(|(name, pem)| {
        let path = setup.cluster.directory().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    });
    let server = setup.cluster.server(0);
    server.command(&["CONFIG", "SET", "tls-cert-file", &chain, "tls-key-file", &key]).await;
    let node_error = reason(setup.trusting()).await;
    let words = "TLS failed: the server presents the certificate of a CA as its own: give the server a certificate \
                 that is no CA, signed by the CA (CaUsedAsEndEntity)";
    assert_eq!(node_error.to_string(), words);
}

#[tokio::test]
async fn a_server_that_demands_a_client_certificate_receives_it() {
    let setup = TlsSetup::start_demanding_certificates(1).await;
    let none = reason(setup.trusting()).await;
    let Certificate { chain, key } = Authority::new().certify("client");
    let untrusted = reason(setup.trusting().client_certificate(chain, key)).await;
    for node_error in [none, untrusted] {
        assert!(matches!(node_error, NodeError::Tls(_)), "{node_error}");
    }
    let Certificate { chain, key } = setup.authority.certify("client");
    drop(assert_locks(&init_and_connect(setup.trusting().client_certificate(chain, key)).await).await);
}

/// A client with TLS never connects to a port without TLS, and a client without TLS never to a port with TLS.
#[tokio::test]
async fn connections_between_tls_and_plain_ports_fail() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let plain = format!("rediss://localhost:{}", setup.cluster.server(0).port());
    let secured = setup.urls("", "localhost")[0].replace("rediss", "redis");
    for url in [plain, secured] {
        let builder = setup.trusting_at([url]).connect_timeout(PATIENCE);
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, Error::NoQuorum(_)), "{error}");
    }
    assert!(setup.cluster.server(0).keys().await.is_empty());
}

/// The server closes the connection before the handshake, and has no way to send the reason.
#[tokio::test]
async fn a_server_behind_tls_that_closes_without_a_reason_is_reported_with_the_likely_causes() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let server = setup.cluster.server(0);
    let _first = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    server.command(&["CONFIG", "SET", "maxclients", "1"]).await;
    let builder = setup.trusting_at(setup.urls("", "localhost")).connect_timeout(PATIENCE);
    let error = builder.connect().await.unwrap_err().to_string();
    for cause in ["no TLS", "maxclients", "proxy"] {
        assert!(error.contains(cause), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_in_the_clear_of_a_tls_handshake_is_in_the_error() {
    let setup = TlsSetup::start(0, ServerOptions::default()).await;
    for greeting in
        ["-DENIED Redis is running in protected mode.\r\n", "-ERR max number of clients reached\r\n"]
    {
        let server = StandIn::closing_with(greeting).await;
        let url = format!("rediss://{}", server.address);
        let error =
            setup.trusting_at([url]).connect_timeout(PATIENCE).connect().await.unwrap_err().to_string();
        for words in ["write redis:// instead of rediss://", greeting.trim_start_matches('-').trim_end()] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[tokio::test]
async fn a_master_behind_tls_is_reached_by_plain_sentinels() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let sentinel = StandIn::sentinel_naming("localhost", setup.ports[0].number()).await;
    let url = format!("rediss+sentinel://{}/mymaster?sentinel_tls=no", sentinel.address);
    let quorum = init_and_connect(setup.trusting_at([url])).await;
    drop(assert_locks(&quorum).await);
}

/// A server behind TLS stands for a Sentinel. The server refuses the command `SENTINEL` as unknown, so the client has
/// reached the server.
#[tokio::test]
async fn sentinels_behind_tls_are_reached_for_a_plain_master() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let url = format!("redis+sentinel://localhost:{}/mymaster?sentinel_tls=yes", setup.ports[0].number());
    let error = setup.trusting_at([url]).connect_timeout(PATIENCE).connect().await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("unknown command"), "{error}");
}

/// The seed refers to the master of the hash slot by its host name and its port behind TLS.
#[tokio::test]
async fn a_redis_cluster_behind_tls_is_one_node() {
    let options = ServerOptions::default()
        .config("cluster-enabled", "yes")
        .config("cluster-announce-hostname", "localhost")
        .config("cluster-preferred-endpoint-type", "hostname");
    let setup = TlsSetup::start(2, options).await;
    let [seed, master] = [0, 1].map(|number| setup.cluster.server(number));
    for (server, port) in setup.cluster.servers().iter().zip(&setup.ports) {
        let (port, bus_port) = (port.number().to_string(), (server.port() + 10_000).to_string());
        server.command(&["CONFIG", "SET", "tls-cluster", "yes"]).await;
        server.command(&["CONFIG", "SET", "cluster-announce-bus-port", &bus_port]).await;
        server.command(&["CONFIG", "SET", "cluster-announce-tls-port", &port]).await;
    }
    let slot: u16 = master.query(cmd("CLUSTER").arg("KEYSLOT").arg("{redquorum}")).await;
    for (server, first, last) in [(seed, 0, slot - 1), (seed, slot + 1, 16_383), (master, slot, slot)] {
        let (first, last) = (first.to_string(), last.to_string());
        server.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
    }
    let (port, bus_port) = (setup.ports[1].number().to_string(), (master.port() + 10_000).to_string());
    seed.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]).await;
    for server in [seed, master] {
        eventually(SOON, "the server serves the cluster", async || {
            let state: String = server.query(cmd("CLUSTER").arg("INFO")).await;
            state.contains("cluster_state:ok")
        })
        .await;
    }
    let port = setup.ports[0].number();
    let quorum = init_and_connect(setup.trusting_at([format!("rediss+cluster://localhost:{port}")])).await;
    let _guard = assert_locks(&quorum).await;
    assert!(master.keys().await.contains(&"r".to_owned()));
    assert!(seed.keys().await.is_empty());
}

#[tokio::test]
async fn the_error_of_a_mistaken_scheme_behind_sentinels_names_the_parameter() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let error = async |url: String| {
        setup.trusting_at([url]).connect_timeout(PATIENCE).connect().await.unwrap_err().to_string()
    };
    let sentinel = StandIn::sentinel_naming("localhost", setup.ports[0].number()).await;
    let master_has_tls = error(format!("redis+sentinel://{}/mymaster", sentinel.address)).await;
    assert!(master_has_tls.contains("write rediss+sentinel://, with ?sentinel_tls=no"), "{master_has_tls}");
    let sentinel_has_tls =
        error(format!("redis+sentinel://localhost:{}/mymaster", setup.ports[0].number())).await;
    assert!(sentinel_has_tls.contains("add ?sentinel_tls=yes"), "{sentinel_has_tls}");
    let sentinel_is_plain =
        error(format!("rediss+sentinel://127.0.0.1:{}/mymaster", setup.cluster.server(0).port())).await;
    assert!(sentinel_is_plain.contains("add ?sentinel_tls=no"), "{sentinel_is_plain}");
}

/// `redquorum-cli` connects to single nodes. The error of such a connection has the same hint as the error of a lock.
#[tokio::test]
async fn a_single_connection_reports_that_a_port_may_have_no_tls() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let plain = format!("rediss://localhost:{}", setup.cluster.server(0).port());
    let nodes = connectors(&setup.trusting_at([plain])).unwrap();
    let patience = Duration::from_millis(200);
    let error = nodes[0].connect(AsyncConnectionConfig::new(), patience).await.map(drop).unwrap_err();
    assert!(error.to_string().ends_with("write redis:// instead of rediss://"), "{error}");
}

/// A client of the `redis` crate uses its own TLS configuration.
#[tokio::test]
async fn a_client_of_the_redis_crate_uses_its_own_tls() {
    let setup = TlsSetup::start(1, ServerOptions::default()).await;
    let client = |ca: &str| {
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.as_bytes().to_vec()) };
        Client::build_with_tls(&*setup.urls("", "localhost")[0], certificates).unwrap()
    };
    drop(
        assert_locks(&init_and_connect(Quorum::builder().clients([client(&setup.authority.pem)])).await)
            .await,
    );
    let error = Quorum::builder().clients([client(&Authority::new().pem)]).connect().await.unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error}");
}

/// Long enough for renewals on a machine under load.
const TTL: Duration = Duration::from_secs(3);

/// Replaces a file in one step, as tools for certificates do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// The test follows the steps of `docs/OPERATIONS.md`. In addition, one file is half written at the time of a dial.
#[tokio::test]
async fn a_rotation_of_the_ca_and_of_all_certificates_costs_no_lease() {
    let setup = TlsSetup::start_demanding_certificates(3).await;
    let (old, new) = (&setup.authority, Authority::new());
    let directory = setup.cluster.directory();
    let [cas, chain, key] = ["trusted.pem", "client.pem", "client.key"].map(|name| directory.join(name));
    let certificate = old.certify("client");
    replace(&cas, &old.pem);
    replace(&chain, &certificate.chain);
    replace(&key, &certificate.key);
    let builder = setup.builder().ca_certificates_file(&cas).client_certificate_files(&chain, &key);
    let quorum = init_and_connect(builder).await;
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();

    // Both CAs are trusted on both sides.
    let both = format!("{}{}", old.pem, new.pem);
    std::fs::write(&cas, &both[..both.len() / 3]).unwrap();
    setup.reconnect_client("the file of the client is half written").await;
    replace(&cas, &both);
    replace(&directory.join("ca.pem"), &both);
    setup.reload_certificates().await;
    setup.reconnect_client("both sides trust both CAs").await;
    // The servers and then the client show certificates of the new CA. The client dials once between the replacement of
    // its chain and the replacement of its key.
    let of_server = new.certify("localhost");
    replace(&directory.join("node.pem"), &of_server.chain);
    replace(&directory.join("node.key"), &of_server.key);
    setup.reload_certificates().await;
    setup.reconnect_client("the servers show new certificates").await;
    let certificate = new.certify("client");
    replace(&chain, &certificate.chain);
    setup.reconnect_client("the chain of the client is new, and its key is not").await;
    replace(&key, &certificate.key);
    setup.reconnect_client("the client shows its new certificate").await;
    // Neither side trusts the old CA any more.
    replace(&cas, &new.pem);
    replace(&directory.join("ca.pem"), &new.pem);
    setup.reload_certificates().await;
    setup.reconnect_client("neither side trusts the old CA any more").await;

    let lost = timeout(2 * TTL, guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(quorum.health().await.voting(), 3);
    guard.unlock().await.unwrap();
}
