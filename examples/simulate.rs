//! Tests a critical section of one's own: does it lose updates when a holder is paused past the end
//! of its lease?
//!
//! `cargo run --features sim --example simulate`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::Quorum;
use redquorum::sim::{Campaign, Client, Found, Promise, Promises, Schedule, Schedules, Simulation, Summary};

/// Shorter than faults last.
const TTL: Duration = Duration::from_secs(5);

/// Adds one to the balance, under the token: the store refuses an old one.
async fn careful(client: Client) {
    let quorum = Quorum::builder().ttl(TTL).simulated(&client).expect("the settings can work");
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
    let quorum = Quorum::builder().ttl(TTL).simulated(&client).expect("the settings can work");
    let store = client.store("balance").expect("a short name");
    let Ok(guard) = quorum.red_lock("account").lock().await else { return };
    if guard.is_valid() {
        let balance = store.read_unfenced().await;
        client.sleep(Duration::from_millis(20)).await; // paused here, it writes what was true before the pause
        store.write_unfenced(balance + 1).await;
    }
}

/// Two or three processes under faults that begin while they work: the smallest schedule that
/// breaks a promise.
fn search<Program>(program: impl Fn(Client) -> Program + Sync) -> Result<Summary, Box<Found<Schedule>>>
where
    Program: Future<Output = ()> + Send + 'static,
{
    let schedules = Schedules::tolerated().nodes([3]).clients(2..=3).within(Duration::from_millis(100));
    Campaign::new(1000).run(&schedules.strategy(), |schedule| {
        let report = Simulation::new(schedule.clone()).run(&program);
        report.check(&Promises::ALL).map(|()| report)
    })
}

fn main() {
    let Summary { runs, .. } = search(careful).expect("no update is lost under a token");
    println!("careful: no update lost under any of {runs} schedules\n");
    let found = search(careless).expect_err("the lock alone cannot prevent it");
    println!("careless: {found}");
    assert!(found.failure.breaks(Promise::Register));
}
