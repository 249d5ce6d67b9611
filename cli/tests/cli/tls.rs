//! Nodes with TLS, and the options, variables and settings that name the certificate files.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Kind, Port, ServerOptions, eventually};

use super::redquorum::{TIME_LIMIT, exit_code, output, redquorum, stderr, wait_for_output};

/// A server that requires client certificates, and the files of its clients.
struct Fixture {
    cluster: Cluster,
    port: Port,
}

impl Fixture {
    async fn start() -> Self {
        // A server in a container could not read the files.
        let cluster = Cluster::start_as(Kind::Processes, 1, ServerOptions::default()).await;
        let fixture = Self { cluster, port: Port::reserve() };
        fixture.write_certificates().await;
        let server = fixture.cluster.server(0);
        server.command(&["CONFIG", "SET", "tls-auth-clients", "yes"]).await;
        server.command(&["CONFIG", "SET", "tls-port", &fixture.port.number().to_string()]).await;
        fixture
    }

    /// Writes the files with new keys, and lets the server read its files. The CA `ca.pem` signs the certificate
    /// `node.pem`, whose key is `node.key`. `other.pem` is another CA.
    async fn write_certificates(&self) {
        let params = |name: &str, is_ca| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.is_ca = is_ca;
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let authority = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = params(name, IsCa::Ca(BasicConstraints::Unconstrained));
            (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
        };
        let ((ca, issuer), (other, _)) = (authority("authority"), authority("other"));
        let key = KeyPair::generate().unwrap();
        let chain = params("node", IsCa::NoCa).signed_by(&key, &issuer).unwrap().pem();
        let files =
            [("ca.pem", ca), ("other.pem", other), ("node.pem", chain), ("node.key", key.serialize_pem())];
        for (name, pem) in files {
            std::fs::write(self.cluster.directory().join(name), pem).unwrap();
        }
        let path = |name| self.cluster.directory().join(name).display().to_string();
        let (chain, key, ca) = (path("node.pem"), path("node.key"), path("ca.pem"));
        let files = ["tls-cert-file", &chain, "tls-key-file", &key, "tls-ca-cert-file", &ca];
        self.cluster.server(0).command(&[&["CONFIG", "SET"][..], &files].concat()).await;
    }

    /// Whether a client is connected to the port behind TLS.
    async fn has_client(&self) -> bool {
        let clients: String = self.cluster.server(0).query(cmd("CLIENT").arg("LIST")).await;
        clients.contains(&format!("laddr=127.0.0.1:{} ", self.port.number()))
    }

    /// Returns `run` with a configuration file that has this table `[tls]`. The configuration file
    /// is in a subdirectory of the directory of the certificates.
    fn run(&self, table: &str, arguments: &[&str]) -> tokio::process::Command {
        self.run_script(table, arguments, "true")
    }

    fn run_script(&self, table: &str, arguments: &[&str], script: &str) -> tokio::process::Command {
        let directory = self.cluster.directory().join("configured");
        std::fs::create_dir_all(&directory).unwrap();
        let node = format!("rediss://localhost:{}", self.port.number());
        let text = format!("nodes = [{node:?}]\n[tls]\n{table}\n");
        std::fs::write(directory.join("redquorum.toml"), text).unwrap();
        let mut run = redquorum(["--admit-new-nodes", "--config", "configured/redquorum.toml"]);
        run.args(arguments).args(["run", "job", "-c", script]);
        run.current_dir(self.cluster.directory());
        run
    }
}

#[tokio::test]
async fn each_certificate_option_overrides_its_setting() {
    let fixture = Fixture::start().await;
    let client_certificate = "certificate = \"../node.pem\"\nkey = \"../node.key\"";
    let all = "ca = \"../ca.pem\"\n".to_owned() + client_certificate;
    let other = "ca = \"../other.pem\"\n".to_owned() + client_certificate;
    for (table, arguments, exit) in [
        (&*all, &[][..], 0),
        (&other, &[], 69),
        (&other, &["--ca", "ca.pem"], 0),
        (&all, &["--ca", "other.pem"], 69),
        ("", &["--ca", "ca.pem", "--cert", "node.pem", "--key", "node.key"], 0),
        ("ca = \"../ca.pem\"\nkey = \"../node.key\"", &["--cert", "node.pem"], 0),
    ] {
        let run = output(fixture.run(table, arguments)).await;
        assert_eq!(exit_code(&run), exit, "{table} {arguments:?}: {}", stderr(&run));
    }
}

#[tokio::test]
async fn the_certificates_of_options_and_settings_are_read_again_at_each_dial() {
    let table = "ca = \"../ca.pem\"\ncertificate = \"../node.pem\"\nkey = \"../node.key\"";
    let options = ["--ca", "ca.pem", "--cert", "node.pem", "--key", "node.key"];
    for (table, options) in [(table, &[][..]), ("", &options)] {
        let fixture = Fixture::start().await;
        let script = "touch held; until [ -e end ]; do sleep 0.05; done";
        let run = fixture.run_script(table, options, script).spawn().unwrap();
        let is_held = async || fixture.cluster.directory().join("held").exists();
        eventually(TIME_LIMIT, "the lock is held", is_held).await;
        fixture.write_certificates().await;
        fixture.cluster.server(0).command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        fixture.cluster.server(0).command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        eventually(TIME_LIMIT, "the new certificates are used", async || fixture.has_client().await).await;
        std::fs::write(fixture.cluster.directory().join("end"), "").unwrap();
        let run = wait_for_output(run).await;
        assert_eq!(exit_code(&run), 0, "{table} {options:?}: {}", stderr(&run));
    }
}

/// The error for a certificate without its key, or a key without its certificate.
const CERTIFICATE_WITHOUT_KEY: &str = "redquorum: tls: a certificate needs its key, and a key its certificate: name both, as `certificate` \
                    and `key` in the table [tls] of the file, or by REDQUORUM_CERT and REDQUORUM_KEY; the options are \
                    --ca FILE, and together --cert FILE and --key FILE\n";

#[tokio::test]
async fn the_error_of_an_unusable_file_names_the_file() {
    let fixture = Fixture::start().await;
    for (arguments, exit, named) in [
        (&["--ca", "nowhere.pem"][..], 74, "redquorum: nowhere.pem: "),
        (&["--ca", "node.key"], 78, "redquorum: node.key: the certificates of the CA"),
        (&["--cert", "node.pem"], 78, CERTIFICATE_WITHOUT_KEY),
        (&["--key", "node.key"], 78, CERTIFICATE_WITHOUT_KEY),
        (&["--cert", "other.pem", "--key", "node.key"], 78, "other.pem: the client certificate"),
    ] {
        let run = output(fixture.run("", arguments)).await;
        assert_eq!(exit_code(&run), exit, "{arguments:?}: {}", stderr(&run));
        assert!(stderr(&run).contains(named), "{arguments:?}: {}", stderr(&run));
    }
}

/// Each of the two quorums has its own CA, which signs no certificate of the other.
#[tokio::test]
async fn a_quorum_can_be_moved_to_nodes_with_another_ca() {
    let (old, new) = (Fixture::start().await, Fixture::start().await);
    let file = |fixture: &Fixture, name: &str| fixture.cluster.directory().join(name).display().to_string();
    let settings = |fixture: &Fixture, name: &str, tls: &str| {
        let node = format!("rediss://localhost:{}", fixture.port.number());
        let text = format!(
            "name = {name:?}\nnodes = [{node:?}]\nttl = '500ms'\nmax_ttl = '500ms'\n\
             attempt_timeout = '300ms'\n{tls}"
        );
        let path = file(fixture, &format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let table = "[tls]\nca = 'ca.pem'\ncertificate = 'node.pem'\nkey = 'node.key'\n";
    let (from, to) = (settings(&old, "old", table), settings(&new, "new", ""));
    let init = output(redquorum(["--config", &from, "init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    let reconfigure = async |by_variables: bool| {
        let mut command = redquorum(["reconfigure", "--yes", "--from", &from, "--to", &to]);
        for (option, variable, name) in [
            ("--ca", "REDQUORUM_CA", "ca.pem"),
            ("--cert", "REDQUORUM_CERT", "node.pem"),
            ("--key", "REDQUORUM_KEY", "node.key"),
        ] {
            if by_variables {
                command.env(variable, file(&new, name));
            } else {
                command.args([option, &file(&new, name)]);
            }
        }
        output(command).await
    };
    // The first call moves the quorum. The second call finds that the move is done.
    for by_variables in [false, true] {
        let moved = reconfigure(by_variables).await;
        assert_eq!(exit_code(&moved), 0, "{by_variables}: {}", stderr(&moved));
    }
}
