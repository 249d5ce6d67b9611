//! When a command has to end because of its lease: decided here, performed elsewhere.

use std::time::Duration;

use clap::ValueEnum;

/// What becomes of the command when its lease is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// SIGTERM, and SIGKILL before the lease ends
    Term,
    /// SIGKILL before the lease ends
    Kill,
    /// Nothing: it runs on without the lock
    Ignore,
}

/// The two marks before the end of validity at which something is done.
///
/// ```text
///   renewed          SIGTERM                 SIGKILL         end of validity
///   ───┼────────────────┼───────────────────────┼───────────────┼──────────►
///                       │◄──────── grace ──────►│◄── margin ───►│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    /// From SIGKILL to the end: for timers, for the way of the signal, and for what the kernel
    /// still does for a process that is killed.
    pub(crate) margin: Duration,
}

impl Marks {
    /// The margin is a 20th of the ttl, and at most this.
    const LONGEST_MARGIN: Duration = Duration::from_secs(1);

    /// The marks for a ttl, with a grace of a sixth of it if none is given.
    ///
    /// Renewals are due at every third of the ttl, so a lease that is in order always has about two
    /// thirds of it left, and one that failed is tried again after a twelfth and a node timeout:
    /// with the default grace, three have failed before anything is done.
    ///
    /// # Errors
    ///
    /// A grace above half of the ttl less the margin: a lease in perfect order would come near
    /// that.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, String> {
        let margin = (ttl / 20).min(Self::LONGEST_MARGIN);
        let grace = grace.unwrap_or(ttl / 6);
        let most = (ttl / 2).saturating_sub(margin);
        if grace > most {
            return Err(format!(
                "a --kill-after of {grace:?} does not fit a ttl of {ttl:?}: {most:?} is the most, or \
                 give a longer --ttl"
            ));
        }
        Ok(Self { grace, margin })
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleStep {
    /// Ask the command to end.
    Term,
    /// End it.
    Kill,
    /// Say that it runs without the lock from now on.
    Tell,
}

/// When a command has to end because of its lease.
///
/// It is told what is left of the validity, and says what to do. Time goes by outside: it is asked
/// again when no more is left than [`mark`](Self::mark).
///
/// # Invariants
///
/// 1. With no more left than the margin, [`RuleStep::Kill`] has been said, unless losses are
///    ignored.
/// 2. Each step is said once, and none after `Kill`.
/// 3. A renewal takes nothing back: a command that was asked to end is going to. It only puts the
///    `Kill` off.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    on_loss: OnLoss,
    marks: Marks,
    phase: RulePhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RulePhase {
    Untouched,
    Asked,
    Killed,
    Told,
}

impl Rule {
    pub(crate) fn new(on_loss: OnLoss, marks: Marks) -> Self {
        Self { on_loss, marks, phase: RulePhase::Untouched }
    }

    /// What to do with so much left of the validity.
    pub(crate) fn at(&mut self, left: Duration) -> Option<RuleStep> {
        if self.mark().is_none_or(|mark| left > mark) {
            return None;
        }
        let (step, phase) = match self.on_loss {
            OnLoss::Ignore => (RuleStep::Tell, RulePhase::Told),
            OnLoss::Term if left > self.marks.margin => (RuleStep::Term, RulePhase::Asked),
            OnLoss::Term | OnLoss::Kill => (RuleStep::Kill, RulePhase::Killed),
        };
        self.phase = phase;
        Some(step)
    }

    /// With how much left it wants to be asked again; `None` if it has no more to say.
    pub(crate) fn mark(&self) -> Option<Duration> {
        match (self.phase, self.on_loss) {
            (RulePhase::Killed | RulePhase::Told, _) => None,
            (RulePhase::Untouched, OnLoss::Ignore) => Some(Duration::ZERO),
            (RulePhase::Untouched, OnLoss::Term) => Some(self.marks.grace + self.marks.margin),
            (RulePhase::Untouched, OnLoss::Kill) | (RulePhase::Asked, _) => Some(self.marks.margin),
        }
    }

    /// Whether the command was asked to end, or ended, because of its lease.
    pub(crate) fn has_intervened(&self) -> bool {
        matches!(self.phase, RulePhase::Asked | RulePhase::Killed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn rule(on_loss: OnLoss) -> Rule {
        Rule::new(on_loss, Marks::new(TTL, None).unwrap())
    }

    /// What is said as the time that is left becomes these numbers of milliseconds, one after the
    /// other.
    fn said(rule: &mut Rule, left: &[u64]) -> Vec<(u64, RuleStep)> {
        let at = |left: &u64| rule.at(Duration::from_millis(*left)).map(|step| (*left, step));
        left.iter().filter_map(at).collect()
    }

    #[test]
    fn the_marks_are_shares_of_the_ttl() {
        let marks = |ttl| Marks::new(ttl, None).unwrap();
        let (grace, margin) = (Duration::from_secs(5), Duration::from_secs(1));
        assert_eq!(marks(TTL), Marks { grace, margin });
        let (grace, margin) = (Duration::from_millis(500), Duration::from_millis(150));
        assert_eq!(marks(Duration::from_secs(3)), Marks { grace, margin });
    }

    #[test]
    fn a_grace_that_a_healthy_lease_would_come_near_is_refused() {
        let longest = Duration::from_secs(14);
        assert_eq!(Marks::new(TTL, Some(longest)).map(|marks| marks.grace), Ok(longest));
        let refused = Marks::new(TTL, Some(longest + Duration::from_millis(1))).unwrap_err();
        assert_eq!(
            refused,
            "a --kill-after of 14.001s does not fit a ttl of 30s: 14s is the most, or give a longer --ttl"
        );
    }

    #[test]
    fn a_lease_that_runs_out_asks_first_and_then_kills() {
        let expected = [(6000, RuleStep::Term), (1000, RuleStep::Kill)];
        assert_eq!(said(&mut rule(OnLoss::Term), &[29_698, 6001, 6000, 5999, 1001, 1000, 999, 0]), expected);
    }

    #[test]
    fn a_lease_that_is_over_all_at_once_kills_at_once() {
        for on_loss in [OnLoss::Term, OnLoss::Kill] {
            assert_eq!(said(&mut rule(on_loss), &[20_000, 0, 0]), [(0, RuleStep::Kill)]);
        }
    }

    #[test]
    fn without_a_question_it_kills_at_the_margin() {
        assert_eq!(said(&mut rule(OnLoss::Kill), &[6000, 1001, 1000, 999, 0]), [(1000, RuleStep::Kill)]);
    }

    #[test]
    fn a_loss_that_is_ignored_is_told_when_it_has_come() {
        assert_eq!(said(&mut rule(OnLoss::Ignore), &[6000, 1000, 1, 0, 0]), [(0, RuleStep::Tell)]);
    }

    #[test]
    fn a_renewal_puts_the_end_off_and_does_not_ask_twice() {
        let mut rule = rule(OnLoss::Term);
        assert_eq!(said(&mut rule, &[5000, 29_000, 6000, 4000, 29_000, 1001]), [(5000, RuleStep::Term)]);
        assert!(rule.has_intervened());
        assert_eq!(said(&mut rule, &[1000]), [(1000, RuleStep::Kill)]);
    }

    #[test]
    fn whatever_comes_it_has_killed_with_no_more_left_than_the_margin() {
        let margin = Duration::from_secs(1);
        for on_loss in [OnLoss::Term, OnLoss::Kill] {
            // Every way of being asked at three instants, later or earlier than the one before.
            let instants = [29_698, 6001, 6000, 3000, 1001, 1000, 500, 0].map(Duration::from_millis);
            for (first, second, third) in triples(&instants) {
                let mut rule = rule(on_loss);
                let mut kills = 0;
                let mut lowest = Duration::MAX;
                for left in [first, second, third] {
                    kills += usize::from(rule.at(left) == Some(RuleStep::Kill));
                    lowest = lowest.min(left);
                    assert_eq!(
                        kills,
                        usize::from(lowest <= margin),
                        "{on_loss:?} {first:?} {second:?} {third:?}"
                    );
                }
                assert_eq!(rule.mark().is_none(), kills == 1);
            }
        }
    }

    fn triples(instants: &[Duration]) -> impl Iterator<Item = (Duration, Duration, Duration)> {
        let pairs = instants.iter().flat_map(|one| instants.iter().map(move |next| (*one, *next)));
        pairs.flat_map(|(one, next)| instants.iter().map(move |last| (one, next, *last)))
    }
}
