//! The screen of `redquorum top`: its content and its keys.

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyEvent, KeyEventKind},
};

use super::*;
use crate::locked::row::Cells;

fn row(name: &str, owner: &str, left: u64, waiters: usize, nodes: &str, differing: &str) -> TableRow {
    let cells = Cells {
        state: if owner.contains("readers") { "shared" } else { "held" },
        whole_owner: owner.to_owned(),
        owner: owner.to_owned(),
        left: format!("{left}.0s"),
        waiters: waiters.to_string(),
        queue: waiters.to_string(),
        nodes: nodes.to_owned(),
        differing: differing.to_owned(),
    };
    let left = Some(Duration::from_secs(left));
    let waiters = Waiters::in_queue(waiters, 0..waiters.min(32));
    let (name, semaphore) = (name.to_owned(), None);
    TableRow { name, is_latch: false, is_release_watcher: false, semaphore, left, waiters, cells }
}

fn rows() -> Vec<TableRow> {
    vec![
        row("catalogue", "2 readers: web-1:311, web-2:312", 29, 1, "5/5", "-"),
        row(
            "invoice:4242:of:a:customer:with:a:very:long:name",
            "billing-worker-7:4711",
            9,
            12,
            "4/5",
            "redis-3.internal:6379",
        ),
        row("nightly-report", "batch:77", 24, 0, "5/5", "-"),
        row("漢字漢字", "büro:1", 3, 0, "3/5", "redis-1.internal:6379,redis-2.internal:6379"),
    ]
}

/// Draws the screen on a terminal of this size, and returns its lines.
fn draw(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let text = terminal.backend().to_string();
    // The text has each line in quotes, followed by a list of the cells that wide characters hide.
    let line = |line: &str| line.split('"').nth(1).unwrap_or_default().trim_end().to_owned();
    text.lines().map(line).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> bool {
    screen.on_event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn screen() -> Screen {
    let mut screen = Screen::new(Duration::from_secs(1));
    screen.show(rows(), vec!["redis-5.internal:6379: unreachable: connection refused".to_owned()]);
    screen
}

fn snapshot(lines: &[String]) -> String {
    lines.iter().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_screen_of_80_columns_shortens_names_and_keeps_all_columns() {
    let lines = draw(&mut screen(), 80, 24);
    assert_eq!(lines.len(), 24);
    assert_eq!(snapshot(&lines), include_str!("80x24.txt"));
}

#[test]
fn a_screen_of_160_columns_shortens_no_name() {
    let lines = draw(&mut screen(), 160, 40);
    assert_eq!(lines.len(), 40);
    assert_eq!(snapshot(&lines), include_str!("160x40.txt"));
}

#[test]
fn an_empty_or_tiny_screen_is_drawn() {
    let mut screen = Screen::new(Duration::from_secs(1));
    assert_eq!(draw(&mut screen, 80, 24)[0], "redquorum top: loading; every 1.0s");
    screen.show(rows(), vec!["a silent node".to_owned(); 30]);
    for (width, height) in [(1, 1), (10, 2), (20, 5)] {
        assert_eq!(draw(&mut screen, width, height).len(), usize::from(height));
    }
}

#[test]
fn a_failure_is_shown_above_the_last_rows() {
    let mut screen = screen();
    screen.show_failure("no quorum lists the locks".to_owned());
    let lines = draw(&mut screen, 80, 24);
    assert_eq!(lines[1], "no quorum lists the locks");
    assert!(lines.iter().any(|line| line.starts_with("catalogue ")), "{lines:?}");
    screen.show(rows(), Vec::new());
    assert!(draw(&mut screen, 80, 24)[1].starts_with("resource "));
}

#[test]
fn keys_scroll_the_list_change_its_order_and_end_the_screen() {
    let mut screen = Screen::new(Duration::from_secs(1));
    let many = (0..30).map(|number| row(&format!("n{number:02}"), "me", 30 - number, 0, "5/5", "-"));
    screen.show(many.collect(), Vec::new());
    let first = |screen: &mut Screen| draw(screen, 80, 13)[2][..3].to_owned();
    assert_eq!(first(&mut screen), "n00");
    for (key, expected) in [
        (KeyCode::Down, "n01"),
        (KeyCode::Char('j'), "n02"),
        (KeyCode::Up, "n01"),
        (KeyCode::PageDown, "n11"),
        (KeyCode::PageDown, "n20"),
        (KeyCode::PageDown, "n20"),
        (KeyCode::Char('k'), "n19"),
        (KeyCode::PageUp, "n09"),
        (KeyCode::Home, "n00"),
        (KeyCode::Char('s'), "n29"),
    ] {
        assert!(!press(&mut screen, key));
        assert_eq!(first(&mut screen), expected, "{key:?}");
    }
    assert!(press(&mut screen, KeyCode::Char('q')) && press(&mut screen, KeyCode::Esc));
    assert!(!press(&mut screen, KeyCode::Char('c')));
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(screen.on_event(&Event::Key(control)));
    let released = KeyEvent { kind: KeyEventKind::Release, ..control };
    assert!(!screen.on_event(&Event::Key(released)));
}

#[test]
fn latches_are_counted_apart_from_locks() {
    let latch = |name: &str| TableRow { is_latch: true, ..row(name, "3 of 5", 86_400, 0, "5/5", "-") };
    let mut screen = Screen::new(Duration::from_secs(1));
    for (latches, head) in [
        (1, "redquorum top: 4 locks, 1 latch, 13 waiting; "),
        (2, "redquorum top: 4 locks, 2 latches, 13 waiting; "),
    ] {
        let latches = (0..latches).map(|number| latch(&format!("latch {number}")));
        screen.show(rows().into_iter().chain(latches).collect(), Vec::new());
        assert!(draw(&mut screen, 80, 24)[0].starts_with(head), "{:?}", draw(&mut screen, 80, 24));
    }
}

#[test]
fn a_waiter_for_any_permit_of_a_semaphore_counts_once() {
    let slot = |semaphore: &str, waiters| {
        let mut slot = row(&format!("slot of {semaphore}"), "me", 9, waiters, "5/5", "-");
        slot.semaphore = Some(semaphore.as_bytes().to_vec());
        slot
    };
    let mut screen = Screen::new(Duration::from_secs(1));
    let watcher = TableRow { is_release_watcher: true, ..row("watcher of cpu", "me", 9, 2, "5/5", "-") };
    let rows = [slot("gpu", 0), slot("gpu", 2), slot("gpu", 1), slot("cpu", 3), watcher];
    screen.show(rows.into_iter().chain([row("job", "me", 9, 4, "5/5", "-")]).collect(), Vec::new());
    let head = &draw(&mut screen, 80, 24)[0];
    assert!(head.starts_with("redquorum top: 6 locks, 9 waiting; "), "{head}");
    screen.show([40, 2, 3, 1].map(|waiters| slot("gpu", waiters)).into(), Vec::new());
    let head = &draw(&mut screen, 80, 24)[0];
    assert!(head.starts_with("redquorum top: 4 locks, at least 40 waiting; "), "{head}");
}
