//! Explicit re-entrancy: calls with the same `Owner` may lock a held resource again. Other calls may not.
//!
//! `cargo run --example reentrancy`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use redquorum::{Error, FencingToken, Owner, Quorum};

const ORDER: &str = "example:order:7";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let owner = Owner::new();

    let outer = quorum.red_lock(ORDER).owned_by(&owner).lock().await?;
    println!("outer: holds {}, token {}", outer.holds(), outer.fencing_token());

    // The owner can be passed to a function, which then locks the same resource.
    let token = ship(&quorum, &owner).await?;
    assert_eq!(token, outer.fencing_token(), "the re-entry has another token than the lease");

    // In a scope, all locks have the owner: the code of `bill` does not mention owners.
    owner.scope(bill(&quorum)).await?;

    // A call without the owner finds the resource held, even in the same task.
    let without_owner = quorum.red_lock(ORDER).try_lock().await?;
    println!("without the owner: {}", if without_owner.is_some() { "locked twice" } else { "held" });
    assert!(without_owner.is_none());

    println!("outer: holds {}", outer.holds());
    outer.unlock().await?; // the last guard unlocks the resource
    quorum.shutdown().await;
    Ok(())
}

async fn ship(quorum: &Quorum, owner: &Owner) -> Result<FencingToken, Error> {
    let inner = quorum.red_lock(ORDER).owned_by(owner).lock().await?;
    println!("ship:  holds {}, token {}", inner.holds(), inner.fencing_token());
    let token = inner.fencing_token();
    inner.unlock().await?; // removes one hold; the resource stays locked
    Ok(token)
}

async fn bill(quorum: &Quorum) -> Result<(), Error> {
    let inner = quorum.red_lock(ORDER).lock().await?;
    println!("bill:  holds {}, token {}", inner.holds(), inner.fencing_token());
    Ok(()) // dropping the guard also removes the hold
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
