//! Three candidates for one leadership: the first leader is killed, the second resigns, the third
//! takes over.
//!
//! Every write of a leader carries its term, and the store refuses the one that was killed when its
//! last write comes late. Each candidate has a client and a runtime of its own, as a process has;
//! being killed is to leave all of that where it is.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --example leader_election
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --example leader_election
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::disallowed_methods,
    reason = "sleeping stands for work; only the library must not sleep so"
)]

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use redquorum::{FencingToken, Leadership, MemoryCluster, Quorum, QuorumBuilder, error::ConnectError};

type Outcome = anyhow::Result<()>;

/// Where the nodes are.
#[derive(Clone)]
enum Nodes {
    Memory(MemoryCluster),
    Redis(QuorumBuilder),
}

/// What the leader writes to: it remembers the largest term that was here. In SQL it is a
/// `WHERE term <= :term`.
#[derive(Default)]
struct Store {
    term: Option<FencingToken>,
    writes: u32,
}

/// What becomes of a leader when it has done its part.
enum Fate {
    Killed,
    Resigns,
}

fn main() -> Outcome {
    let nodes = match Quorum::builder().nodes_from_env() {
        Ok(builder) => Nodes::Redis(builder.admit_new_nodes()),
        Err(_) => Nodes::Memory(MemoryCluster::new(5)),
    };
    let store = Arc::new(Mutex::new(Store::default()));
    // The leader takes the last of these upon itself.
    let fates = Arc::new(Mutex::new(vec![Fate::Resigns, Fate::Resigns, Fate::Killed]));
    let candidates = ["host-1", "host-2", "host-3"].map(|name| {
        let (nodes, store, fates) = (nodes.clone(), Arc::clone(&store), Arc::clone(&fates));
        thread::spawn(move || -> Outcome {
            let process = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let killed = process.block_on(campaign(name, &nodes, &store, &fates))?;
            // From here on nothing of it runs any more: nobody renews the lease, and nobody gives
            // it back.
            drop(process);
            if let Some(term) = killed {
                late_write(name, term, &store);
            }
            Ok(())
        })
    });
    for candidate in candidates {
        candidate.join().map_err(|_| anyhow::anyhow!("a candidate panicked"))??;
    }
    println!("the store has taken {} writes", lock(&store).writes);
    Ok(())
}

/// To lead whenever it can: losing the leadership and campaigning again is one loop. Returns the
/// term of a leader that is killed.
async fn campaign(
    name: &str,
    nodes: &Nodes,
    store: &Mutex<Store>,
    fates: &Mutex<Vec<Fate>>,
) -> anyhow::Result<Option<FencingToken>> {
    let quorum = connect(nodes).await?;
    let election = quorum.election("example:scheduler").value(name).ttl(Duration::from_secs(1));
    loop {
        let leadership = election.campaign().await?;
        println!("{name} leads in term {}", leadership.term());
        tokio::select! {
            written = serve(&leadership, store) => written?,
            why = leadership.lost() => {
                println!("{name}: {why}");
                continue;
            }
        }
        if let Some(Fate::Killed) = lock(fates).pop() {
            let term = leadership.term();
            println!("{name} is killed, with a write on its way");
            std::mem::forget(leadership);
            return Ok(Some(term));
        }
        println!("{name} resigns");
        leadership.resign().await?;
        quorum.shutdown().await;
        return Ok(None);
    }
}

/// A leader's work: writes that carry its term.
async fn serve(leadership: &Leadership, store: &Mutex<Store>) -> anyhow::Result<()> {
    for _ in 0..5 {
        lock(store).write(leadership.term())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The write that was on its way when the leader was killed comes after the first write of the next
/// leader.
fn late_write(name: &str, term: FencingToken, store: &Mutex<Store>) {
    while lock(store).term <= Some(term) {
        thread::sleep(Duration::from_millis(10));
    }
    match lock(store).write(term) {
        Ok(()) => unreachable!("the store took a write of a deposed leader"),
        Err(refused) => println!("the late write of {name}: refused, {refused}"),
    }
}

impl Store {
    /// One leader writes more than once, so only a smaller term is refused.
    fn write(&mut self, term: FencingToken) -> anyhow::Result<()> {
        if let Some(seen) = self.term.filter(|seen| term < *seen) {
            anyhow::bail!("term {term} is over, a write of term {seen} was here");
        }
        self.term = Some(term);
        self.writes += 1;
        Ok(())
    }
}

async fn connect(nodes: &Nodes) -> Result<Quorum, ConnectError> {
    match nodes {
        Nodes::Memory(cluster) => Quorum::builder().in_memory(cluster),
        Nodes::Redis(builder) => builder.clone().connect().await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
