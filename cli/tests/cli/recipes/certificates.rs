use redquorum_tests::{Kind, Port, ServerOptions};

use super::*;

/// Runs the script for the names of this machine; its output.
async fn make(directory: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/recipes/files/certificates.sh");
    let mut make = Command::new(script);
    make.arg(directory).args(["localhost", "127.0.0.1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let made = output(make).await;
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    stdout(&made)
}

/// The words of the line that shows how to call this program, with a port of this machine.
fn shown(text: &str, program: &str, port: &Port) -> Vec<String> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(program));
    let line = line.unwrap_or_else(|| panic!("no {program} in {text}")).trim_end_matches("...");
    line.replace("6379", &port.number().to_string()).split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_server_with_the_certificates_is_reached_with_them_and_not_without() {
    // The files are read by the server.
    let cluster = Cluster::start_as(Kind::Processes, 1, ServerOptions::default()).await;
    let (scratch, port) = (Scratch::new(), Port::reserve());
    let told = make(scratch.path()).await;
    let options = shown(&told, "redis-server", &port);
    let pairs = options.chunks(2).map(|pair| [pair[0].strip_prefix("--").unwrap(), &pair[1]]);
    let (of_port, of_files): (Vec<_>, Vec<_>) = pairs.partition(|[name, _]| *name == "tls-port");
    // The port comes last: with it, the server reads its files.
    for settings in [of_files, of_port] {
        cluster.server(0).command(&[&["CONFIG", "SET"], settings.as_flattened()].concat()).await;
    }

    let client = shown(&told, "redquorum", &port);
    let job = ["--admit-new-nodes", "run", "job", "-c", "true"].map(str::to_owned);
    let status = async |arguments: Vec<String>| {
        let run = output(redquorum(arguments.iter().chain(&job))).await;
        (code(&run), stderr(&run))
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
        let (status, told) = status(arguments.clone()).await;
        assert_eq!(status, exit, "{arguments:?}: {told}");
    }

    let (authority, certificate) = (scratch.read("ca.pem"), scratch.read("client.pem"));
    make(scratch.path()).await;
    assert!(
        scratch.read("ca.pem") == authority && scratch.read("client.pem") != certificate,
        "it is renewed"
    );
    assert_eq!(status(client.clone()).await.0, 0, "the server trusts the renewed one");
}

#[tokio::test]
async fn without_a_host_it_says_how_it_is_called() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/recipes/files/certificates.sh");
    let mut make = Command::new(script);
    make.arg("/nowhere").stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = output(make).await;
    assert!(code(&told) == 64 && stderr(&told).starts_with("usage: "), "{}", stderr(&told));
}
