//! The width of texts on a terminal, and texts that are fitted to a width.

use ratatui::text::Span;

/// Returns the number of columns of a text.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Shortens a text to at most this width: keeps the beginning and the end, with `…` between them. A shorter text is
/// unchanged.
pub(crate) fn fitted(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(rest) = most.checked_sub(1) else { return String::new() };
    let beginning = prefix(text.chars(), rest.div_ceil(2));
    let end: String = prefix(text.chars().rev(), rest - width(&beginning)).chars().rev().collect();
    format!("{beginning}…{end}")
}

/// Returns the longest prefix with at most this width.
fn prefix(chars: impl Iterator<Item = char>, most: usize) -> String {
    let mut text = String::new();
    for char in chars {
        text.push(char);
        if width(&text) > most {
            text.pop();
            break;
        }
    }
    text
}

/// Returns a text with blanks up to this width.
pub(crate) fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_in_its_middle_to_a_number_of_columns() {
        for (text, most, expected) in [
            ("invoice:42", 10, "invoice:42"),
            ("invoice:4242", 9, "invo…4242"),
            ("漢字漢字漢字", 7, "漢…漢字"),
            ("漢字", 4, "漢字"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fitted(text, most), expected);
            assert!(width(&fitted(text, most)) <= most, "{text}");
        }
        assert_eq!(padded("漢", 4), "漢  ");
    }
}
