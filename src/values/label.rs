//! What a client calls itself, for people.

use std::{fmt, sync::Arc};

use crate::values::Printable;

/// The longest label in bytes. With it, an owner and a waiter stay below the 128 bytes up to which a
/// node takes a name for an owner's.
pub(crate) const LONGEST_LABEL: usize = 48;

/// What a client calls itself, for people: it stands before its uuid in the name of each owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(Arc<str>);

impl Label {
    /// None if it is empty, too long, or cannot be shown on one line.
    pub(crate) fn new(text: &str) -> Option<Self> {
        Self::is_one(text).then(|| Self(text.into()))
    }

    /// Whether a client can have this label.
    pub(super) fn is_one(text: &str) -> bool {
        (1..=LONGEST_LABEL).contains(&text.len()) && Printable(text).is_plain()
    }

    /// `host:pid`; the beginning of a host with a long name.
    pub(crate) fn of_process(host: &str, pid: u32) -> Self {
        let pid = format!(":{pid}");
        let host = host.split('.').next().unwrap_or_default();
        let printed = |char: char| if char.escape_debug().len() == 1 { char } else { '?' };
        let mut label = String::new();
        for char in host.chars().map(printed) {
            if label.len() + char.len_utf8() + pid.len() <= LONGEST_LABEL {
                label.push(char);
            }
        }
        Self((label + &pid).into())
    }

    /// The same in the characters that a server takes for the name of a connection.
    pub(crate) fn as_client_name(&self) -> String {
        let plain = |char: char| if char.is_ascii_graphic() { char } else { '_' };
        format!("redquorum/{}", self.0.chars().map(plain).collect::<String>())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_one_line_and_48_bytes_at_most() {
        for text in ["a", "web 7 (blue)", "grün:1", &"x".repeat(48)] {
            assert_eq!(Label::new(text).unwrap().to_string(), text);
        }
        for text in ["", "a\nb", "\u{7f}", "a\u{202e}b", &"x".repeat(49), &"ü".repeat(25)] {
            assert_eq!(Label::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_process_is_its_host_without_the_domain_and_its_number() {
        assert_eq!(Label::of_process("web-7.example.org", 4711).to_string(), "web-7:4711");
        let long = Label::of_process(&"ü".repeat(60), u32::MAX).to_string();
        assert_eq!(Label::new(&long).unwrap().to_string(), long);
        assert!(long.starts_with("üü") && long.ends_with(":4294967295"), "{long}");
        assert_eq!(Label::of_process("a\nb\u{202e}", 1).to_string(), "a?b?:1");
    }

    #[test]
    fn a_connection_is_named_in_what_servers_accept() {
        assert_eq!(Label::new("grün 7").unwrap().as_client_name(), "redquorum/gr_n_7");
    }
}
