//! A simulated test of a critical section, with faults such as a holder that is paused past the end
//! of the lease.
//!
//! The program `careful` uses the fencing token, and loses no update. The program `careless` uses only the
//! lock, and the simulator finds a schedule under which an update is lost.
//!
//! `cargo run --features sim --example simulate`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use redquorum::{
    Error, LockGuard, Quorum,
    sim::{Campaign, FailingCase, Process, Promise, Promises, Schedule, Schedules, Simulation, Summary},
};

/// A ttl shorter than most faults, so that leases end while their holders are paused.
const TTL: Duration = Duration::from_secs(5);

/// Adds one to the balance under the token, so the store refuses a late update.
async fn careful(process: Process) {
    let Ok(guard) = lock(&process).await else { return };
    let store = process.store("balance");
    let token = guard.fencing_token();
    let update = async {
        let balance = store.read(token).await?;
        process.sleep(Duration::from_millis(20)).await;
        store.write(token, balance + 1).await
    };
    // An update that the store refuses is not lost. A service would make the update again.
    update.await.ok();
}

/// Adds one to the balance under the lock, without the fencing token.
async fn careless(process: Process) {
    let Ok(guard) = lock(&process).await else { return };
    let store = process.store("balance");
    if guard.is_valid() {
        let balance = store.read_unfenced().await;
        // After a pause here, the process writes a balance that is out of date.
        process.sleep(Duration::from_millis(20)).await;
        store.write_unfenced(balance + 1).await;
    }
}

async fn lock(process: &Process) -> Result<LockGuard, Error> {
    let quorum = Quorum::builder().ttl(TTL).connect_simulated(process)?;
    quorum.red_lock("account").lock().await
}

/// Runs a program under random faults, and returns the smallest schedule that breaks a promise.
fn search<Program>(program: impl Fn(Process) -> Program + Sync) -> Result<Summary, Box<FailingCase<Schedule>>>
where
    Program: Future<Output = ()> + Send + 'static,
{
    // Faults begin early, while the processes still run.
    let schedules = Schedules::tolerated().nodes([3]).within(Duration::from_millis(100));
    Campaign::new(1000).run(&schedules.strategy(), |schedule| {
        let report = Simulation::new(schedule.clone()).run(&program);
        report.check(&Promises::ALL).map(|()| report)
    })
}

fn main() {
    let summary = search(careful).expect("the token prevents lost updates");
    println!("careful: no update is lost under any of {} schedules\n", summary.runs);
    let failing = search(careless).expect_err("the lock alone cannot prevent lost updates");
    println!("careless: {failing}");
    assert!(failing.failure.breaks(Promise::Register));
}
