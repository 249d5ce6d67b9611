//! Names of locks and elections, which may be any bytes, in the forms of the output.

use std::{borrow::Cow, ffi::OsStr};

use os_display::Quoted;
use redquorum::__command::{self, readable};

/// Returns a name or value as reports show it: printable UTF-8 unchanged, so that a copied name is the same lock, and
/// other bytes, characters that do not print and backslashes escaped. Different names stay different, except urls,
/// whose user and password are hidden.
pub(crate) fn shown(name: &[u8]) -> String {
    readable(name)
}

/// Returns the path of a file or program that cannot be used. A path that may be a url or a connection string with a
/// password is not shown.
pub(crate) fn shown_path(path: impl AsRef<OsStr>) -> String {
    __command::shown_path(&path.as_ref().to_string_lossy()).to_owned()
}

/// Returns a name for JSON without loss: as text, or if it is not UTF-8, in hexadecimal digits.
pub(crate) fn text_or_hex(name: &[u8]) -> (Option<String>, Option<String>) {
    match str::from_utf8(name) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(name.iter().map(|byte| format!("{byte:02x}")).collect())),
    }
}

/// Returns a name quoted as the last argument of a command, to be typed or copied into a shell.
///
/// Printable names are quoted for any shell. Other names are quoted as `$'...'` for bash, zsh and ksh, because a
/// terminal may execute control characters. Other shells have no escapes for these characters.
///
/// A url with a user and password is not repeated. Then the argument is only a placeholder.
pub(crate) fn shell_argument(name: &[u8]) -> String {
    if readable(name).contains("://***@") {
        return "NAME".to_owned();
    }
    let prints = |char: char| matches!(char, '\'' | '"' | '\\') || char.escape_debug().len() == 1;
    let text = str::from_utf8(name).ok().filter(|text| text.chars().all(prints));
    let quoted = text.and_then(|text| shlex::try_quote(text).ok().map(Cow::into_owned));
    let quoted = quoted.unwrap_or_else(|| Quoted::unix_raw(name).to_string());
    // Without `--`, the name would be parsed as an option.
    let dashes = if name.starts_with(b"-") { "-- " } else { "" };
    format!("{dashes}{quoted}")
}
