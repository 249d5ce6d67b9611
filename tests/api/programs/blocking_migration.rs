//! A command without async that applies migrations in order, and stops when its lease is lost.

use std::{path::Path, process::ExitCode, time::Duration};

use redquorum::{Error, FencingToken, LockOptions, blocking, settings};

const MIGRATION: LockOptions = LockOptions::new().ttl(Duration::from_secs(20));

/// The longest time for which the command waits for the lock.
const WAIT: Duration = Duration::from_secs(2);

/// The exit statuses of `sysexits.h`: `EX_UNAVAILABLE`, `EX_TEMPFAIL`, `EX_CONFIG`.
const UNAVAILABLE: u8 = 69;
const RETRY_LATER: u8 = 75;
const WRONG_CONFIG: u8 = 78;

const STEPS: u32 = 3;

/// Applies all steps. Returns `false` if another process migrates.
fn migrate(lock: &blocking::RedLock, mut apply: impl FnMut(u32, FencingToken)) -> Result<bool, Error> {
    let Some(guard) = lock.try_lock_for(WAIT)? else {
        return Ok(false);
    };
    for step in 0..STEPS {
        guard.ensure()?; // a loss cannot stop a thread, so each step begins with a check
        apply(step, guard.fencing_token());
    }
    guard.unlock()?;
    Ok(true)
}

/// Migrates by the settings of this file, and returns the exit status.
pub(crate) fn exit_status(file: Option<&Path>) -> u8 {
    let outcome = settings::load(file).and_then(|settings| {
        let quorum = settings.label("migrate").connect_blocking()?;
        let outcome = migrate(&quorum.red_lock("migration").options(MIGRATION), |step, token| {
            eprintln!("step {step} under token {token}");
        });
        quorum.shutdown();
        outcome
    });
    match outcome {
        Ok(true) => 0,
        Ok(false) => RETRY_LATER,
        Err(error) => {
            eprintln!("{error}");
            if matches!(error, Error::NoQuorum(_)) { UNAVAILABLE } else { WRONG_CONFIG }
        }
    }
}

/// The entry of the command. Tests call the functions below, because the arguments of a test process are those of the
/// test harness.
fn main() -> ExitCode {
    let file = std::env::args_os().nth(1);
    exit_status(file.as_deref().map(Path::new)).into()
}

/// Migrates on in-memory nodes: alone, beside another migration, and until the client is shut down.
pub(crate) fn run() -> Result<(), Error> {
    let quorum = blocking::Quorum::in_memory(3)?;
    let lock = quorum.red_lock("migration").options(MIGRATION);

    let mut applied = Vec::new();
    assert!(migrate(&lock, |step, token| applied.push((step, token)))?);
    assert_eq!(applied.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(applied.windows(2).all(|steps| steps[0].1 == steps[1].1), "two leases: {applied:?}");

    let guard = lock.lock()?;
    assert!(guard.fencing_token() > applied[0].1);
    assert!(!migrate(&lock, |_, _| panic!("two processes migrate"))?);
    guard.unlock()?;

    let mut steps = 0;
    let outcome = migrate(&lock, |_, _| {
        steps += 1;
        quorum.shutdown();
    });
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(steps, 1, "a step was applied without a lease");
    Ok(())
}

/// Migrates on the nodes of this settings file, alone and beside another migration.
pub(crate) fn run_with(file: &Path) -> Result<(), Error> {
    assert_eq!(exit_status(Some(file)), 0);
    let quorum = settings::load(Some(file))?.connect_blocking()?;
    let guard = quorum.red_lock("migration").options(MIGRATION).lock()?;
    assert_eq!(exit_status(Some(file)), RETRY_LATER);
    guard.unlock()?;
    assert_eq!(exit_status(Some(file)), 0);
    quorum.shutdown();
    Ok(())
}

/// Asserts the exit status for a settings file that does not exist.
pub(crate) fn run_without_settings() {
    assert_eq!(exit_status(Some(Path::new("/no/such/file.toml"))), WRONG_CONFIG);
}
