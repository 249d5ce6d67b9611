//! Clients in a forked copy of their process, and systems that start no thread.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use redquorum::{
    Error,
    blocking::{Quorum, admin},
    error::{ClosedReason, ConfigError, LossReason, NodeError, NodeReply},
};
use redquorum_tests::ForkedProcess;

const FORKED: Error = Error::Closed(ClosedReason::Forked);
const LOST: LossReason = LossReason::Closed(ClosedReason::Forked);

/// Longer than any call of a closed client takes, and shorter than the waits of the calls.
const AT_ONCE: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(10);

#[test]
fn no_call_blocks_and_no_lease_is_valid_in_a_forked_process() {
    let quorum = Quorum::in_memory(3).unwrap();
    let guard = quorum.red_lock("held").lock().unwrap();
    let permit = quorum.semaphore("s", 2).acquire().unwrap();
    let leadership = quorum.election("e").campaign("v").unwrap();
    let mut leaders = quorum.election("e").observe().unwrap();
    assert_eq!(leaders.next().unwrap().value_str(), "v");
    let mut handles = Some((quorum, guard, permit, leadership, leaders));
    let child = ForkedProcess::start(|| {
        let (quorum, guard, permit, leadership, mut leaders) = handles.take().unwrap();
        let start = Instant::now();
        assert!(!guard.is_valid() && !permit.is_valid() && !leadership.is_valid());
        assert_eq!(guard.lost().reason, LOST);
        assert_eq!(permit.lost_within(WAIT).unwrap().reason, LOST);
        leadership.expiring_within(Duration::ZERO);
        assert!(matches!(guard.renew().unwrap_err(), Error::LeaseLost(lost) if lost.reason == LOST));
        assert_eq!(quorum.red_lock("free").lock().unwrap_err(), FORKED);
        assert_eq!(quorum.red_lock("free").try_lock_for(WAIT).unwrap_err(), FORKED);
        assert_eq!(quorum.rw_lock("free").read().unwrap_err(), FORKED);
        assert_eq!(quorum.semaphore("s", 2).try_acquire_many_for(2, WAIT).unwrap_err(), FORKED);
        assert_eq!(quorum.latch("l", 2).wait().unwrap_err(), FORKED);
        assert_eq!(quorum.election("e").campaign("w").unwrap_err(), FORKED);
        assert_eq!(quorum.inspect("held").unwrap_err(), FORKED);
        assert_eq!(admin::list(&quorum, |_| true).unwrap_err(), FORKED);
        assert_eq!(admin::force_unlock(&quorum, "held").unwrap_err(), FORKED);
        let closed = NodeError::Closed(ClosedReason::Forked);
        assert!(quorum.health().nodes().all(|node| node.holder() == Err(&closed)));
        let failed = NodeReply::Failed(closed);
        assert!(guard.node_replies().iter().all(|(_, reply)| *reply == failed));
        assert!(leaders.next_within(WAIT).unwrap().is_none() && leaders.next().is_none());
        assert!(quorum.shutdown().is_complete());
        assert!(matches!(guard.unlock().unwrap_err(), Error::LeaseLost(lost) if lost.reason == LOST));
        drop((quorum, permit, leadership, leaders));
        let own = Quorum::in_memory(3).unwrap();
        assert!(own.red_lock("r").lock().unwrap().is_valid());
        assert!(start.elapsed() < AT_ONCE, "a call waited");
    });
    child.wait();
    let (quorum, guard, ..) = handles.take().unwrap();
    assert!(guard.is_valid() && guard.unlock().unwrap().has_quorum());
    assert!(quorum.red_lock("held").try_lock().unwrap().is_some());
}

/// Runs itself once more, with a stack that no system can provide for a thread.
#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_a_remedy() {
    const STACK: &str = "RUST_MIN_STACK";
    const NAME: &str = "blocking::forked::a_thread_that_cannot_be_started_is_an_error_with_a_remedy";
    if std::env::var_os(STACK).is_none() {
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(STACK, "70368744177664")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(again.success(), "{again}");
        return;
    }
    let Error::Config(ConfigError::NoRuntime { reason, .. }) = Quorum::in_memory(3).unwrap_err() else {
        panic!("another error");
    };
    assert!(reason.contains("could not be started") && reason.contains("raise the limit"), "{reason}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let named = redquorum::Quorum::builder().nodes(["redis://redis-1.invalid"]).connect_timeout(AT_ONCE);
    let refused = runtime.block_on(named.connect()).unwrap_err().to_string();
    assert!(refused.contains("cannot look up redis-1.invalid: "), "{refused}");
}
