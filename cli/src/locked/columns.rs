//! The lines of the table of locks, for `list` and `top`.

use std::iter::zip;

use super::{
    TableRow,
    fitting::{fitted, padded, width},
};

const HEAD: [&str; 7] = ["resource", "state", "owner", "left", "queue", "nodes", "differing"];

/// The indices of the columns that may be shortened for a narrow terminal.
const FLEXIBLE: [usize; 4] = [0, 2, 4, 6];

/// The smallest width of a shortened column.
const MIN_WIDTH: usize = 9;

/// Returns the head and a line for each row. The lines are fitted to a terminal with this number of columns, or left
/// whole without a number.
pub(crate) fn lines<'a>(rows: impl IntoIterator<Item = &'a TableRow>, columns: Option<u16>) -> Vec<String> {
    let gap = if columns.is_some() { 1 } else { 2 };
    let cells = |row: &TableRow| {
        let cells = row.cells.clone();
        let (owner, queue) = match columns {
            Some(_) => (cells.owner, cells.queue),
            None => (cells.whole_owner, cells.waiters),
        };
        let state = cells.state.to_owned();
        [row.name.clone(), state, owner, cells.left, queue, cells.nodes, cells.differing]
    };
    let table: Vec<[String; 7]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(rows.into_iter().map(cells)).collect();
    let mut widths = [0; 7];
    for line in &table {
        for (widest, cell) in zip(&mut widths, line) {
            *widest = (*widest).max(width(cell));
        }
    }
    if let Some(columns) = columns {
        shrink(&mut widths, gap, columns.into());
    }
    let line = |cells: &[String; 7]| {
        let cells = zip(cells, widths).map(|(cell, width)| padded(&fitted(cell, width), width));
        cells.collect::<Vec<_>>().join(&" ".repeat(gap)).trim_end().to_owned()
    };
    table.iter().map(line).collect()
}

/// Shortens the widest flexible column repeatedly, until a line fits or no column can be shortened further.
fn shrink(widths: &mut [usize; 7], gap: usize, columns: usize) {
    while widths.iter().sum::<usize>() + gap * (widths.len() - 1) > columns {
        let widest = FLEXIBLE.into_iter().max_by_key(|at| widths.get(*at).copied().unwrap_or_default());
        match widest.and_then(|at| widths.get_mut(at)) {
            Some(width) if *width > MIN_WIDTH => *width -= 1,
            _ => return,
        }
    }
}
