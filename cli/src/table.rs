//! Tables of the text output.

use comfy_table::{ContentArrangement, Table, presets};
use console::Term;

/// Returns the width of the terminal on standard output. Returns `None` if standard output is no terminal. Lines stay
/// whole in this case, for programs such as `awk`.
pub(crate) fn width() -> Option<u16> {
    width_of(&Term::stdout())
}

/// Returns the width of `term`; `None` if `term` is no terminal, or has an unknown width.
pub(crate) fn width_of(term: &Term) -> Option<u16> {
    // A terminal of unknown width reports zero columns.
    term.size_checked().map(|(_, columns)| columns).filter(|columns| *columns > 0)
}

/// Returns a table with these column titles and at most this width.
pub(crate) fn table(columns: &[&str], width: Option<u16>) -> Table {
    // The gap on a terminal is narrow, because a terminal has few columns.
    let gap = if width.is_some() { 1 } else { 2 };
    let mut table = fitted(width);
    table.set_header(columns.iter().copied());
    for column in table.column_iter_mut() {
        column.set_padding((0, gap));
    }
    table
}

/// Returns a text in lines of at most this width, broken between words.
pub(crate) fn wrapped(text: &str, width: Option<u16>) -> String {
    let mut lines = fitted(width);
    lines.add_row([text]);
    for column in lines.column_iter_mut() {
        column.set_padding((0, 0));
    }
    lines.trim_fmt()
}

/// Returns an empty table without borders, of at most this width.
fn fitted(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}
