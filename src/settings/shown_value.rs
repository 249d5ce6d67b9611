//! The values of settings in errors, without texts that may be passwords.

/// The largest number of characters of a shown value. The values of settings are short.
const MAX_SHOWN: usize = 32;

/// Whether a text has the form of a setting or of its key, and therefore may be shown. A url in the place of another
/// setting may hold a password, and does not have this form.
pub(super) fn may_be_shown(text: &str) -> bool {
    let is_of_setting = |character: char| character.is_alphanumeric() || " .,-+_%".contains(character);
    text.chars().all(is_of_setting) && text.chars().count() <= MAX_SHOWN
}

/// Returns the text if it may be shown, and stars otherwise.
pub(super) fn shown(text: &str) -> &str {
    if may_be_shown(text) { text } else { "***" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_text_in_the_form_of_a_setting_is_shown() {
        for text in ["", "30", "1m 30s", "-1.5µs", "1%", "per-connection", "1s,2s", "max_ttl"] {
            assert_eq!(shown(text), text);
        }
        for text in ["redis://:word@host", "me@host", "a:b", "line\nbreak", &"9".repeat(33)] {
            assert_eq!(shown(text), "***");
        }
    }
}
