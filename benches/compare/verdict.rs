//! The comparison of a figure with its target.

use std::fmt;

use serde_json::{Value, json};

use super::sample::Ratio;

/// A figure of a scenario, with its target.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    value: f64,
    spread: Option<(f64, f64)>,
    target: Option<Target>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Verdict {
    pub(crate) fn of(what: impl Into<String>, value: f64, target: impl Into<Option<Target>>) -> Self {
        Self { what: what.into(), value, spread: None, target: target.into() }
    }

    pub(crate) fn of_ratio(what: impl Into<String>, ratio: Ratio, target: impl Into<Option<Target>>) -> Self {
        Self { spread: Some(ratio.spread), ..Self::of(what, ratio.value, target) }
    }

    /// Whether the figure meets its target; `None` without a target.
    pub(crate) fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
        })
    }

    /// Returns the figure as a share of its target. A smaller share is better. Returns `None`
    /// without a target, or if the share is not positive and finite.
    pub(crate) fn share_of_target(&self) -> Option<f64> {
        let share = match self.target? {
            Target::AtMost(most) => self.value / most,
            Target::AtLeast(least) => least / self.value,
        };
        (share.is_finite() && share > 0.0).then_some(share)
    }

    pub(crate) fn to_json(&self) -> Value {
        let target = self.target.map(|target| target.to_string());
        json!({
            "what": self.what,
            "value": self.value,
            "spread": self.spread.map(|(least, most)| [least, most]),
            "target": target,
            "is_met": self.is_met(),
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:44} {:>8.2}", self.what, self.value)?;
        let spread =
            self.spread.map(|(least, most)| format!("({least:.2} to {most:.2})")).unwrap_or_default();
        write!(f, " {spread:20}")?;
        if let Some(target) = &self.target {
            let outcome = if self.is_met() == Some(true) { "met" } else { "MISSED" };
            write!(f, " target {target}: {outcome}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
        }
    }
}
