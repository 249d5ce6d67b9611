//! The files of `examples/recipes/files`, run with the built command.

use std::{
    collections::BTreeSet,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Output, Stdio},
};

use redquorum_tests::Cluster;
use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::{
    redquorum::{code, ended, on, output, plainly, redquorum, send, stderr, stdout},
    scratch::Scratch,
};

mod certificates;
mod cron;
mod kubernetes;
mod systemd;

/// The host name for files that use one.
const HOST: &str = "host-1";

/// Returns the text of a file without its comments.
fn recipe(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/recipes/files").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.to_owned() + "\n").collect()
}

/// A machine with the command and programs to run: a quorum of three servers, and a directory in place
/// of `/usr/local/bin` and `/etc`.
struct Machine {
    cluster: Cluster,
    scratch: Scratch,
}

/// A program that notes its token and arguments, and ends when the file `go` exists.
const REPORT: &str =
    "echo \"$REDQUORUM_FENCING_TOKEN $*\" >> noted; until [ -e go ]; do /bin/sleep 0.01; done";
const SCHEDULER: &str = "echo \"$REDQUORUM_TERM\" >> noted; exec /bin/sleep 1000";
const SLEEP: &str = "echo \"$*\" >> slept";

impl Machine {
    async fn new() -> Self {
        let machine = Self { cluster: Cluster::start(3).await, scratch: Scratch::new() };
        symlink(env!("CARGO_BIN_EXE_redquorum"), machine.scratch.file("redquorum")).unwrap();
        for (name, text) in [("nightly-report", REPORT), ("scheduler", SCHEDULER), ("sleep", SLEEP)] {
            let file = machine.scratch.file(name);
            let script = format!("#!/bin/sh\ncd '{}'\n{text}\n", machine.scratch.path().display());
            std::fs::write(&file, script).unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let file = format!("nodes = {:?}\n", machine.cluster.urls());
        std::fs::write(machine.scratch.file("redquorum.toml"), file).unwrap();
        let init = output(plainly(&machine.cluster, ["init"])).await;
        assert_eq!(code(&init), 0, "{}", stderr(&init));
        machine
    }

    /// Replaces the paths of a text by those of this machine.
    fn here(&self, text: &str) -> String {
        let directory = format!("{}/", self.scratch.path().display());
        text.replace("/usr/local/bin/", &directory).replace("/etc/", &directory)
    }

    /// Returns a command of a file, with the variables of that file only.
    fn command(&self, words: &[String], variables: &[(String, String)]) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.scratch.path().display());
        let mut words = words.iter().map(|word| self.here(word));
        let program = words.next().unwrap();
        // The program is searched in the PATH of the command, not of the test.
        let program = match program.as_str() {
            "sh" => "/bin/sh".to_owned(),
            path if path.contains('/') => path.to_owned(),
            name => self.scratch.file(name),
        };
        let mut command = Command::new(program);
        command.args(words).env_clear().env("PATH", path).kill_on_drop(true).process_group(0);
        let variables = variables.iter().filter(|(name, _)| name != "PATH");
        command.envs(variables.map(|(name, value)| (name, self.here(value))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a job on two hosts at once. Returns the output of the host that ran it, and of the host that
    /// found the lock held.
    async fn run_on_two_hosts(&self, job: impl Fn() -> Command) -> (Output, Output) {
        let first = job().spawn().unwrap();
        self.noted(1).await;
        let second = output(job()).await;
        std::fs::write(self.scratch.file("go"), "").unwrap();
        (ended(first).await, second)
    }

    /// Waits for `count` lines of the notes of the programs.
    async fn noted(&self, count: usize) -> Vec<String> {
        self.scratch.lines("noted", count).await
    }

    /// Sends SIGTERM to a leader that has started its work, and returns the output.
    async fn terminate_leader(&self, leader: Child) -> Output {
        let term = self.noted(1).await.remove(0);
        assert!(term.parse::<u64>().is_ok(), "{term}");
        send(leader.id().unwrap(), Signal::TERM);
        ended(leader).await
    }

    /// Returns the value of the leader.
    async fn leader(&self, election: &str) -> String {
        let shown = output(on(&self.cluster, ["observe", election, "--once"])).await;
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown).trim_end().rsplit('\t').next().unwrap().to_owned()
    }

    /// Asserts that the report ran once with its token, and kept its lock for longer than clocks differ.
    async fn ran_once_with_its_token_and_slept(&self) {
        let noted = self.noted(1).await;
        let token: Vec<&str> = noted[0].split(' ').collect();
        assert!(noted.len() == 1 && token[0] == token[1], "it ran once, and was handed its token: {noted:?}");
        assert_eq!(self.scratch.read("slept"), "60\n");
    }
}

/// Asserts that the command reads each of these variables. The help or the library's settings, which
/// the command reads, contain the name.
async fn are_read(variables: &[(String, String)], command: &str) {
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

/// Asserts that no label is set. A label of more than 48 bytes is refused, and a host name may be
/// longer. The default label contains the host name, shortened.
fn names_of_hosts_are_no_labels(variables: &[(String, String)]) {
    assert!(variables.iter().all(|(name, _)| name != "REDQUORUM_LABEL"), "{variables:?}");
}
