//! Re-entrancy is explicit: a task with the same `Owner` may lock again what it holds. No other
//! task may.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use redquorum::{
    Owner, Quorum,
    error::{ConnectError, LockError},
};

const ORDER: &str = "example:order:7";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let owner = Owner::new();

    let outer = quorum.red_lock(ORDER).owned_by(&owner).lock().await?;
    println!("outer: holds {}, token {}", outer.holds(), outer.fencing_token());

    // Passed on explicitly, to a function that locks for itself.
    let token = ship(&quorum, &owner).await?;
    assert_eq!(token, outer.fencing_token().as_u64(), "the same lease, hence the same token");

    // Or implied for everything that a future awaits: `bill` knows nothing of owners.
    owner.scope(bill(&quorum)).await?;

    // Without the owner it is held, even in the same task.
    let stranger = quorum.red_lock(ORDER).try_lock().await?;
    println!("without the owner: {}", if stranger.is_some() { "locked twice" } else { "held by another" });
    assert!(stranger.is_none());

    println!("outer again: holds {}", outer.holds());
    outer.unlock().await?; // the last guard unlocks
    quorum.shutdown().await;
    Ok(())
}

async fn ship(quorum: &Quorum, owner: &Owner) -> anyhow::Result<u64> {
    let inner = quorum.red_lock(ORDER).owned_by(owner).lock().await?;
    println!("ship:  holds {}, token {}", inner.holds(), inner.fencing_token());
    let token = inner.fencing_token().as_u64();
    inner.unlock().await?; // one hold less; the resource stays locked
    Ok(token)
}

async fn bill(quorum: &Quorum) -> Result<(), LockError> {
    let inner = quorum.red_lock(ORDER).lock().await?;
    println!("bill:  holds {}, token {}", inner.holds(), inner.fencing_token());
    Ok(()) // dropping the guard gives the hold back as well
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
