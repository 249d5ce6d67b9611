//! The texts of a user in clap's errors. A text in the wrong place may be a url with a password.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use redquorum::__command::shown_value;

/// Returns the error with stars in place of a refused argument, subcommand or value that does not have the form of a
/// setting.
pub(crate) fn without_secrets(mut error: clap::Error) -> clap::Error {
    let refused = match error.kind() {
        // In other errors, this context has an option of this program.
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => ContextKind::InvalidValue,
    };
    let Some(ContextValue::String(given)) = error.get(refused) else { return error };
    let given = given.clone();
    let shown = shown_value(&given);
    if given == shown {
        return error;
    }
    error.insert(refused, ContextValue::String(shown.to_owned()));
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        // A tip of clap repeats the text.
        tips.retain(|tip| !tip.to_string().contains(&given));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}
