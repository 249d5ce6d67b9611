//! The confirmation of an act by the user.

use std::{
    io::{self, IsTerminal, Write, stderr, stdin},
    thread,
};

use tokio::sync::oneshot;

use crate::{exit::Exit, failure::Failure};

/// The state of the confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Given by `--yes`.
    Given,
    /// A question on the terminal, which the user has to answer.
    Ask,
}

impl Consent {
    /// Returns the state for `--yes` given or not, and for the terminals of this process.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] if `--yes` is not given and there is no terminal to ask on.
    pub(crate) fn of(is_given: bool, act: &str) -> Result<Self, Failure> {
        Self::with(is_given, has_terminal(), act)
    }

    fn with(is_given: bool, is_terminal: bool, act: &str) -> Result<Self, Failure> {
        match (is_given, is_terminal) {
            (true, _) => Ok(Self::Given),
            (false, true) => Ok(Self::Ask),
            (false, false) => Err(Failure::usage(format!(
                "standard input or error is no terminal to ask for confirmation on: give --yes to {act} \
                 without being asked"
            ))),
        }
    }
}

/// Whether there is a terminal to ask on.
pub(crate) fn has_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks the user on the terminal, and waits for the answer without limit.
///
/// # Errors
///
/// [`Exit::Io`] if the terminal cannot be read or written, [`Exit::System`] if the system refuses the thread that waits.
pub(crate) async fn ask(question: String) -> Result<bool, Failure> {
    let (sender, receiver) = oneshot::channel();
    let asking = move || {
        let mut out = anstream::stderr().lock();
        write!(out, "{question} [y/N] ").and_then(|()| out.flush())?;
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    };
    // A thread of its own: the end of the runtime would wait for a thread of the runtime's pool.
    let thread = thread::Builder::new().name("question".to_owned());
    let started = thread.spawn(move || drop(sender.send(asking())));
    started.map_err(|error| Failure::not_started("a thread to ask", &error))?;
    let answer = receiver.await.map_err(io::Error::other).and_then(|answer| answer);
    let answer = answer.map_err(|error| {
        Failure::new(Exit::Io, format!("cannot ask on the terminal: {error}: give --yes not to be asked"))
    })?;
    Ok(is_yes(&answer))
}

/// Whether the answer is a plain yes.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_asked_only_on_a_terminal_and_without_yes() {
        let consent = |is_given, is_terminal| Consent::with(is_given, is_terminal, "unlock");
        assert_eq!(consent(true, true), Ok(Consent::Given));
        assert_eq!(consent(true, false), Ok(Consent::Given));
        assert_eq!(consent(false, true), Ok(Consent::Ask));
        let failure = consent(false, false).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.ends_with("give --yes to unlock without being asked"), "{}", failure.message);
    }

    #[test]
    fn only_y_and_yes_are_consent() {
        for answer in ["y\n", "Y", " yes \n", "YES\n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "no", "yess", "y n", "ja"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }
}
