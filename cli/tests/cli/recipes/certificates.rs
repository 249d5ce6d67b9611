//! The script that creates and renews certificates.

use std::{collections::BTreeMap, ffi::OsString};

use redquorum_tests::{Kind, Port, ServerOptions};

use super::*;

/// Runs the script for these hosts.
async fn script(directory: &Path, hosts: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/recipes/files/certificates.sh");
    let mut make = Command::new(script);
    make.arg(directory).args(hosts).stdout(Stdio::piped()).stderr(Stdio::piped());
    output(make).await
}

/// Runs the script for these hosts successfully, and returns the output.
async fn make(directory: &Path, hosts: &[&str]) -> String {
    let made = script(directory, hosts).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    stdout(&made)
}

const THIS_MACHINE: [&str; 2] = ["localhost", "127.0.0.1"];

/// Returns all files of a directory, with hidden files.
fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

/// Returns the words after this program in the suggested call, with a port of this machine.
fn suggested_arguments(text: &str, program: &str, port: &Port) -> Vec<String> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(program));
    let line = line.unwrap_or_else(|| panic!("no {program} in {text}")).trim_end_matches("...");
    line.replace("6379", &port.number().to_string()).split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_server_accepts_only_clients_with_certificates() {
    // A server in a container could not read the files.
    let cluster = Cluster::start_as(Kind::Processes, 1, ServerOptions::default()).await;
    let (scratch, port) = (Scratch::new(), Port::reserve());
    let text = make(scratch.path(), &THIS_MACHINE).await;
    let options = suggested_arguments(&text, "redis-server", &port);
    let pairs = options.chunks(2).map(|pair| [pair[0].strip_prefix("--").unwrap(), &pair[1]]);
    let (of_port, of_files): (Vec<_>, Vec<_>) = pairs.partition(|[name, _]| *name == "tls-port");
    // The port is set last, because the server reads the files when the port is set.
    for settings in [of_files, of_port] {
        cluster.server(0).command(&[&["CONFIG", "SET"], settings.as_flattened()].concat()).await;
    }

    let client = suggested_arguments(&text, "redquorum", &port);
    let job = ["--admit-new-nodes", "run", "job", "-c", "true"].map(str::to_owned);
    let status = async |arguments: Vec<String>| {
        let run = output(without_patience(redquorum(arguments.iter().chain(&job)))).await;
        (exit_code(&run), stderr(&run))
    };
    let without = |name: &str| {
        let at = client.iter().position(|word| word == name).unwrap();
        [&client[..at], &client[at + 2..]].concat()
    };
    let without_certificate =
        without("--cert").into_iter().filter(|word| word != "--key" && !word.ends_with("client.key"));
    let address = client.iter().map(|word| word.replace("localhost", "127.0.0.1"));
    let other = client.iter().map(|word| word.replace("localhost", "127.0.0.2"));
    for (arguments, exit) in [
        (client.clone(), 0),
        (address.collect(), 0),
        (without("--ca"), 69),
        (without_certificate.collect(), 69),
        (other.collect(), 69),
    ] {
        let (status, text) = status(arguments.clone()).await;
        assert_eq!(status, exit, "{arguments:?}: {text}");
    }

    let (authority, certificate) = (scratch.read("ca.pem"), scratch.read("client.pem"));
    make(scratch.path(), &THIS_MACHINE).await;
    assert!(
        scratch.read("ca.pem") == authority && scratch.read("client.pem") != certificate,
        "the CA is kept, and the certificate is renewed"
    );
    assert_eq!(status(client.clone()).await.0, 0, "the server trusts the renewed certificate");
}

/// A server would not start with a key that does not match its certificate.
#[tokio::test]
async fn a_failed_renewal_leaves_all_files_unchanged() {
    let scratch = Scratch::new();
    make(scratch.path(), &THIS_MACHINE).await;
    let authority = scratch.read("ca.key");
    let other = scratch.read("client.key");
    for (key, text) in [(None, "restore it"), (Some(&other), "key"), (Some(&authority), "")] {
        match key {
            Some(key) => std::fs::write(scratch.file("ca.key"), key).unwrap(),
            None => std::fs::remove_file(scratch.file("ca.key")).unwrap(),
        }
        let before = files(scratch.path());
        let ended = script(scratch.path(), &THIS_MACHINE).await;
        assert_eq!(exit_code(&ended) == 0, key == Some(&authority), "{}", stderr(&ended));
        assert!(stderr(&ended).contains(text), "{}", stderr(&ended));
        let after = files(scratch.path());
        assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
        assert_eq!(before == after, exit_code(&ended) != 0, "{}", stderr(&ended));
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_is_not_replaced() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("ca.key"), "kept").unwrap();
    let ended = script(scratch.path(), &THIS_MACHINE).await;
    assert_eq!((exit_code(&ended), scratch.read("ca.key").as_str()), (66, "kept"), "{}", stderr(&ended));
}

#[tokio::test]
async fn a_host_is_escaped_for_urls_and_has_no_port() {
    let scratch = Scratch::new();
    for host in ["::1", "[::1]"] {
        let text = make(scratch.path(), &[host, "10.0.0.1"]).await;
        assert!(text.contains("--node rediss://[::1]:6379 "), "{text}");
        let mut names = Command::new("openssl");
        names.args(["x509", "-noout", "-ext", "subjectAltName", "-in", &scratch.file("server.pem")]);
        names.stdout(Stdio::piped()).stderr(Stdio::piped());
        let names = stdout(&output(names).await);
        assert!(names.contains("IP Address:0:0:0:0:0:0:0:1, IP Address:10.0.0.1"), "{names}");
    }
    let before = files(scratch.path());
    for host in ["10.0.0.1:6379", "redis-1:6379", "rediss://redis-1", "a,DNS:b", ""] {
        let ended = script(scratch.path(), &["redis-0", host]).await;
        assert_eq!(exit_code(&ended), 64, "{host}: {}", stderr(&ended));
        assert!(stderr(&ended).starts_with(&format!("{host}: not a host: ")), "{}", stderr(&ended));
    }
    assert!(files(scratch.path()) == before, "a refused host has changed files");
}

#[tokio::test]
async fn the_script_without_a_host_prints_its_usage() {
    let text = script(Path::new("/nowhere"), &[]).await;
    assert!(exit_code(&text) == 64 && stderr(&text).starts_with("usage: "), "{}", stderr(&text));
}
