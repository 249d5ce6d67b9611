//! The names of locks and elections as they are shown.

use std::borrow::Cow;

use os_display::Quoted;

/// A name, or what else may be any bytes, as reports show it: what is UTF-8 as it is, everything else
/// and control characters escaped. No two are shown alike.
pub(crate) fn shown(name: &[u8]) -> String {
    let chunks = name.utf8_chunks();
    chunks
        .map(|chunk| format!("{}{}", chunk.valid().escape_debug(), chunk.invalid().escape_ascii()))
        .collect()
}

/// The same as JSON has it, and so that it can be given back: as text, or if it is not UTF-8, in
/// hexadecimal digits.
pub(crate) fn told(name: &[u8]) -> (Option<String>, Option<String>) {
    match str::from_utf8(name) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(name.iter().map(|byte| format!("{byte:02x}")).collect())),
    }
}

/// The same as the last argument of a command that people may type, or copy, into their shell.
///
/// What prints is quoted as any shell understands it. The rest takes the `$'...'` of bash, zsh and
/// ksh: there is no other way to show it on a terminal, to which it may be an order.
pub(crate) fn typed(name: &[u8]) -> String {
    let prints = |char: char| matches!(char, '\'' | '"' | '\\') || char.escape_debug().len() == 1;
    let text = str::from_utf8(name).ok().filter(|text| text.chars().all(prints));
    let quoted = text.and_then(|text| shlex::try_quote(text).ok().map(Cow::into_owned));
    let quoted = quoted.unwrap_or_else(|| Quoted::unix_raw(name).to_string());
    // Or it would be taken for an option.
    let dashes = if name.starts_with(b"-") { "-- " } else { "" };
    format!("{dashes}{quoted}")
}
