//! Tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use console::Term;

/// How wide the terminal is to which results go; `None` if they go elsewhere, where lines stay
/// whole for `awk` and the like.
pub(crate) fn width() -> Option<u16> {
    width_of(&Term::stdout())
}

/// How wide this is, if it is a terminal.
pub(crate) fn width_of(term: &Term) -> Option<u16> {
    // A terminal that claims no columns does not know how many it has.
    term.size_checked().map(|(_, columns)| columns).filter(|columns| *columns > 0)
}

/// A table with these columns, at most so wide.
pub(crate) fn table(columns: &[&str], width: Option<u16>) -> Table {
    // On a terminal every column counts.
    let gap = if width.is_some() { 1 } else { 2 };
    let mut table = fitted(width);
    table.set_header(columns.iter().copied());
    for column in table.column_iter_mut() {
        column.set_padding((0, gap));
    }
    table
}

/// A text as lines of at most this width, broken between words.
pub(crate) fn wrapped(text: &str, width: Option<u16>) -> String {
    let mut lines = fitted(width);
    lines.add_row([text]);
    for column in lines.column_iter_mut() {
        column.set_padding((0, 0));
    }
    lines.trim_fmt()
}

fn fitted(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}
