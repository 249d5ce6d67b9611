//! Names of locks and elections, which may be any bytes, in the forms of the output.

use std::{borrow::Cow, ffi::OsStr};

use os_display::Quoted;
use redquorum::__command;

/// Returns a name as reports show it: UTF-8 unchanged, other bytes and control characters escaped.
/// Different names stay different.
pub(crate) fn shown(name: &[u8]) -> String {
    let chunks = name.utf8_chunks();
    chunks
        .map(|chunk| format!("{}{}", chunk.valid().escape_debug(), chunk.invalid().escape_ascii()))
        .collect()
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
pub(crate) fn shell_argument(name: &[u8]) -> String {
    let prints = |char: char| matches!(char, '\'' | '"' | '\\') || char.escape_debug().len() == 1;
    let text = str::from_utf8(name).ok().filter(|text| text.chars().all(prints));
    let quoted = text.and_then(|text| shlex::try_quote(text).ok().map(Cow::into_owned));
    let quoted = quoted.unwrap_or_else(|| Quoted::unix_raw(name).to_string());
    // Without `--`, the name would be parsed as an option.
    let dashes = if name.starts_with(b"-") { "-- " } else { "" };
    format!("{dashes}{quoted}")
}
