//! The table of locks that `list` and `top` show.

mod columns;
pub(crate) mod drawing;
mod fitting;
mod row;
pub(crate) mod screen;

pub(crate) use self::{
    columns::lines,
    row::{LatchRow, Row, TableRow, latches_of_listing, of_listing},
};
