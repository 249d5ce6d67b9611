//! Three candidates for one leadership. The first leader is killed, and the second and the third leader resign.
//!
//! Each write of a leader has the term of the leader. If a write of the killed leader arrives late, the store
//! refuses the term. Each candidate has a client and a runtime of its own, as a
//! process would. To kill a leader, the example forgets the leadership and drops the runtime, so that
//! no code unlocks the lease.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --example leader_election
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --example leader_election
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work")]

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use redquorum::{
    Error, Fence, FencingToken, LockOptions, MemoryCluster, Quorum, QuorumBuilder, election::Leadership,
    error::StaleToken,
};

/// The ttl of a leadership. After the death of a leader, the next candidate waits for about this time.
const SHORT_TTL: LockOptions = LockOptions::new().ttl(Duration::from_secs(1));

/// The nodes of the election.
#[derive(Clone)]
enum Nodes {
    Memory(MemoryCluster),
    Redis(Box<QuorumBuilder>),
}

/// The store of the leaders' writes. In SQL, the rule is `WHERE term <= :term`.
#[derive(Default)]
struct Store {
    fence: Fence,
    writes: u32,
}

/// The end of a leadership.
enum Fate {
    Killed,
    Resigns,
}

fn main() -> anyhow::Result<()> {
    let nodes = match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => Nodes::Redis(Box::new(builder.admit_new_nodes())),
        Err(_) => Nodes::Memory(MemoryCluster::new(5)),
    };
    let store = Arc::new(Mutex::new(Store::default()));
    // Each leader removes the last fate of the list, and has this fate.
    let fates = Arc::new(Mutex::new(vec![Fate::Resigns, Fate::Resigns, Fate::Killed]));
    let candidates = ["host-1", "host-2", "host-3"].map(|name| {
        let (nodes, store, fates) = (nodes.clone(), Arc::clone(&store), Arc::clone(&fates));
        thread::spawn(move || -> anyhow::Result<()> {
            let process = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let killed = process.block_on(lead(name, &nodes, &store, &fates))?;
            // Without the runtime, no task renews the lease, and no task unlocks.
            drop(process);
            if let Some(term) = killed {
                write_late(name, term, &store);
            }
            Ok(())
        })
    });
    for candidate in candidates {
        candidate.join().map_err(|_| anyhow::anyhow!("a candidate panicked"))??;
    }
    println!("the store has accepted {} writes", lock(&store).writes);
    Ok(())
}

/// Campaigns and leads until the leader is killed or resigns. Returns the term of a killed leader.
async fn lead(
    name: &str,
    nodes: &Nodes,
    store: &Mutex<Store>,
    fates: &Mutex<Vec<Fate>>,
) -> anyhow::Result<Option<FencingToken>> {
    let quorum = connect(nodes).await?;
    let election = quorum.election("example:scheduler").options(SHORT_TTL);
    loop {
        let leadership = match election.campaign(name).await {
            Ok(leadership) => leadership,
            // The call returns this error after the quorum timeout, so the loop is not busy.
            Err(Error::NoQuorum(shortage)) => {
                println!("{name} campaigns again: {shortage}");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        println!("{name} leads in term {}", leadership.term());
        match leadership.while_valid(serve(&leadership, store)).await {
            Ok(written) => written?,
            // The work has stopped. Another candidate may lead by now.
            Err(Error::LeaseLost(lost)) => {
                println!("{name}: {lost}");
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(Fate::Killed) = lock(fates).pop() {
            let term = leadership.term();
            println!("{name} is killed before its last write arrives");
            // A killed process does not run destructors.
            std::mem::forget(leadership);
            return Ok(Some(term));
        }
        println!("{name} resigns");
        leadership.resign().await?;
        quorum.shutdown().await;
        return Ok(None);
    }
}

/// Makes the writes of a leader, each with the term.
async fn serve(leadership: &Leadership, store: &Mutex<Store>) -> Result<(), StaleToken> {
    for _ in 0..5 {
        lock(store).write(leadership.term())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Makes the last write of a killed leader, after the first write of the next leader.
fn write_late(name: &str, term: FencingToken, store: &Mutex<Store>) {
    while lock(store).fence.writer <= Some(term) {
        thread::sleep(Duration::from_millis(10));
    }
    let refused = lock(store).write(term).expect_err("the next leader has a larger term");
    println!("the late write of {name} is refused: {refused}");
}

impl Store {
    fn write(&mut self, term: FencingToken) -> Result<(), StaleToken> {
        self.fence.write(term)?;
        self.writes += 1;
        Ok(())
    }
}

async fn connect(nodes: &Nodes) -> Result<Quorum, Error> {
    match nodes {
        Nodes::Memory(cluster) => Quorum::builder().connect_in_memory(cluster),
        Nodes::Redis(builder) => builder.clone().connect().await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
