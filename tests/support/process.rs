//! A server that runs as a child process of the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually::eventually;
use super::options::ServerOptions;
use super::program;

/// One `redis-server` process and the directory with its data.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    directory: PathBuf,
    arguments: Vec<String>,
}

impl ServerProcess {
    /// Starts a server that keeps its data in `directory`; it need not answer yet.
    pub(super) fn start(directory: PathBuf, options: &ServerOptions, port: u16) -> Self {
        Self::run(directory, options.arguments(port))
    }

    /// Starts the program with these words behind it, and `directory` as its own.
    pub(super) fn run(directory: PathBuf, arguments: Vec<String>) -> Self {
        std::fs::create_dir_all(&directory).expect("the directory of the cluster is writable");
        let child = spawn(&directory, &arguments);
        Self { child, directory, arguments }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Why the server is no longer running, or nothing while it runs.
    pub(super) fn failure(&mut self) -> Option<String> {
        let status = self.child.try_wait().expect("the state of a child process can be read")?;
        let log = std::fs::read_to_string(log_of(&self.directory)).unwrap_or_default();
        Some(format!("redis-server ended with {status}:\n{log}"))
    }

    /// Stops the process where it stands; when this returns, it no longer executes.
    pub(super) async fn freeze(&self) {
        self.signal(Signal::STOP);
        let what = "the server process is stopped";
        eventually(Duration::from_secs(10), what, async || self.state() == Some('T')).await;
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends the process with SIGKILL, frozen or not; does nothing to one that has ended.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("a child process can be killed");
        self.child.wait().expect("a killed child process can be waited for");
    }

    pub(super) fn restart_keeping_data(&mut self) {
        self.kill();
        self.child = spawn(&self.directory, &self.arguments);
    }

    pub(super) fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.directory).expect("the data of a killed server can be removed");
        std::fs::create_dir(&self.directory).expect("the directory of the cluster is writable");
        self.child = spawn(&self.directory, &self.arguments);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a running server can be sent a signal");
    }

    /// The state letter of the process in `/proc`, which comes after its name in brackets.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn log_of(directory: &Path) -> PathBuf {
    directory.join("log")
}

/// Starts a server that the kernel kills together with this test process.
fn spawn(directory: &Path, arguments: &[String]) -> Child {
    let program = program::server();
    let mut command = match program::find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let log =
        File::options().create(true).append(true).open(log_of(directory)).expect("the log can be written");
    command.args(arguments).arg("--dir").arg(directory);
    command.stdin(Stdio::null()).stderr(log.try_clone().expect("a file can be shared")).stdout(log);
    on_lasting_thread(command)
}

/// Spawns on a thread that lives as long as the process: a parent death signal comes with the death
/// of the *thread* that started the child, and the threads of a test and of its runtime come and
/// go.
fn on_lasting_thread(command: Command) -> Child {
    type Request = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                reply.send(command.spawn()).ok();
            }
        });
        Mutex::new(requests)
    });
    let (reply, child) = channel();
    spawner
        .lock()
        .expect("no sender panics")
        .send((command, reply))
        .expect("the spawner outlives its requests");
    child.recv().expect("every request is answered").expect("the server program can be started")
}
