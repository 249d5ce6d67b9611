//! What the doctor found.

use serde::Serialize;

/// What came of one check, of a node or of all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Which check.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    /// Of which node; `None` if it is about all together.
    pub(crate) node: Option<String>,
    /// What is.
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// It works, and might work better or not for long; or it cannot be told.
    Warn,
    /// A quorum with this is not sound.
    Fail,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, node: None, found: found.into(), advice: None }
    }

    pub(crate) fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warn, advice: Some(advice.into()), ..Self::ok(check, found) }
    }

    pub(crate) fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, found, advice) }
    }

    /// What the node does not tell.
    pub(crate) fn unknown(check: &'static str, words: &str, advice: impl Into<String>) -> Self {
        Self::warn(check, format!("cannot tell: {words}"), advice)
    }

    /// The same, of this node.
    pub(crate) fn at(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}
