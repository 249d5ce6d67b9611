//! The screen of `top`: what is on it, and how it is drawn.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use ratatui::{
    Frame,
    crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Color, Stylize},
    text::Line,
    widgets::Paragraph,
};

use super::{Row, fitting::fitted, lines};
use crate::{counted::counted, duration};

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowOrder {
    #[default]
    Name,
    /// Those first that end first.
    Left,
    /// Those first for which most wait.
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

/// What is on the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    interval: Duration,
    /// In the order of the names; `None` before the first answer.
    rows: Option<Vec<Row>>,
    /// What is wrong: nodes that are silent, or that no quorum could be asked.
    problems: Vec<String>,
    order: RowOrder,
    /// So many rows are above the first one that is shown.
    scrolled: usize,
    /// So many fit at the last drawing.
    page: usize,
}

impl Screen {
    pub(crate) fn new(interval: Duration) -> Self {
        let (order, rows, problems) = (RowOrder::default(), None, Vec::new());
        Self { interval, rows, problems, order, scrolled: 0, page: 1 }
    }

    /// Shows what was found now.
    pub(crate) fn show(&mut self, rows: Vec<Row>, silent: Vec<String>) {
        self.rows = Some(rows);
        self.problems = silent;
    }

    /// Says why nothing was found. What was found before stays.
    pub(crate) fn fail(&mut self, why: String) {
        self.problems = vec![why];
    }

    /// Does what a key says; whether it is to end.
    pub(crate) fn hear(&mut self, event: &Event) -> bool {
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

    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().flatten().collect();
        match self.order {
            RowOrder::Name => {}
            RowOrder::Left => rows.sort_by_key(|row| row.left.unwrap_or(Duration::MAX)),
            RowOrder::Waiters => rows.sort_by_key(|row| Reverse(row.waiters)),
        }
        rows
    }

    fn head(&self) -> String {
        let interval = duration::shown(self.interval);
        let Some(rows) = &self.rows else { return format!("redquorum top: asking, every {interval}") };
        let (locks, waiting) = (counted(rows.len(), "lock"), waiting(rows));
        format!("redquorum top: {locks}, {waiting} waiting; every {interval}, by {}", self.order.shown())
    }

    /// Draws it, and keeps the rows in view that there are.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        let width = frame.area().width;
        let most = frame.area().height.saturating_sub(4) / 2;
        let problems = u16::try_from(self.problems.len()).unwrap_or(u16::MAX).min(most);
        let [head, wrong, title, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(problems),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let rows = self.sorted();
        let lines = lines(&rows, Some(width));
        let count = rows.len();
        let page = usize::from(body.height);
        let scrolled = self.scrolled.min(count.saturating_sub(page));
        let fit = |text: &str| fitted(text, width.into());
        frame.render_widget(Line::from(fit(&self.head())).bold(), head);
        let wrongs: Vec<Line<'_>> =
            self.problems.iter().map(|why| fit(why).fg(Color::Yellow).into()).collect();
        frame.render_widget(Paragraph::new(wrongs), wrong);
        let mut lines = lines.into_iter();
        frame.render_widget(Line::from(lines.next().unwrap_or_default()).reversed(), title);
        let shown: Vec<Line<'_>> = lines.skip(scrolled).take(page).map(Line::from).collect();
        frame.render_widget(Paragraph::new(shown), body);
        let last = (scrolled + page).min(count);
        let seen = if count > page { format!("  {}-{last} of {count}", scrolled + 1) } else { String::new() };
        let help = format!("q quit  ↑↓ PgUp PgDn scroll  s sort{seen}");
        frame.render_widget(Line::from(fit(&help)).dim(), keys);
        (self.scrolled, self.page) = (scrolled, page.max(1));
    }
}

/// How many wait, as far as can be told. Who waits for any permit of a semaphore is in the queue of
/// each of its slots, and is one.
fn waiting(rows: &[Row]) -> u64 {
    let mut of_semaphores: BTreeMap<&[u8], u32> = BTreeMap::new();
    let mut waiting = 0;
    for row in rows {
        match &row.semaphore {
            None => waiting += u64::from(row.waiters),
            Some(semaphore) => {
                let most = of_semaphores.entry(semaphore).or_default();
                *most = (*most).max(row.waiters);
            }
        }
    }
    waiting + of_semaphores.values().map(|most| u64::from(*most)).sum::<u64>()
}

#[cfg(test)]
mod tests;
