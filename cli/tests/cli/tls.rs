//! Nodes with TLS, and the sources of the certificate files.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use redquorum_tests::{Cluster, Kind, Port, ServerOptions};

use super::redquorum::{code, output, redquorum, stderr};

/// A server that requires certificates, and the files of its clients.
struct Scene {
    cluster: Cluster,
    port: Port,
}

impl Scene {
    /// Creates the files: `ca.pem`, which signs `node.pem` with `node.key`, and `other.pem`, another
    /// CA.
    async fn start() -> Self {
        // The server has to be able to read the files.
        let cluster = Cluster::start_as(Kind::Processes, 1, ServerOptions::default()).await;
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
        let scene = Self { cluster, port: Port::reserve() };
        let files =
            [("ca.pem", ca), ("other.pem", other), ("node.pem", chain), ("node.key", key.serialize_pem())];
        for (name, pem) in files {
            std::fs::write(scene.cluster.directory().join(name), pem).unwrap();
        }
        let path = |name| scene.cluster.directory().join(name).display().to_string();
        let (chain, key, ca) = (path("node.pem"), path("node.key"), path("ca.pem"));
        let server = scene.cluster.server(0);
        let files = ["tls-cert-file", &chain, "tls-key-file", &key, "tls-ca-cert-file", &ca];
        server.command(&[&["CONFIG", "SET"][..], &files].concat()).await;
        server.command(&["CONFIG", "SET", "tls-auth-clients", "yes"]).await;
        server.command(&["CONFIG", "SET", "tls-port", &scene.port.number().to_string()]).await;
        scene
    }

    /// Returns `run` with a configuration file with this table `[tls]`, in a directory beside that of
    /// the files.
    fn run(&self, table: &str, arguments: &[&str]) -> tokio::process::Command {
        let directory = self.cluster.directory().join("configured");
        std::fs::create_dir_all(&directory).unwrap();
        let node = format!("rediss://localhost:{}", self.port.number());
        let text = format!("nodes = [{node:?}]\n[tls]\n{table}\n");
        std::fs::write(directory.join("redquorum.toml"), text).unwrap();
        let mut run = redquorum(["--admit-new-nodes", "--config", "configured/redquorum.toml"]);
        run.args(arguments).args(["run", "job", "-c", "true"]);
        run.current_dir(self.cluster.directory());
        run
    }
}

#[tokio::test]
async fn each_certificate_option_overrides_its_setting() {
    let scene = Scene::start().await;
    let own = "certificate = \"../node.pem\"\nkey = \"../node.key\"";
    let all = "ca = \"../ca.pem\"\n".to_owned() + own;
    let other = "ca = \"../other.pem\"\n".to_owned() + own;
    for (table, arguments, exit) in [
        (&*all, &[][..], 0),
        (&other, &[], 69),
        (&other, &["--ca", "ca.pem"], 0),
        (&all, &["--ca", "other.pem"], 69),
        ("", &["--ca", "ca.pem", "--cert", "node.pem", "--key", "node.key"], 0),
        ("ca = \"../ca.pem\"\nkey = \"../node.key\"", &["--cert", "node.pem"], 0),
    ] {
        let run = output(scene.run(table, arguments)).await;
        assert_eq!(code(&run), exit, "{table} {arguments:?}: {}", stderr(&run));
    }
}

/// The error for a certificate without its key, or a key without its certificate.
const HALF: &str = "redquorum: tls: a certificate needs its key, and a key its certificate: name both, as `certificate` \
                    and `key` in the table [tls] of the file, or by REDQUORUM_CERT and REDQUORUM_KEY; the options are \
                    --ca FILE, and together --cert FILE and --key FILE\n";

#[tokio::test]
async fn unusable_files_are_named() {
    let scene = Scene::start().await;
    for (arguments, exit, named) in [
        (&["--ca", "nowhere.pem"][..], 74, "redquorum: nowhere.pem: "),
        (&["--ca", "node.key"], 78, "redquorum: node.key: the certificates of the CA"),
        (&["--cert", "node.pem"], 78, HALF),
        (&["--key", "node.key"], 78, HALF),
        (&["--cert", "other.pem", "--key", "node.key"], 78, "other.pem: the client certificate"),
    ] {
        let run = output(scene.run("", arguments)).await;
        assert_eq!(code(&run), exit, "{arguments:?}: {}", stderr(&run));
        assert!(stderr(&run).contains(named), "{arguments:?}: {}", stderr(&run));
    }
}

/// Each of the two quorums has its own CA, which signs no certificate of the other.
#[tokio::test]
async fn a_quorum_is_moved_to_nodes_with_other_certificates() {
    let (old, new) = (Scene::start().await, Scene::start().await);
    let file = |scene: &Scene, name: &str| scene.cluster.directory().join(name).display().to_string();
    let settings = |scene: &Scene, name: &str, tls: &str| {
        let node = format!("rediss://localhost:{}", scene.port.number());
        let text = format!(
            "name = {name:?}\nnodes = [{node:?}]\nttl = '500ms'\nmax_ttl = '500ms'\n\
             attempt_timeout = '300ms'\n{tls}"
        );
        let path = file(scene, &format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let table = "[tls]\nca = 'ca.pem'\ncertificate = 'node.pem'\nkey = 'node.key'\n";
    let (from, to) = (settings(&old, "old", table), settings(&new, "new", ""));
    let made = output(redquorum(["--config", &from, "init"])).await;
    assert_eq!(code(&made), 0, "{}", stderr(&made));
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
    // The second call finds the result of the first.
    for by_variables in [false, true] {
        let moved = reconfigure(by_variables).await;
        assert_eq!(code(&moved), 0, "{by_variables}: {}", stderr(&moved));
    }
}
