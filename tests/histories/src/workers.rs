//! The worker processes of a run, and the events that the workers have written.

use std::{
    env,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    event::{Event, Object, Stage},
    worker::WorkerArguments,
};

/// The number of workers at any time.
pub(crate) const WORKERS: usize = 4;

/// The time in which a worker ends after its standard input is closed. A call for a lock takes at most two seconds, and
/// a shutdown three.
const PATIENCE: Duration = Duration::from_secs(20);

/// The events that the workers of a run have written, in no order across workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<Event>>>);

impl Written {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    /// Returns whether the worker with this number is between the beginning and the end of a transaction on a list.
    fn has_transaction(&self, number: i64) -> bool {
        let written = self.lock();
        let last =
            written.iter().rev().find(|event| event.process == number && event.object == Object::Lists);
        last.is_some_and(|event| event.stage == Stage::Invoke)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the events of one worker. The last line of a worker that was killed may be incomplete, and is left out.
    async fn read(self, output: ChildStdout) -> anyhow::Result<()> {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while output.read_line(&mut line).await? > 0 && line.ends_with('\n') {
            let event = Event::parse(&line)?;
            self.lock().push(event);
            line.clear();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Worker {
    number: i64,
    process: Child,
    output: JoinHandle<anyhow::Result<()>>,
}

/// The workers of a run. A worker that was killed is replaced by a worker with a new number.
#[derive(Debug)]
pub(crate) struct Workers {
    arguments: WorkerArguments,
    written: Written,
    workers: Vec<Worker>,
    killed: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Workers {
    /// Starts all workers. The process number and the seed in the arguments are those of the first worker.
    pub(crate) fn start(arguments: WorkerArguments) -> anyhow::Result<Self> {
        let written = Written::default();
        let mut workers = Self { arguments, written, workers: Vec::new(), killed: Vec::new() };
        for _ in 0..WORKERS {
            let worker = workers.start_one()?;
            workers.workers.push(worker);
        }
        Ok(workers)
    }

    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// Returns the workers that are in a transaction on a list.
    pub(crate) fn in_transactions(&self) -> Vec<usize> {
        let is_in =
            |(index, worker): (usize, &Worker)| self.written.has_transaction(worker.number).then_some(index);
        self.workers.iter().enumerate().filter_map(is_in).collect()
    }

    /// Stops a worker by SIGSTOP.
    pub(crate) fn stop(&self, worker: usize) -> anyhow::Result<()> {
        self.signal(worker, Signal::STOP)
    }

    /// Continues a stopped worker by SIGCONT.
    pub(crate) fn resume(&self, worker: usize) -> anyhow::Result<()> {
        self.signal(worker, Signal::CONT)
    }

    /// Kills a worker by SIGKILL, and starts a new worker in the same place.
    pub(crate) async fn replace(&mut self, worker: usize) -> anyhow::Result<()> {
        let next = self.start_one()?;
        let mut killed = std::mem::replace(&mut self.workers[worker], next);
        killed.process.kill().await?;
        self.killed.push(killed.output);
        Ok(())
    }

    /// Lets all workers end, and waits until all events are read.
    pub(crate) async fn end(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for mut worker in self.workers.drain(..) {
            let status =
                timeout(PATIENCE, worker.process.wait()).await.context("a worker does not end")??;
            worker.output.await??;
            if !status.success() {
                bail!("a worker has failed: {status}");
            }
        }
        for output in self.killed.drain(..) {
            output.await??;
        }
        Ok(())
    }

    fn start_one(&mut self) -> anyhow::Result<Worker> {
        let mut process = Command::new(env::current_exe()?)
            .arg("worker")
            .args(self.arguments.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a worker")?;
        let number = self.arguments.process;
        self.arguments.process += 1;
        self.arguments.seed = self.arguments.seed.wrapping_add(1);
        let output = process.stdout.take().context("a worker has no output")?;
        Ok(Worker { number, process, output: tokio::spawn(self.written.clone().read(output)) })
    }

    fn signal(&self, worker: usize, signal: Signal) -> anyhow::Result<()> {
        let pid = self.workers[worker].process.id().context("a worker has ended early")?;
        let pid = Pid::from_raw(pid.cast_signed()).context("a worker has no process id")?;
        Ok(kill_process(pid, signal)?)
    }
}
