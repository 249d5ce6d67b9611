//! What the doctor prints.

use std::fmt;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use super::finding::{Finding, Level};
use crate::counted::counted;

/// What comes of all findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) is_sound: bool,
    nodes: usize,
    ok: usize,
    warn: usize,
    fail: usize,
}

impl Summary {
    /// Of so many nodes. Sound is what does not fail, or if it is `strict`, is worth no warning
    /// either.
    pub(crate) fn of(nodes: usize, findings: &[Finding], strict: bool) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (ok, warn, fail) = (count(Level::Ok), count(Level::Warn), count(Level::Fail));
        Self { is_sound: fail == 0 && !(strict && warn > 0), nodes, ok, warn, fail }
    }
}

impl Level {
    fn style(self) -> Style {
        let color = match self {
            Self::Ok => AnsiColor::Green,
            Self::Warn => AnsiColor::Yellow,
            Self::Fail => AnsiColor::Red,
        };
        color.on_default().bold()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = self.level.style();
        write!(f, "{style}{:4}{style:#}  {:11}  ", self.level.name(), self.check)?;
        write!(f, "{}  {}", self.node.as_deref().unwrap_or("all"), self.found)?;
        match &self.advice {
            Some(advice) => write!(f, "; to do: {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_sound, nodes, ok, warn, fail } = *self;
        let [nodes, checks, warnings, failures] =
            [(nodes, "node"), (ok + warn + fail, "check"), (warn, "warning"), (fail, "failure")]
                .map(|(number, noun)| counted(number, noun));
        let conclusion = if is_sound { "sound" } else { "not sound" };
        write!(f, "{nodes}, {checks}: {warnings}, {failures}; {conclusion}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_spoil_it_only_where_that_was_asked_for() {
        let (ok, warn) = (Finding::ok("a", "a"), Finding::warn("b", "b", "c"));
        let fail = Finding::fail("c", "d", "e");
        assert!(Summary::of(1, &[ok.clone(), warn.clone()], false).is_sound);
        assert!(!Summary::of(1, &[ok.clone(), warn], true).is_sound);
        assert!(Summary::of(1, &[ok], true).is_sound);
        assert!(!Summary::of(1, &[fail], false).is_sound);
    }

    #[test]
    fn the_summary_counts_what_there_is_in_words() {
        let (ok, warn, fail) =
            (Finding::ok("a", "a"), Finding::warn("b", "b", "c"), Finding::fail("c", "d", "e"));
        let findings = [ok.clone(), warn, fail.clone(), fail];
        let shown = |findings| Summary::of(1, findings, false).to_string();
        assert_eq!(shown(&findings), "1 node, 4 checks: 1 warning, 2 failures; not sound");
        assert_eq!(shown(&[ok]), "1 node, 1 check: 0 warnings, 0 failures; sound");
    }
}
