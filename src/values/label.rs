//! The label of a client.

use std::{fmt, sync::Arc};

use crate::values::Printable;

/// The longest label in bytes. With this limit, lease ids and the names of waiters stay below 128 bytes, the longest
/// text that a node accepts as a lease id.
pub(crate) const MAX_LABEL_BYTES: usize = 48;

/// The mark that replaces the beginning of a long host name.
const CUT: &str = "…";

/// The label that identifies a client in logs and reports. The label precedes the client's uuid in every lease id. The
/// default is no label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(Arc<str>);

impl Label {
    /// Returns a label. `None` if the text is empty, too long, or cannot be shown on one line.
    pub(crate) fn new(text: &str) -> Option<Self> {
        Self::is_valid(text).then(|| Self(text.into()))
    }

    /// Whether a text can be a label.
    pub(super) fn is_valid(text: &str) -> bool {
        (1..=MAX_LABEL_BYTES).contains(&text.len()) && Printable(text).is_plain()
    }

    /// Returns `host:pid`. The beginning of a long host name is cut off, because generated names, such as the names of
    /// the pods of one Deployment, differ at the end.
    pub(crate) fn of_process(host: &str, pid: u32) -> Self {
        let host = host.split('.').next().unwrap_or_default();
        let printed = |char: char| if char.escape_debug().len() == 1 { char } else { '?' };
        let whole: String = format!("{host}:{pid}").chars().map(printed).collect();
        if whole.len() <= MAX_LABEL_BYTES {
            return Self(whole.into());
        }
        let longest = MAX_LABEL_BYTES - CUT.len();
        let end = whole.char_indices().map(|(index, _)| index).find(|index| whole.len() - index <= longest);
        Self(format!("{CUT}{}", whole.get(end.unwrap_or_default()..).unwrap_or_default()).into())
    }

    /// Returns the name of the client's connections: the label, with `_` in place of characters that a server refuses.
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
    fn a_label_has_one_line_of_at_most_48_bytes() {
        for text in ["a", "web 7 (blue)", "grün:1", &"x".repeat(48)] {
            assert_eq!(Label::new(text).unwrap().to_string(), text);
        }
        for text in ["", "a\nb", "\u{7f}", "a\u{202e}b", &"x".repeat(49), &"ü".repeat(25)] {
            assert_eq!(Label::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_label_of_a_process_is_its_host_and_pid() {
        assert_eq!(Label::of_process("web-7.example.org", 4711).to_string(), "web-7:4711");
        let long = Label::of_process(&"ü".repeat(60), u32::MAX).to_string();
        assert_eq!(Label::new(&long).unwrap().to_string(), long);
        assert!(long.starts_with("…üü") && long.ends_with("üü:4294967295"), "{long}");
        assert_eq!(Label::of_process("a\nb\u{202e}", 1).to_string(), "a?b?:1");
    }

    #[test]
    fn hosts_that_differ_only_at_the_end_have_different_labels() {
        let [first, second] = ["x2x9k", "q8z4t"].map(|pod| {
            let host = format!("my-release-payments-reconciliation-worker-7c9d8f6b5d-{pod}");
            Label::of_process(&host, 1).to_string()
        });
        assert_eq!(first, "…ents-reconciliation-worker-7c9d8f6b5d-x2x9k:1");
        assert_eq!(second, "…ents-reconciliation-worker-7c9d8f6b5d-q8z4t:1");
        assert_eq!(Label::of_process(&"x".repeat(46), 1).to_string().len(), 48);
        assert_eq!(Label::of_process(&"x".repeat(47), 1).to_string().len(), 48);
    }

    #[test]
    fn a_client_name_has_only_characters_that_servers_accept() {
        assert_eq!(Label::new("grün 7").unwrap().as_client_name(), "redquorum/gr_n_7");
    }
}
