//! Tests of the files of `examples/recipes/files` and `examples/compose` with the command of this build.

use std::{
    collections::BTreeSet,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use redquorum_tests::Cluster;
use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::{
    redquorum::{
        command_admitting_new_nodes, command_on, exit_code, output, redquorum, send_signal, stderr, stdout,
        wait_for_output, without_patience,
    },
    scratch::Scratch,
};

mod certificates;
mod cron;
mod kubernetes;
mod lock_servers;
mod systemd;

/// The host name for files that use one.
const HOST: &str = "host-1";

fn recipe_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/recipes/files").join(name)
}

/// Returns the text of a file without its comments.
fn recipe(name: &str) -> String {
    let path = recipe_path(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.to_owned() + "\n").collect()
}

/// A simulated machine: a quorum of three servers, and a directory in place of `/usr/local/bin` and
/// `/etc` that has the command and the programs of the recipes.
struct Machine {
    cluster: Cluster,
    scratch: Scratch,
}

/// A job that writes its token and arguments to `noted`, and ends when the file `go` exists.
const REPORT: &str =
    "echo \"$REDQUORUM_FENCING_TOKEN $*\" >> noted; until [ -e go ]; do /bin/sleep 0.01; done";
/// A command of a leader, which writes its term to `noted`, and does not end.
const SCHEDULER: &str = "echo \"$REDQUORUM_TERM\" >> noted; exec /bin/sleep 1000";

impl Machine {
    async fn new() -> Self {
        let machine = Self { cluster: Cluster::start(3).await, scratch: Scratch::new() };
        symlink(env!("CARGO_BIN_EXE_redquorum"), machine.scratch.file("redquorum")).unwrap();
        for (name, text) in [("nightly-report", REPORT), ("scheduler", SCHEDULER)] {
            let file = machine.scratch.file(name);
            let script = format!("#!/bin/sh\ncd '{}'\n{text}\n", machine.scratch.path().display());
            std::fs::write(&file, script).unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let file = format!("nodes = {:?}\n", machine.cluster.urls());
        std::fs::write(machine.scratch.file("redquorum.toml"), file).unwrap();
        let init = output(command_on(&machine.cluster, ["init"])).await;
        assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
        machine
    }

    /// Replaces the paths in a text by paths of this machine.
    fn with_local_paths(&self, text: &str) -> String {
        let directory = format!("{}/", self.scratch.path().display());
        text.replace("/usr/local/bin/", &directory).replace("/etc/", &directory)
    }

    /// Returns a command of a recipe, with only the variables of that recipe.
    fn command(&self, words: &[String], variables: &[(String, String)]) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.scratch.path().display());
        let mut words = words.iter().map(|word| self.with_local_paths(word));
        let program = words.next().unwrap();
        // The program is searched for in the PATH of the command, not in the PATH of the test.
        let program = match program.as_str() {
            "sh" => "/bin/sh".to_owned(),
            path if path.contains('/') => path.to_owned(),
            name => self.scratch.file(name),
        };
        let mut command = Command::new(program);
        command.args(words).env_clear().env("PATH", path).kill_on_drop(true).process_group(0);
        let variables = variables.iter().filter(|(name, _)| name != "PATH");
        command.envs(variables.map(|(name, value)| (name, self.with_local_paths(value))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a job on two hosts at once. Returns the output of the host that ran the job, and of the
    /// host that found the lock held.
    async fn run_on_two_hosts(&self, job: impl Fn() -> Command) -> (Output, Output) {
        let first = job().spawn().unwrap();
        self.notes(1).await;
        let second = output(job()).await;
        std::fs::write(self.scratch.file("go"), "").unwrap();
        (wait_for_output(first).await, second)
    }

    /// Waits until the programs have written `count` lines to `noted`, and returns them.
    async fn notes(&self, count: usize) -> Vec<String> {
        self.scratch.lines("noted", count).await
    }

    /// Waits until a leader has started its command, sends SIGTERM to the leader, and returns its
    /// output.
    async fn terminate_leader(&self, leader: Child) -> Output {
        let term = self.notes(1).await.remove(0);
        assert!(term.parse::<u64>().is_ok(), "{term}");
        send_signal(leader.id().unwrap(), Signal::TERM);
        wait_for_output(leader).await
    }

    /// Returns the value of the leader.
    async fn leader(&self, election: &str) -> String {
        let shown = output(command_admitting_new_nodes(&self.cluster, ["observe", election, "--once"])).await;
        assert_eq!(exit_code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown).trim_end().rsplit('\t').next().unwrap().to_owned()
    }

    /// Checks that the report ran once, with its token as an argument, and that a host with a late clock still finds
    /// the lock held.
    async fn assert_one_run_with_token(&self, late: Command) {
        let late = output(late).await;
        assert_eq!(exit_code(&late), 75, "{}", stderr(&late));
        let notes = self.notes(1).await;
        let token: Vec<&str> = notes[0].split(' ').collect();
        assert!(notes.len() == 1 && token[0] == token[1], "expected one run with its token: {notes:?}");
    }
}

/// Checks that the command reads each of these variables: the help of the command or the library's
/// settings contain its name.
async fn assert_variables_are_read(variables: &[(String, String)], command: &str) {
    let help = output(redquorum([command, "--help"])).await;
    let shared = output(redquorum(["--help"])).await;
    let settings = include_str!("../../../src/settings/mod.rs");
    let text = stdout(&help) + &stdout(&shared) + settings;
    let is_part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let known: BTreeSet<&str> = text.split(|letter| !is_part(letter)).collect();
    for (name, _) in variables.iter().filter(|(name, _)| name.starts_with("REDQUORUM_")) {
        assert!(known.contains(name.as_str()), "{command} does not read {name}");
    }
}

/// Checks that no label is set. A recipe could only set the host name as the label, but a host name
/// may be longer than the 48 bytes of a label. The default label has the host name, shortened if
/// necessary.
fn assert_no_label(variables: &[(String, String)]) {
    assert!(variables.iter().all(|(name, _)| name != "REDQUORUM_LABEL"), "{variables:?}");
}
