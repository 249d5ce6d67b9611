//! Nodes and settings from arguments, the environment and a file.

use redquorum_tests::Cluster;

use super::{
    redquorum::{exit_code, output, redquorum, stderr, stdout, without_patience},
    scratch::Scratch,
};

/// An address without a server.
const NO_SERVER: &str = "redis://127.0.0.1:1";

#[tokio::test]
async fn arguments_override_the_environment_which_overrides_the_file() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let node = cluster.server(0).url();
    let job = ["--admit-new-nodes", "run", "job", "--", "echo", "ran"];
    let write_file = |node: &str| {
        let path = scratch.file("redquorum.toml");
        std::fs::write(&path, format!("nodes = [{node:?}]\nname = \"from-the-file\"\n")).unwrap();
        path
    };
    let file = write_file(NO_SERVER);
    for (node_argument, variable, expected) in
        [(Some(node.as_str()), NO_SERVER, 0), (None, node.as_str(), 0), (Some(NO_SERVER), node.as_str(), 69)]
    {
        let mut command = redquorum::<&str>([]);
        command.env("REDQUORUM_CONFIG", &file);
        command.args(node_argument.map(|node| ["--node", node]).into_iter().flatten());
        command.args(job).env("REDQUORUM_NODES", variable);
        let run = output(without_patience(command)).await;
        assert_eq!(exit_code(&run), expected, "{node_argument:?} {variable}: {}", stderr(&run));
    }
    let file = write_file(&node);
    let mut command = redquorum(job);
    command.env("REDQUORUM_CONFIG", &file);
    let run = output(command).await;
    assert_eq!((exit_code(&run), stdout(&run)), (0, "ran\n".to_owned()), "{}", stderr(&run));
    let metadata: String = cluster
        .server(0)
        .query(redquorum::unstable_redis::redis::cmd("HGET").arg("redquorum:node").arg("fingerprint"))
        .await;
    assert!(metadata.contains("name=from-the-file"), "{metadata}");
}

#[tokio::test]
async fn an_error_in_a_file_names_its_place() {
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    for (text, exit, named) in [
        (Some("nodes = []\nnode = 1\n"), 78, "unknown field `node`"),
        (Some("nodes = [\"redis://a\"]\nttl = \"30\"\n"), 78, "write it like 30s"),
        (Some("nodes = [\"redis://a\"]\nttl = 10\n"), 78, "the unit is missing: write it like \"10s\""),
        (
            Some("nodes = [\"redis://a\"]\n[tls]\nca = \"redquorum.toml\"\n"),
            78,
            "redquorum.toml: the certificates of the CA",
        ),
        (Some("nodes = [\"redis://a\"]\nvotes_needed = 3\n"), 78, "votes_needed is 3: expected 1 to 1"),
        (Some("nodes = []\n"), 78, "--node URL"),
        (None, 74, "redquorum.toml"),
    ] {
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let run = output(redquorum(["--config", &file, "run", "job", "--", "true"])).await;
        assert_eq!(exit_code(&run), exit, "{text:?}: {}", stderr(&run));
        assert!(stderr(&run).contains(named), "{text:?}: {}", stderr(&run));
    }
}

/// If a settings file is given as an argument, its settings override exported variables. Settings that the file does
/// not have come from the variables.
#[tokio::test]
async fn a_file_of_an_argument_overrides_the_environment_with_a_notice() {
    let cluster = Cluster::start(2).await;
    let (named, exported) = (cluster.server(0), cluster.server(1));
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    let nodes = format!("nodes = [{:?}]\n", named.url());
    std::fs::write(&file, format!("{nodes}name = \"of-the-file\"\n")).unwrap();
    let init = |file: &str| {
        let mut command = redquorum(["--config", file, "--json", "init"]);
        command.env("REDQUORUM_NODES", exported.url()).env("REDQUORUM_NAME", "of-the-environment");
        command.env("REDQUORUM_MAX_TTL", "45s");
        command
    };
    let done = output(init(&file)).await;
    assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    for words in [&*named.address(), "name=of-the-file", "max_ttl=45000ms"] {
        assert!(stdout(&done).contains(words), "{words:?} is not in {}", stdout(&done));
    }
    assert_eq!(
        stderr(&done),
        format!(
            "{{\"notice\":{{\"message\":\"--config {file} overrides REDQUORUM_NODES and REDQUORUM_NAME\"}}}}\n"
        )
    );
    assert!(exported.keys().await.is_empty());
    // If the file has no nodes, the nodes come from the environment, without a notice.
    std::fs::write(&file, "").unwrap();
    let done = output(init(&file)).await;
    assert_eq!((exit_code(&done), stderr(&done)), (0, String::new()));
    assert!(stdout(&done).contains(&exported.address()), "{}", stdout(&done));
    // Without a notice: equal values in file and variable, and a `--node` argument that overrides both.
    std::fs::write(&file, &nodes).unwrap();
    for (node_argument, variable) in [(None, named.url()), (Some(named.url()), exported.url())] {
        let mut command = redquorum(["--config", &file, "inspect", "job"]);
        command.args(node_argument.iter().flat_map(|node| ["--node", node]));
        command.env("REDQUORUM_NODES", variable).env("REDQUORUM_NAME", "of-the-file");
        command.env("REDQUORUM_MAX_TTL", "45s");
        let inspected = output(command).await;
        assert_eq!((exit_code(&inspected), stderr(&inspected)), (0, String::new()));
    }
}

/// The variables of the options `--ca` and `--label` are overridden, too.
#[tokio::test]
async fn a_file_of_an_argument_overrides_variables_of_options() {
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(
        &file,
        format!("nodes = [{NO_SERVER:?}]\nlabel = \"of-the-file\"\n[tls]\nca = \"/nowhere/file.pem\"\n"),
    )
    .unwrap();
    let inspect = |more: &[&str]| {
        let mut command = redquorum(["--config", &file]);
        command.args(more).args(["inspect", "job"]);
        command.env("REDQUORUM_CA", "/nowhere/variable.pem").env("REDQUORUM_LABEL", "of-the-environment");
        output(command)
    };
    let shown = inspect(&[]).await;
    assert_eq!(exit_code(&shown), 74, "{}", stderr(&shown));
    assert!(stderr(&shown).contains("/nowhere/file.pem: "), "{}", stderr(&shown));
    let shown = inspect(&["--ca", "/nowhere/argument.pem"]).await;
    assert!(stderr(&shown).contains("/nowhere/argument.pem: "), "{}", stderr(&shown));
}

#[tokio::test]
async fn the_variable_of_the_ttl_overrides_only_a_file_of_a_variable() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, format!("nodes = [{:?}]\nttl = \"40s\"\n", server.url())).unwrap();
    let made = output(redquorum(["--config", &file, "init"])).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    let script = format!("redis-cli -u {} PTTL job", server.url());
    let (of_argument, of_variable) = (20_000, 30_000);
    for (is_config_argument, variable, argument, most) in [
        (true, None, None, 40_000),
        (true, Some("30s"), None, 40_000),
        (true, Some("30s"), Some("20s"), of_argument),
        (false, None, None, 40_000),
        (false, Some("30s"), None, of_variable),
        (false, Some("30s"), Some("20s"), of_argument),
    ] {
        let case = format!("{is_config_argument} {variable:?} {argument:?}");
        let mut command = redquorum(is_config_argument.then_some(["--config", &file]).into_iter().flatten());
        command.args(["run", "job"]).args(argument.map(|ttl| ["--ttl", ttl]).into_iter().flatten());
        command.args(["--", "sh", "-c", &script]).envs(variable.map(|ttl| ("REDQUORUM_TTL", ttl)));
        if !is_config_argument {
            command.env("REDQUORUM_CONFIG", &file);
        }
        let run = output(command).await;
        assert_eq!(exit_code(&run), 0, "{case}: {}", stderr(&run));
        let ttl: u64 = stdout(&run).trim().parse().unwrap();
        assert!((most - 10_000..=most).contains(&ttl), "{case}: {ttl} ms");
        let is_overridden = is_config_argument && variable.is_some();
        assert_eq!(
            stderr(&run).contains("overrides REDQUORUM_TTL"),
            is_overridden,
            "{case}: {}",
            stderr(&run)
        );
    }
}
