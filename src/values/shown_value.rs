//! The rule for refused texts in errors. A text in the wrong place may be a url with a password, or a password.

/// The mark in place of a text that is not shown.
const HIDDEN: &str = "***";

/// The largest number of characters of a shown value. The values of settings are short.
const MAX_SHOWN: usize = 32;

/// Whether a text has the form of a url, or of a url without its scheme, such as `user:password@host`.
pub(crate) fn may_be_url(text: &str) -> bool {
    text.contains("://") || text.split_once(':').is_some_and(|(_, after)| after.contains('@'))
}

/// Whether a text has the form of a setting or of its key, and therefore may be shown as a refused value.
fn may_be_value(text: &str) -> bool {
    let is_of_setting = |character: char| character.is_alphanumeric() || " .,-+_%".contains(character);
    text.chars().all(is_of_setting) && text.chars().count() <= MAX_SHOWN
}

/// Returns a refused value, key or argument if it may be shown, and stars otherwise.
pub(crate) fn shown_value(text: &str) -> &str {
    if may_be_value(text) { text } else { HIDDEN }
}

/// Returns a refused name or path, which may have any characters, or stars if the text may be a url.
pub(crate) fn shown_name(text: &str) -> &str {
    if may_be_url(text) { HIDDEN } else { text }
}

/// Returns a refused path, or stars if the text may be a url, or a connection string such as
/// `host:port,password=word`. Some clouds show such strings in place of urls.
#[cfg(any(test, feature = "settings", feature = "tls"))]
pub(crate) fn shown_path(text: &str) -> &str {
    let may_be_settings = text.split_once(':').is_some_and(|(_, after)| after.contains(['=', ',']));
    if may_be_settings { HIDDEN } else { shown_name(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URLS: [&str; 5] =
        ["redis://:word@host", "redis://host", "me@redis://host", "me:word@host:6379", ":word@host"];

    #[test]
    fn only_a_short_text_in_the_form_of_a_setting_is_shown_as_a_value() {
        for text in ["", "30", "1m 30s", "-1.5µs", "1%", "per-connection", "1s,2s", "max_ttl"] {
            assert_eq!(shown_value(text), text);
        }
        for text in ["me@host", "a:b", "line\nbreak", &"9".repeat(33)].into_iter().chain(URLS) {
            assert_eq!(shown_value(text), "***");
        }
    }

    #[test]
    fn a_name_or_path_is_shown_unless_it_may_be_a_url() {
        for text in ["", "invoice:42", "me@host:7", "/etc/redquorum.toml", "line\nbreak", &"9".repeat(513)] {
            assert_eq!(shown_name(text), text);
        }
        for text in URLS {
            assert_eq!(shown_name(text), "***");
            assert_eq!(shown_name(&format!("/etc/{text}")), "***");
        }
    }

    #[test]
    fn a_path_is_shown_unless_it_may_be_a_url_or_a_connection_string() {
        for text in ["/etc/redquorum.toml", "C:\\redquorum.toml", "a=b,c", "me@host:7"] {
            assert_eq!(shown_path(text), text);
        }
        let azure = ["cache.example:6380,password=word=,ssl=True", "cache:6380;password=word"];
        for text in azure.into_iter().chain(URLS) {
            assert_eq!(shown_path(text), "***");
            assert_eq!(shown_path(&format!("./{text}")), "***");
        }
    }
}
