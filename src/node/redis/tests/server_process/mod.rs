//! A server that runs as a child process of a test. The tests of this crate use this module, and so do the tests on
//! whole clusters.

pub(crate) mod lock_file;
pub(crate) mod port;
pub(crate) mod program;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// The longest wait for a server: enough for a slow machine under load, and short enough to end before the
/// test runner ends the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server process and its data directory. A drop kills the process and deletes the directory.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    directory: PathBuf,
    arguments: Vec<String>,
}

impl ServerProcess {
    /// Starts the server with these arguments and this data directory. The server may not answer yet.
    pub(crate) fn start(directory: PathBuf, arguments: Vec<String>) -> Self {
        std::fs::create_dir_all(&directory).expect("the directory of the server is writable");
        let child = spawn(&directory, &arguments);
        Self { child, directory, arguments }
    }

    /// Waits until `answer` returns a value.
    ///
    /// # Panics
    ///
    /// If the server has ended, or does not answer in time.
    pub(crate) fn first_answer<T>(&mut self, mut answer: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(failure) = self.failure() {
                panic!("{failure}");
            }
            if let Some(answer) = answer() {
                return answer;
            }
            assert!(Instant::now() < deadline, "the server does not answer");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the reason why the server has ended, or `None` while it runs.
    pub(crate) fn failure(&mut self) -> Option<String> {
        let status = self.child.try_wait().expect("the state of a child process can be read")?;
        let log = std::fs::read_to_string(log_of(&self.directory)).unwrap_or_default();
        Some(format!("redis-server ended with {status}:\n{log}"))
    }

    /// Suspends the process with SIGSTOP.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Whether the process is suspended. In `/proc`, the letter of the state follows the name of the program, which is
    /// in brackets.
    pub(crate) fn is_frozen(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends the process with SIGKILL, even if the process is suspended. Does nothing after the end
    /// of the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child process can be killed");
        self.child.wait().expect("a killed child process can be waited for");
    }

    pub(crate) fn restart_keeping_data(&mut self) {
        self.kill();
        self.child = spawn(&self.directory, &self.arguments);
    }

    pub(crate) fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.directory).expect("the data of a killed server can be removed");
        std::fs::create_dir(&self.directory).expect("the directory of the server is writable");
        self.child = spawn(&self.directory, &self.arguments);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a running server can be sent a signal");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
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

/// Spawns the command on a thread that ends with this process. The kernel sends the parent death signal when the
/// *thread* that spawned the child ends, and the threads of a test and of a runtime end before the process.
fn on_lasting_thread(command: Command) -> Child {
    type Request = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = channel::<Request>();
        thread::spawn(move || {
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
