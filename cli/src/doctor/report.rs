//! The output of the doctor.

use std::fmt;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use super::finding::{Finding, Level};
use crate::{counted::counted, table};

/// The line break within a finding, with the indentation of the next line.
const NEXT_LINE: &str = "\n      ";

/// The summary of all findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) is_sound: bool,
    nodes: usize,
    ok: usize,
    warn: usize,
    fail: usize,
}

impl Summary {
    /// Counts the findings. A quorum is sound without failures, or if `strict`, without failures and
    /// warnings.
    pub(crate) fn of(nodes: usize, findings: &[Finding], strict: bool) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let ok = count(Level::Ok) + count(Level::Info);
        let (warn, fail) = (count(Level::Warn), count(Level::Fail));
        Self { is_sound: fail == 0 && !(strict && warn > 0), nodes, ok, warn, fail }
    }
}

impl Level {
    fn style(self) -> Style {
        let color = match self {
            Self::Ok => AnsiColor::Green,
            Self::Info => AnsiColor::Blue,
            Self::Warn => AnsiColor::Yellow,
            Self::Fail => AnsiColor::Red,
        };
        color.on_default().bold()
    }
}

/// A note that belongs to no check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Note(&'static str);

/// The note for users whose problem is a single lock, which `doctor` does not check.
pub(crate) const NOTE: Note = Note(
    "`redquorum force-unlock NAME` ends a lock without its holder; after a DEL by hand, or Redisson's \
     forceUnlock, the holder's next renewal brings the lock back",
);

impl Finding {
    /// Returns the finding in lines of at most this width, broken between words and indented after the first line.
    /// Without a width, returns one line.
    fn in_lines(&self, width: Option<u16>) -> String {
        let subject = format!("  {:11}  {}", self.check, self.node.as_deref().unwrap_or("all"));
        let advice = self.advice.iter().map(|advice| format!("; to do: {advice}"));
        let text: String = std::iter::once(self.found.clone()).chain(advice).collect();
        in_lines(self.level.style(), self.level.name(), &subject, &text, width)
    }
}

/// Returns the name of a level in this style, the subject, and the text. The name has four columns.
fn in_lines(style: Style, name: &str, subject: &str, text: &str, width: Option<u16>) -> String {
    let mut lines = format!("{style}{name:4}{style:#}{subject}");
    let mut column = 4 + subject.chars().count();
    let mut gap = "  ";
    for word in text.split(' ') {
        let length = word.chars().count();
        if width.is_some_and(|width| column + gap.len() + length > usize::from(width)) {
            lines.push_str(NEXT_LINE);
            column = NEXT_LINE.len() - 1;
        } else {
            lines.push_str(gap);
            column += gap.len();
        }
        lines.push_str(word);
        column += length;
        gap = " ";
    }
    lines
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_lines(Style::new().bold(), "note", "", self.0, table::width()))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_lines(table::width()))
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
    fn a_warning_makes_a_quorum_unsound_only_if_strict() {
        let (ok, warn) = (Finding::ok("a", "a"), Finding::warn("b", "b", "c"));
        let fail = Finding::fail("c", "d", "e");
        assert!(Summary::of(1, &[ok.clone(), warn.clone()], false).is_sound);
        assert!(!Summary::of(1, &[ok.clone(), warn], true).is_sound);
        assert!(Summary::of(1, &[ok], true).is_sound);
        assert!(!Summary::of(1, &[fail], false).is_sound);
    }

    #[test]
    fn a_finding_is_wrapped_only_on_a_terminal() {
        let found = "maxmemory-policy is allkeys-lru, which evicts locks and counters before their time";
        let finding =
            Finding::fail("memory", found, "CONFIG SET maxmemory-policy noeviction").at("10.0.0.1:6379");
        let plain = |width| anstream::adapter::strip_str(&finding.in_lines(width)).to_string();
        let unwrapped = plain(None);
        assert_eq!(
            unwrapped,
            format!(
                "fail  memory       10.0.0.1:6379  {found}; to do: CONFIG SET maxmemory-policy noeviction"
            )
        );
        for width in [60, 80, 100] {
            let lines = plain(Some(width));
            assert!(lines.lines().all(|line| line.len() <= usize::from(width)), "{lines}");
            assert_eq!(lines.replace("\n     ", ""), unwrapped, "{width}");
        }
    }

    #[test]
    fn the_summary_counts_the_levels_in_words() {
        let (ok, warn, fail) =
            (Finding::ok("a", "a"), Finding::warn("b", "b", "c"), Finding::fail("c", "d", "e"));
        let findings = [ok.clone(), warn, fail.clone(), fail];
        let shown = |findings| Summary::of(1, findings, false).to_string();
        assert_eq!(shown(&findings), "1 node, 4 checks: 1 warning, 2 failures; not sound");
        assert_eq!(shown(&[ok]), "1 node, 1 check: 0 warnings, 0 failures; sound");
    }
}
