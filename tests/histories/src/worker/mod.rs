//! A worker: a process that locks, works on the lists of the store, and writes what happens to its standard output. A
//! worker ends when its standard input is closed, or when it is killed.

mod election;
mod journal;
mod lock;
mod rw_lock;
mod semaphore;
mod store;
mod ticket;

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redquorum::{FencingToken, LockOptions, Quorum, QuorumBuilder, RestartGuard};
use tokio::{runtime, time::sleep};

use self::{
    journal::{Begun, Held, Journal},
    store::{Role, StoreClient},
};
use crate::{
    event::{Object, Stage, Value},
    kind::{Kind, Store},
};

/// The ttl of leases. A worker is stopped for longer, so that leases end while their holders are stopped.
pub(crate) const TTL: Duration = Duration::from_millis(600);

/// The largest ttl, which is also the length of a quarantine.
const MAX_TTL: Duration = Duration::from_secs(1);

/// The drift of the quorum.
const DRIFT: f64 = 0.01;

/// The longest time that a waiter sleeps without a notice: short, so that waiters often attempt in vain.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The longest wait of a call for a lock.
const WAIT: Duration = Duration::from_secs(2);

/// The time between a read and the write that depends on the read, in milliseconds.
const THINKING: std::ops::RangeInclusive<u64> = 30..=50;

/// The time after a failed call, so that a worker without a quorum is not busy.
const PAUSE: Duration = Duration::from_millis(20);

/// The arguments of a worker.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerArguments {
    pub(crate) kind: Kind,
    pub(crate) store: Store,
    /// The number of the worker, different from the numbers of all other workers.
    #[arg(long)]
    pub(crate) process: i64,
    #[arg(long)]
    pub(crate) seed: u64,
    /// The url of the store.
    #[arg(long)]
    pub(crate) store_url: String,
    /// The urls of the nodes.
    #[arg(long, value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Locks without the restart guard.
    #[arg(long)]
    pub(crate) without_restart_guard: bool,
}

impl WorkerArguments {
    /// Returns the settings of the quorum, which all workers of a run share.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        let builder = Quorum::builder()
            .nodes(&self.nodes)
            .name("histories")
            .ttl(TTL)
            .max_ttl(MAX_TTL)
            .drift(DRIFT)
            .attempt_timeout(Duration::from_millis(500));
        if self.without_restart_guard { builder.restart_guard(RestartGuard::Off) } else { builder }
    }

    /// Returns the arguments as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let Self { kind, store, process, seed, store_url, nodes, without_restart_guard } = self;
        let mut words = vec![kind.to_string(), store.to_string(), format!("--process={process}")];
        words.extend([format!("--seed={seed}"), format!("--store-url={store_url}")]);
        words.push(format!("--nodes={}", nodes.join(",")));
        if *without_restart_guard {
            words.push("--without-restart-guard".into());
        }
        words
    }
}

/// Works until the standard input is closed.
pub(crate) fn work(arguments: &WorkerArguments) -> anyhow::Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&is_over);
    thread::spawn(move || {
        io::stdin().read_to_end(&mut Vec::new()).ok();
        end.store(true, Ordering::Relaxed);
    });
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let quorum = arguments.builder().connect().await.context("no connection to the quorum")?;
        let store = StoreClient::connect(&arguments.store_url, arguments.store).await?;
        let random = StdRng::seed_from_u64(arguments.seed);
        let journal = Journal::new(arguments.process);
        let has_restart_guard = !arguments.without_restart_guard;
        let mut worker =
            Worker { quorum: quorum.clone(), has_restart_guard, store, random, journal, elements: 0 };
        while !is_over.load(Ordering::Relaxed) {
            match arguments.kind {
                Kind::Lock => worker.lock().await?,
                Kind::RwLock => worker.rw_lock().await?,
                Kind::Semaphore => worker.semaphore().await?,
                Kind::Election => worker.election().await?,
                Kind::Ticket => worker.ticket().await?,
            }
        }
        quorum.shutdown().await;
        Ok(())
    })
}

struct Worker {
    quorum: Quorum,
    has_restart_guard: bool,
    store: StoreClient,
    random: StdRng,
    journal: Journal,
    elements: i64,
}

impl Worker {
    async fn think(&mut self) {
        sleep(Duration::from_millis(self.random.random_range(THINKING))).await;
    }

    /// Reads a list, thinks, and writes the list with one more element, under a lease that writes.
    async fn append(&mut self, list: i64, lease: &redquorum::Lease, held: &mut Held) -> anyhow::Result<()> {
        self.elements += 1;
        let element = self.elements * 100 + self.journal.process();
        let token = lease.fencing_token();
        let append = part("append", list, element);
        let asked = Value::pair(part("r", list, None), append.clone());
        let transaction = self.journal.begin(Object::Lists, "txn", asked)?;
        let Some(mut elements) = self.store.read(list, token, Role::Writer).await? else {
            return self.refuse(transaction, token);
        };
        self.journal.look(lease, held)?;
        self.think().await;
        self.journal.look(lease, held)?;
        let read = part("r", list, elements.as_slice());
        elements.push(element);
        if self.store.write(list, token, &elements).await? {
            self.journal.end(transaction, Stage::Ok, Value::pair(read, append))
        } else {
            self.refuse(transaction, token)
        }
    }

    /// Reads a list twice, under a lease that reads.
    async fn read_twice(
        &mut self,
        list: i64,
        lease: &redquorum::Lease,
        held: &mut Held,
    ) -> anyhow::Result<()> {
        let token = lease.fencing_token();
        let asked = Value::pair(part("r", list, None), part("r", list, None));
        let transaction = self.journal.begin(Object::Lists, "txn", asked)?;
        let Some(first) = self.store.read(list, token, Role::Reader).await? else {
            return self.refuse(transaction, token);
        };
        self.journal.look(lease, held)?;
        self.think().await;
        self.journal.look(lease, held)?;
        let Some(second) = self.store.read(list, token, Role::Reader).await? else {
            return self.refuse(transaction, token);
        };
        let read = Value::pair(part("r", list, first.as_slice()), part("r", list, second.as_slice()));
        self.journal.end(transaction, Stage::Ok, read)
    }

    /// Writes that the store has refused the token. The refused access has changed nothing.
    fn refuse(&mut self, transaction: Begun, token: FencingToken) -> anyhow::Result<()> {
        self.journal.end(transaction, Stage::Fail, i64::from(token).into())
    }
}

/// Returns the options of every lock.
fn options() -> LockOptions {
    LockOptions::new().ttl(TTL).poll_interval(POLL_INTERVAL)
}

/// Returns one part of a transaction, in the form that Elle reads.
fn part(name: &str, list: i64, value: impl Into<Value>) -> Value {
    Value::Vector(vec![Value::Keyword(name.into()), list.into(), value.into()])
}
