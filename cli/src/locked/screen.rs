//! The screen of `top`: its content and layout.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use ratatui::{
    Frame,
    crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Color, Stylize},
    text::Line,
    widgets::Paragraph,
};

use super::{TableRow, fitting::fitted, lines};
use crate::{at_least::AtLeast, counted::counted, duration, waiters::Waiters};

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowOrder {
    #[default]
    Name,
    /// By remaining ttl, the shortest first.
    Left,
    /// By number of waiters, the largest first.
    Waiters,
}

impl RowOrder {
    fn next(self) -> Self {
        match self {
            Self::Name => Self::Left,
            Self::Left => Self::Waiters,
            Self::Waiters => Self::Name,
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Self::Name => "resource",
            Self::Left => "time left",
            Self::Waiters => "queue",
        }
    }
}

/// The content of the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    interval: Duration,
    /// The rows in the order of the names; `None` before the first listing.
    rows: Option<Vec<TableRow>>,
    /// The silent nodes and the cycles, or the failure of the last listing.
    problems: Vec<String>,
    order: RowOrder,
    /// The number of rows above the first visible row.
    scrolled: usize,
    /// The number of rows that fitted at the last drawing.
    page: usize,
}

impl Screen {
    pub(crate) fn new(interval: Duration) -> Self {
        let (order, rows, problems) = (RowOrder::default(), None, Vec::new());
        Self { interval, rows, problems, order, scrolled: 0, page: 1 }
    }

    /// Replaces the rows, and the lines above the rows.
    pub(crate) fn show(&mut self, rows: Vec<TableRow>, problems: Vec<String>) {
        self.rows = Some(rows);
        self.problems = problems;
    }

    /// Shows the failure of a listing. The rows of the last listing stay.
    pub(crate) fn show_failure(&mut self, failure: String) {
        self.problems = vec![failure];
    }

    /// Handles a key. Returns whether the key ends `top`.
    pub(crate) fn on_event(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += self.page,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(self.page),
            KeyCode::Home => self.scrolled = 0,
            KeyCode::Char('s') => self.order = self.order.next(),
            _ => {}
        }
        false
    }

    fn sorted(&self) -> Vec<&TableRow> {
        let mut rows: Vec<&TableRow> = self.rows.iter().flatten().collect();
        match self.order {
            RowOrder::Name => {}
            RowOrder::Left => rows.sort_by_key(|row| row.left.unwrap_or(Duration::MAX)),
            RowOrder::Waiters => rows.sort_by_key(|row| Reverse(row.waiters.count().number)),
        }
        rows
    }

    fn head(&self) -> String {
        let interval = duration::shown(self.interval);
        let Some(rows) = &self.rows else { return format!("redquorum top: loading; every {interval}") };
        let latches = rows.iter().filter(|row| row.is_latch).count();
        let (locks, waiting) = (counted(rows.len() - latches, "lock"), waiting(rows));
        let latches = match latches {
            0 => String::new(),
            1 => ", 1 latch".to_owned(),
            latches => format!(", {latches} latches"),
        };
        format!(
            "redquorum top: {locks}{latches}, {}{} waiting; every {interval}, by {}",
            waiting.prefix(),
            waiting.number,
            self.order.shown()
        )
    }

    /// Draws the screen, and limits the scrolling to the existing rows.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        let width = frame.area().width;
        let max_problems = frame.area().height.saturating_sub(4) / 2;
        let problems = u16::try_from(self.problems.len()).unwrap_or(u16::MAX).min(max_problems);
        let [head, problem_area, title, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(problems),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let rows = self.sorted();
        let lines = lines(rows.iter().copied(), Some(width));
        let count = rows.len();
        let page = usize::from(body.height);
        let scrolled = self.scrolled.min(count.saturating_sub(page));
        let fit = |text: &str| fitted(text, width.into());
        frame.render_widget(Line::from(fit(&self.head())).bold(), head);
        let problem_lines: Vec<Line<'_>> =
            self.problems.iter().map(|problem| fit(problem).fg(Color::Yellow).into()).collect();
        frame.render_widget(Paragraph::new(problem_lines), problem_area);
        let mut lines = lines.into_iter();
        frame.render_widget(Line::from(lines.next().unwrap_or_default()).reversed(), title);
        let shown: Vec<Line<'_>> = lines.skip(scrolled).take(page).map(Line::from).collect();
        frame.render_widget(Paragraph::new(shown), body);
        let last = (scrolled + page).min(count);
        let position =
            if count > page { format!("  {}-{last} of {count}", scrolled + 1) } else { String::new() };
        let help = format!("q quit  ↑↓ PgUp PgDn scroll  s sort{position}");
        frame.render_widget(Line::from(fit(&help)).dim(), keys);
        (self.scrolled, self.page) = (scrolled, page.max(1));
    }
}

/// Returns the number of waiters. A waiter for any permit of a semaphore may be in the queues of several slots, and
/// counts once. The waiters for the lock of a release watcher are in the queues of slots, too.
fn waiting(rows: &[TableRow]) -> AtLeast {
    let mut of_semaphores: BTreeMap<&[u8], Waiters> = BTreeMap::new();
    for row in rows {
        if let Some(semaphore) = &row.semaphore {
            of_semaphores.entry(semaphore).or_default().add(&row.waiters);
        }
    }
    let of_locks = rows.iter().filter(|row| row.semaphore.is_none() && !row.is_release_watcher);
    let of_locks = of_locks.map(|row| &row.waiters);
    let counts = of_locks.chain(of_semaphores.values()).map(Waiters::count);
    counts.fold(AtLeast { number: 0, may_be_more: false }, |sum, count| AtLeast {
        number: sum.number + count.number,
        may_be_more: sum.may_be_more || count.may_be_more,
    })
}

#[cfg(test)]
mod tests;
