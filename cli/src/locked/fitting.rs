//! Texts in so many columns of a terminal.

use ratatui::text::Span;

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text that is no wider than this: its beginning and its end, with `…` between them.
pub(crate) fn fitted(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(rest) = most.checked_sub(1) else { return String::new() };
    let beginning = taken(text.chars(), rest.div_ceil(2));
    let end: String = taken(text.chars().rev(), rest - width(&beginning)).chars().rev().collect();
    format!("{beginning}…{end}")
}

/// As many of the characters as fit.
fn taken(chars: impl Iterator<Item = char>, most: usize) -> String {
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

/// A text and as many blanks as it takes to be so wide.
pub(crate) fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_in_the_middle_by_what_it_takes_on_the_screen() {
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
