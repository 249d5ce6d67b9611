//! The wait of `run` and `lock` for a lock, and the failure if other clients hold the lock until its end.

use std::{convert::Infallible, ffi::OsString, future::pending, os::unix::ffi::OsStrExt, time::Duration};

use redquorum::{
    Lease, LockGuard, LockOptions, MultiLock, Permit, Quorum, Semaphore,
    error::{Error, NodeReplies},
};

use crate::{
    app::App, counted::counted, duration::GivenDuration, exit::Exit, failure::Failure, holders, name,
    permit_count_report::PermitCountReport, shortage::ShortageReporter, wait_report::report_wait,
    waiting::WaitLine,
};

/// The lock to acquire, and the time to wait.
pub(crate) struct Acquisition<'a> {
    pub(crate) names: &'a [OsString],
    /// Whether to share the lock with other shared runs.
    pub(crate) shared: bool,
    /// The number of permits, if the name is that of a semaphore.
    pub(crate) permits: Option<u32>,
    /// The time to wait for other holders; `None` for a wait without a limit.
    pub(crate) wait: Option<&'a GivenDuration>,
    pub(crate) options: LockOptions,
    /// The report of a different number of permits, if the name is that of a semaphore.
    pub(crate) permit_counts: Option<&'a PermitCountReport<'a>>,
}

/// The lock of a command, before it is acquired.
enum PendingLock {
    Lock(MultiLock),
    Permit(Semaphore),
}

/// The acquired lock of a command.
pub(crate) enum HeldLock {
    Lock(LockGuard),
    Permit(Permit),
}

impl PendingLock {
    /// Waits without a limit while other clients hold the lock.
    async fn acquire(&self) -> Result<HeldLock, Error> {
        Ok(match self {
            Self::Lock(lock) => HeldLock::Lock(lock.lock().await?),
            Self::Permit(semaphore) => HeldLock::Permit(semaphore.acquire().await?),
        })
    }

    /// Waits for at most `wait`. Returns `None` if other clients held the lock until the end of this time.
    async fn acquire_within(&self, wait: Duration) -> Result<Option<HeldLock>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock_for(wait).await?.map(HeldLock::Lock),
            Self::Permit(semaphore) => semaphore.try_acquire_for(wait).await?.map(HeldLock::Permit),
        })
    }

    /// Makes one attempt. Returns `None` if other clients hold the lock.
    async fn try_once(&self) -> Result<Option<HeldLock>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock().await?.map(HeldLock::Lock),
            Self::Permit(semaphore) => semaphore.try_acquire().await?.map(HeldLock::Permit),
        })
    }
}

impl HeldLock {
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Self::Lock(guard) => guard,
            Self::Permit(permit) => permit,
        }
    }

    pub(crate) async fn unlock(self) -> Result<NodeReplies, Error> {
        match self {
            Self::Lock(guard) => guard.unlock().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

impl Acquisition<'_> {
    /// Acquires the lock. While the call waits, reports the holder and shortages of votes.
    ///
    /// # Errors
    ///
    /// [`Exit::Held`] if other clients held the lock until the end of the wait, and the failures of a lock call.
    pub(crate) async fn acquire(&self, quorum: &Quorum, app: &App) -> Result<HeldLock, Failure> {
        let lock = self.lock(quorum);
        if self.wait.is_some_and(|wait| wait.is_zero()) {
            return match lock.try_once().await? {
                Some(held) => Ok(held),
                None => Err(self.held_failure(quorum, self.message_after_attempt()).await),
            };
        }
        let waiting = WaitLine::show(&app.messages, format!("waiting for {}", shown(self.names)));
        // A semaphore has several holders, and each of them may end the wait. Therefore no holder is shown.
        let shows_holder = self.permits.is_none();
        let mut reporter = ShortageReporter::default();
        let reporting = report_wait(&waiting, quorum, self.names, shows_holder, &mut reporter, &app.messages);
        let acquiring = async {
            let Some(wait) = self.wait else { return Ok(lock.acquire().await?) };
            match lock.acquire_within(**wait).await? {
                Some(held) => Ok(held),
                None => Err(self.held_failure(quorum, self.message_after_wait(wait)).await),
            }
        };
        tokio::select! {
            biased;
            acquired = acquiring => acquired.map_err(|failure| reporter.mark_reported(failure)),
            never = reporting => match never {},
            never = self.report_permit_counts() => match never {},
        }
    }

    async fn report_permit_counts(&self) -> Infallible {
        match self.permit_counts {
            Some(report) => report.run().await,
            None => pending().await,
        }
    }

    fn lock(&self, quorum: &Quorum) -> PendingLock {
        let options = self.options.clone();
        if let (Some(permits), Some(name)) = (self.permits, self.names.first()) {
            return PendingLock::Permit(quorum.semaphore(name.as_bytes(), permits).options(options));
        }
        let names = self.names.iter().map(|name| name.as_bytes());
        let lock = match self.shared {
            true => quorum.multi_lock::<&[u8]>([]).and_read(names),
            false => quorum.multi_lock(names),
        };
        PendingLock::Lock(lock.options(options))
    }

    /// Returns the message after a wait during which other clients held the lock.
    fn message_after_wait(&self, waited: &GivenDuration) -> String {
        let shown = shown(self.names);
        match (self.permits, self.names.len()) {
            (Some(permits), _) => {
                let permits = counted(permits as usize, "permit");
                format!("{shown} has {permits}, and none was free within --wait {waited}")
            }
            (None, 1) => format!("{shown} was not free within --wait {waited}"),
            (None, _) => format!("{shown} were not all free at once within --wait {waited}"),
        }
    }

    /// Returns the message after a single attempt (`--wait 0`) for a lock that other clients hold.
    fn message_after_attempt(&self) -> String {
        let shown = shown(self.names);
        let remedy = "--wait 0 makes one attempt, and a longer --wait waits";
        match self.permits {
            None if self.names.len() > 1 => {
                format!("other clients hold at least one of {shown}: {remedy}")
            }
            None => format!("another client holds {shown}: {remedy}"),
            Some(1) => format!("the permit of {shown} is in use: {remedy}"),
            Some(permits) => format!("all {permits} permits of {shown} are in use: {remedy}"),
        }
    }

    /// Returns the failure for a lock that other clients hold, with the holders as evidence.
    async fn held_failure(&self, quorum: &Quorum, message: String) -> Failure {
        let evidence = match (self.permits, self.names.first()) {
            (Some(permits), Some(name)) => holders::of_semaphore(quorum, name.as_bytes(), permits).await,
            _ => holders::of_lock(quorum, self.names).await,
        };
        Failure { evidence, ..Failure::new(Exit::Held, message) }
    }
}

/// Returns the names of a lock as texts show them.
pub(crate) fn shown(names: &[OsString]) -> String {
    let names: Vec<_> = names.iter().map(|name| name::shown(name.as_bytes())).collect();
    names.join(", ")
}
