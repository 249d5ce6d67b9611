//! The confirmation of an act by the user, for `force-unlock`, `init`, `reconfigure`, `replace` and `latch`.

use std::{
    io::{self, IsTerminal, Write, stderr, stdin},
    thread,
};

use tokio::sync::oneshot;

use crate::{exit::Exit, failure::Failure};

/// The state of the confirmation before the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The act needs no question, usually because of `--yes`.
    Given,
    /// The user has to answer a question on the terminal first.
    Ask,
}

impl Consent {
    /// Returns `Given` with `--yes`, and `Ask` without `--yes` on a terminal. `act` is a verb for the error text, such
    /// as "unlock".
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] without `--yes` and without a terminal.
    pub(crate) fn of(is_given: bool, act: &str) -> Result<Self, Failure> {
        Self::with(is_given, has_terminal(), act)
    }

    fn with(is_given: bool, is_terminal: bool, act: &str) -> Result<Self, Failure> {
        match (is_given, is_terminal) {
            (true, _) => Ok(Self::Given),
            (false, true) => Ok(Self::Ask),
            (false, false) => Err(Failure::usage(format!(
                "cannot ask for confirmation, because standard input or standard error is no terminal: give --yes to \
                 {act} without a question"
            ))),
        }
    }
}

/// Whether standard input and standard error are terminals, so that a question can be asked.
pub(crate) fn has_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks the user on the terminal, and waits for the answer without a time limit. Returns whether the answer is yes. With
/// the option `skip`, the command does not ask.
///
/// # Errors
///
/// [`Exit::Io`] if the terminal cannot be read or written, [`Exit::System`] if the system refuses the thread that
/// waits.
pub(crate) async fn ask(question: String, skip: &str) -> Result<bool, Failure> {
    let (sender, receiver) = oneshot::channel();
    let read_answer = move || {
        let mut out = anstream::stderr().lock();
        write!(out, "{question} [y/N] ").and_then(|()| out.flush())?;
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    };
    // The thread does not belong to the runtime's pool, because the runtime would wait for it at the end.
    let thread = thread::Builder::new().name("question".to_owned());
    let started = thread.spawn(move || drop(sender.send(read_answer())));
    started.map_err(|error| Failure::not_started("a thread to ask", &error))?;
    let answer = receiver.await.map_err(io::Error::other).and_then(|answer| answer);
    let answer = answer.map_err(|error| {
        Failure::new(
            Exit::Io,
            format!("cannot ask on the terminal: {error}: give {skip} to skip the question"),
        )
    })?;
    Ok(is_yes(&answer))
}

/// Whether the answer is `y` or `yes`, in upper or lower case.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_asked_only_on_a_terminal_without_the_option_yes() {
        let consent = |is_given, is_terminal| Consent::with(is_given, is_terminal, "unlock");
        assert_eq!(consent(true, true), Ok(Consent::Given));
        assert_eq!(consent(true, false), Ok(Consent::Given));
        assert_eq!(consent(false, true), Ok(Consent::Ask));
        let failure = consent(false, false).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.ends_with("give --yes to unlock without a question"), "{}", failure.message);
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
