//! Tests a critical section of one's own: does it lose updates when a holder is paused past the end of its lease?
//!
//! `cargo run --features sim --example simulate`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::sim::{Client, Failure, Fault, Promise, Promises, Schedule, Simulation};

/// Adds one to the balance, under the token: the store refuses whoever comes with an old one.
async fn careful(client: Client) {
    let quorum = client.quorum().expect("a simulation has nodes");
    let store = client.store("balance").expect("a short name");
    let Ok(guard) = quorum.red_lock("account").lock().await else { return };
    let token = guard.fencing_token();
    if let Some(balance) = store.read(token).await {
        client.sleep(Duration::from_millis(20)).await; // the work
        store.write(token, balance + 1).await;
    }
}

/// The same, trusting the lock alone.
async fn careless(client: Client) {
    let quorum = client.quorum().expect("a simulation has nodes");
    let store = client.store("balance").expect("a short name");
    let Ok(guard) = quorum.red_lock("account").lock().await else { return };
    let balance = store.read_unfenced().await;
    client.sleep(Duration::from_millis(20)).await;
    if guard.is_valid() {
        store.write_unfenced(balance + 1).await; // paused between the two, it writes an old balance
    }
}

/// Three processes, one of which stands still for a minute, early or a little later.
fn search<Program>(program: impl Fn(Client) -> Program) -> Result<(), Box<Failure>>
where
    Program: Future<Output = ()> + Send + 'static,
{
    for seed in 0..100 {
        let pause = Fault::Pause { client: 0, lasts: Duration::from_secs(60) };
        let schedule = Schedule::calm(seed, 3, 3).with(Duration::from_millis(seed), pause);
        Simulation::new(schedule).run(&program).check(&Promises::ALL)?;
    }
    Ok(())
}

fn main() {
    search(careful).expect("no update is lost under a token");
    println!("careful: no update lost under any of 100 schedules\n");
    let failure = search(careless).expect_err("the lock alone cannot prevent it");
    println!("careless:\n{failure}");
    assert!(failure.violations.is_some_and(|violations| violations.breaks(Promise::Register)));
}
