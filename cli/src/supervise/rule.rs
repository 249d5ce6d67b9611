//! The rule that ends a command before its lease ends. Pure.
//!
//! ```text
//!              ┌───────── Term: grace + margin left ────────► SigtermSent ─┐
//!   Untouched ─┤                                                           ├─ margin left ──► Killed
//!              ├───────── Kill ───────────────────────────────────────────┘
//!              └───────── Ignore: nothing left ─────────────► LossReported
//! ```

use std::time::Duration;

use clap::ValueEnum;

use crate::duration::GivenDuration;

/// The way to stop a command when its lease is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// SIGTERM, and SIGKILL before the lease ends
    Term,
    /// SIGKILL before the lease ends
    Kill,
    /// No signal: the command continues without the lock
    Ignore,
}

/// The marks before the end of validity, at which the warning and the two signals are due.
///
/// ```text
///   renewed          SIGTERM                 SIGKILL         end of validity
///   ───┼────────────────┼───────────────────────┼───────────────┼──────────►
///                       │◄──────── grace ──────►│◄── margin ───►│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    /// The time from SIGKILL to the end of validity: for timers, the delivery of the signal, and the
    /// kernel's work for a killed process.
    pub(crate) margin: Duration,
    /// The remaining validity below which a lease counts as not renewed. A lease that is renewed in time has more.
    pub(crate) warning: Duration,
}

impl Marks {
    /// The upper limit of the margin, which is otherwise a 20th of the ttl.
    const MAX_MARGIN: Duration = Duration::from_secs(1);

    /// Returns the marks for a ttl. The default grace is a sixth of the ttl.
    ///
    /// Renewals are due at every third of the ttl, so a renewed lease always has about two thirds of
    /// the ttl left. A failed renewal is repeated after a twelfth of the ttl and a node timeout. With
    /// the default grace, three renewals have failed before SIGTERM.
    ///
    /// # Errors
    ///
    /// A grace above half of the ttl minus the margin. The remaining validity would come near the mark of SIGTERM even
    /// if every renewal succeeds.
    pub(crate) fn new(ttl: &GivenDuration, kill_after: Option<&GivenDuration>) -> Result<Self, String> {
        let margin = (**ttl / 20).min(Self::MAX_MARGIN);
        let grace = kill_after.map_or(**ttl / 6, |given| **given);
        let max_grace = (**ttl / 2).saturating_sub(margin);
        if let Some(given) = kill_after.filter(|given| ***given > max_grace) {
            return Err(format!(
                "a --kill-after of {given} is too long for a ttl of {ttl}: give {max_grace:?} or less, or a \
                 longer --ttl"
            ));
        }
        Ok(Self { grace, margin, warning: **ttl / 2 })
    }
}

/// The step that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleStep {
    /// Send SIGTERM.
    Term,
    /// Send SIGKILL.
    Kill,
    /// Report that the command runs without the lock.
    Report,
}

/// The rule that ends a command before its lease ends.
///
/// The caller passes the remaining validity to [`at`](Self::at), and performs the step. The next call is due when at
/// most [`mark`](Self::mark) is left.
///
/// # Invariants
///
/// 1. After a call with at most the margin left, [`RuleStep::Kill`] has been returned, unless losses are ignored.
/// 2. Each step is returned once, and no step after `Kill`.
/// 3. A renewal reverses no step, because a command that received SIGTERM is going to end. The renewal only delays the
///    `Kill`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    on_loss: OnLoss,
    marks: Marks,
    phase: RulePhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RulePhase {
    Untouched,
    SigtermSent,
    Killed,
    LossReported,
}

impl Rule {
    pub(crate) fn new(on_loss: OnLoss, marks: Marks) -> Self {
        Self { on_loss, marks, phase: RulePhase::Untouched }
    }

    /// Returns the step that is due with this remaining validity.
    pub(crate) fn at(&mut self, left: Duration) -> Option<RuleStep> {
        if self.mark().is_none_or(|mark| left > mark) {
            return None;
        }
        let (step, phase) = match self.on_loss {
            OnLoss::Ignore => (RuleStep::Report, RulePhase::LossReported),
            OnLoss::Term if left > self.marks.margin => (RuleStep::Term, RulePhase::SigtermSent),
            OnLoss::Term | OnLoss::Kill => (RuleStep::Kill, RulePhase::Killed),
        };
        self.phase = phase;
        Some(step)
    }

    /// Returns the remaining validity at which the next step is due; `None` after the last step.
    pub(crate) fn mark(&self) -> Option<Duration> {
        match (self.phase, self.on_loss) {
            (RulePhase::Killed | RulePhase::LossReported, _) => None,
            (RulePhase::Untouched, OnLoss::Ignore) => Some(Duration::ZERO),
            (RulePhase::Untouched, OnLoss::Term) => Some(self.marks.grace + self.marks.margin),
            (RulePhase::Untouched, OnLoss::Kill) | (RulePhase::SigtermSent, _) => Some(self.marks.margin),
        }
    }

    /// Returns the remaining validity below which the lease counts as not renewed.
    pub(crate) fn warning(&self) -> Duration {
        self.marks.warning
    }

    /// Whether [`RuleStep::Term`] or [`RuleStep::Kill`] has been returned.
    pub(crate) fn has_intervened(&self) -> bool {
        matches!(self.phase, RulePhase::SigtermSent | RulePhase::Killed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::parse_given;

    const TTL: Duration = Duration::from_secs(30);

    fn rule(on_loss: OnLoss) -> Rule {
        Rule::new(on_loss, Marks::new(&TTL.into(), None).unwrap())
    }

    /// Returns the steps for a sequence of remaining times in milliseconds.
    fn steps(rule: &mut Rule, remaining: &[u64]) -> Vec<(u64, RuleStep)> {
        let at = |remaining: &u64| rule.at(Duration::from_millis(*remaining)).map(|step| (*remaining, step));
        remaining.iter().filter_map(at).collect()
    }

    #[test]
    fn the_marks_are_fractions_of_the_ttl() {
        let marks = |ttl: Duration| Marks::new(&ttl.into(), None).unwrap();
        let (grace, margin, warning) =
            (Duration::from_secs(5), Duration::from_secs(1), Duration::from_secs(15));
        assert_eq!(marks(TTL), Marks { grace, margin, warning });
        let (grace, margin, warning) =
            (Duration::from_millis(500), Duration::from_millis(150), Duration::from_millis(1500));
        assert_eq!(marks(Duration::from_secs(3)), Marks { grace, margin, warning });
    }

    #[test]
    fn a_grace_above_half_of_the_ttl_minus_the_margin_is_refused() {
        let longest = GivenDuration::from(Duration::from_secs(14));
        assert_eq!(Marks::new(&TTL.into(), Some(&longest)).map(|marks| marks.grace), Ok(*longest));
        let longer = parse_given("14s 1ms").unwrap();
        let refused = Marks::new(&parse_given("500ms 29500ms").unwrap(), Some(&longer)).unwrap_err();
        assert_eq!(
            refused,
            "a --kill-after of 14s 1ms is too long for a ttl of 500ms 29500ms: give 14s or less, or a longer --ttl"
        );
    }

    #[test]
    fn an_ending_lease_sends_sigterm_and_then_sigkill() {
        let expected = [(6000, RuleStep::Term), (1000, RuleStep::Kill)];
        assert_eq!(steps(&mut rule(OnLoss::Term), &[29_698, 6001, 6000, 5999, 1001, 1000, 999, 0]), expected);
    }

    #[test]
    fn a_sudden_loss_kills_at_once() {
        for on_loss in [OnLoss::Term, OnLoss::Kill] {
            assert_eq!(steps(&mut rule(on_loss), &[20_000, 0, 0]), [(0, RuleStep::Kill)]);
        }
    }

    #[test]
    fn on_loss_kill_sends_sigkill_at_the_margin() {
        assert_eq!(steps(&mut rule(OnLoss::Kill), &[6000, 1001, 1000, 999, 0]), [(1000, RuleStep::Kill)]);
    }

    #[test]
    fn an_ignored_loss_is_reported_at_the_end() {
        assert_eq!(steps(&mut rule(OnLoss::Ignore), &[6000, 1000, 1, 0, 0]), [(0, RuleStep::Report)]);
    }

    #[test]
    fn a_renewal_delays_sigkill_and_repeats_no_sigterm() {
        let mut rule = rule(OnLoss::Term);
        assert_eq!(steps(&mut rule, &[5000, 29_000, 6000, 4000, 29_000, 1001]), [(5000, RuleStep::Term)]);
        assert!(rule.has_intervened());
        assert_eq!(steps(&mut rule, &[1000]), [(1000, RuleStep::Kill)]);
    }

    #[test]
    fn sigkill_precedes_the_margin_in_every_sequence_of_three_times() {
        let margin = Duration::from_secs(1);
        for on_loss in [OnLoss::Term, OnLoss::Kill] {
            // All sequences of three of these times, in any order.
            let instants = [29_698, 6001, 6000, 3000, 1001, 1000, 500, 0].map(Duration::from_millis);
            for (first, second, third) in triples(&instants) {
                let mut rule = rule(on_loss);
                let mut kills = 0;
                let mut lowest = Duration::MAX;
                for remaining in [first, second, third] {
                    kills += usize::from(rule.at(remaining) == Some(RuleStep::Kill));
                    lowest = lowest.min(remaining);
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
        let pairs = instants.iter().flat_map(|first| instants.iter().map(move |second| (*first, *second)));
        pairs.flat_map(|(first, second)| instants.iter().map(move |third| (first, second, *third)))
    }
}
