//! Tables for people.

use std::io::{IsTerminal, stdout};

use comfy_table::{Table, presets};

/// A table with these columns: with rules on a terminal, and otherwise as plain columns, for `awk` and the like.
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(if stdout().is_terminal() { presets::UTF8_HORIZONTAL_ONLY } else { presets::NOTHING });
    table.set_header(columns.iter().copied());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}
