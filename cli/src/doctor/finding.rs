//! The findings of `doctor`, which `judge` makes and `report` prints.

use serde::Serialize;

/// The result of a check, about one node or about all nodes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The name of the check.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    /// The node; `None` for all nodes together.
    pub(crate) node: Option<String>,
    /// The observed state.
    pub(crate) found: String,
    /// The remedy.
    pub(crate) advice: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// No problem.
    Ok,
    /// A check that was left out, without a known problem. It is shown like a warning, and counts as no warning.
    Info,
    /// A possible later problem, a possible improvement, or an unknown state.
    Warn,
    /// A problem that makes the quorum unsound.
    Fail,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, node: None, found: found.into(), advice: None }
    }

    pub(crate) fn info(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::warn(check, found, advice) }
    }

    pub(crate) fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warn, advice: Some(advice.into()), ..Self::ok(check, found) }
    }

    pub(crate) fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, found, advice) }
    }

    /// Returns a warning for a state that is unknown for this reason.
    pub(crate) fn unknown(check: &'static str, reason: &str, advice: impl Into<String>) -> Self {
        Self::warn(check, format!("cannot tell: {reason}"), advice)
    }

    /// Assigns the finding to a node.
    pub(crate) fn at(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}
