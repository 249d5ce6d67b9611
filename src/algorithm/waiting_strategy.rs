//! What waiters do when they are refused.

/// What waiters do when they are refused.
///
/// The default and [`Fair`](Self::Fair) (a lock's `fair`) are meant for use. The others are what it is measured against, in
/// simulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(not(feature = "sim"), expect(unreachable_pub, reason = "only simulations can choose"))]
pub enum WaitingStrategy {
    /// Waiters are woken by notices of releases, and ask one node first, on which all of them agree.
    #[default]
    ArbiterFirst,
    /// Waiters stand in line at one node, on which all of them agree, and are called one at a time.
    Fair,
    /// Waiters are woken by notices of releases, and ask all nodes at once.
    #[cfg_attr(not(any(test, feature = "sim")), expect(dead_code, reason = "only simulations can choose"))]
    Parallel,
    /// Waiters hear no notices. They sleep for up to 200 ms, and ask all nodes at once: the customary way.
    Jittered,
}
