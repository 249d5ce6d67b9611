//! A critical section in the simulator, in which a process is paused for a minute while it holds a lock. With the
//! token, no update is lost. Without the token, an update is lost.

use std::time::Duration;

use redquorum::{
    error::StaleToken,
    sim::{Fault, Process, Promise, Promises, Schedule, Simulation},
};

/// Adds one to the balance under the lock, with its fencing token.
async fn add_one(process: Process) {
    let quorum = process.quorum().unwrap();
    let balance = process.store("balance");
    process.sleep(start(&process)).await;

    let guard = quorum.red_lock("account").lock().await.unwrap();
    let token = guard.fencing_token();
    let update = async {
        let before = balance.read(token).await?;
        process.sleep(Duration::from_millis(50)).await;
        balance.write(token, before + 1).await
    };
    match update.await {
        Ok(()) => {}
        Err(StaleToken { given, latest, .. }) => assert!(given < latest || !guard.is_valid()),
    }
    guard.unlock().await.ok();
}

/// Adds one to the balance under the lock, without the fencing token and without a check of the lease.
async fn add_one_unfenced(process: Process) {
    let quorum = process.quorum().unwrap();
    let balance = process.store("balance");
    process.sleep(start(&process)).await;

    let _guard = quorum.red_lock("account").lock().await.unwrap();
    let before = balance.read_unfenced().await;
    process.sleep(Duration::from_millis(50)).await;
    balance.write_unfenced(before + 1).await;
}

/// Returns the time at which a process begins: one second after the previous process.
fn start(process: &Process) -> Duration {
    Duration::from_secs(process.index() as u64)
}

/// Returns a schedule with three nodes and two processes. The first process is paused while it holds the
/// lock.
fn schedule() -> Schedule {
    let pause = Fault::Pause { process: 0, lasts: Duration::from_secs(60) };
    Schedule::without_faults(1, 3, 2).with(Duration::from_millis(20), pause)
}

pub(crate) fn a_paused_process_loses_no_update() {
    let report = Simulation::new(schedule()).run(add_one);
    report.check(&Promises::ALL).unwrap();
}

pub(crate) fn an_update_without_a_token_is_lost() {
    let report = Simulation::new(schedule()).run(add_one_unfenced);
    report.check(&Promises::ALL.without(Promise::Register)).unwrap();
    let failure = report.check(&Promises::ALL).unwrap_err();
    assert!(failure.breaks(Promise::Register), "{failure}");
}
