//! Asking a person whether something should be done.

use std::io::{self, IsTerminal, Write, stderr, stdin};

use crate::{exit::Exit, failure::Failure};

/// Whether it may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Ask,
}

impl Consent {
    /// Given by `--yes`, or to be asked for on the terminal.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] if there is no terminal to ask on, which says what `--yes` is for.
    pub(crate) fn of(is_given: bool, to_do_what: &str) -> Result<Self, Failure> {
        Self::with(is_given, stdin().is_terminal() && stderr().is_terminal(), to_do_what)
    }

    fn with(is_given: bool, is_terminal: bool, to_do_what: &str) -> Result<Self, Failure> {
        match (is_given, is_terminal) {
            (true, _) => Ok(Self::Given),
            (false, true) => Ok(Self::Ask),
            (false, false) => Err(Failure::usage(format!(
                "there is no terminal to ask for confirmation on: give --yes to {to_do_what} without being \
                 asked"
            ))),
        }
    }
}

/// Asks the person at the terminal, and waits as long as it takes.
///
/// # Errors
///
/// [`Exit::Io`] if nobody can be asked.
pub(crate) async fn ask(question: String) -> Result<bool, Failure> {
    let answer = tokio::task::spawn_blocking(move || {
        let mut out = anstream::stderr().lock();
        write!(out, "{question} [y/N] ").and_then(|()| out.flush())?;
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    })
    .await;
    let answer = answer.map_err(io::Error::other).and_then(|answer| answer);
    let answer = answer.map_err(|error| Failure::new(Exit::Io, format!("nobody could be asked: {error}")))?;
    Ok(is_yes(&answer))
}

/// Only a plain yes is one.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_who_has_said_yes_or_is_not_there() {
        let of = |is_given, is_terminal| Consent::with(is_given, is_terminal, "unlock");
        assert_eq!(of(true, true), Ok(Consent::Given));
        assert_eq!(of(true, false), Ok(Consent::Given));
        assert_eq!(of(false, true), Ok(Consent::Ask));
        let failure = of(false, false).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.ends_with("give --yes to unlock without being asked"), "{}", failure.message);
    }

    #[test]
    fn only_a_plain_yes_is_one() {
        for answer in ["y\n", "Y", " yes \n", "YES\n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "no", "yess", "y n", "ja"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }
}
