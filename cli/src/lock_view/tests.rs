//! The text of an inspected lock.

use super::*;

const OWNER: &str = "5f0c1f1e-4f0f-4b6f-8d55-0e2b7a3f8d10:1234";

fn node(number: u8, holder: Option<Holder>) -> NodeLockView {
    NodeLockView {
        node: format!("redis-{number}.internal:6379"),
        state: if holder.is_some() { NodeState::Held } else { NodeState::Unknown },
        counter: holder.is_some().then_some(1_763_751_600_000_001),
        latency_ms: holder.is_some().then_some(0.412),
        error: holder.is_none().then(|| "the connection cannot be used: ".to_owned() + &"word ".repeat(20)),
        holder,
        is_shared: false,
        abstains: None,
    }
}

fn view() -> LockView {
    let holder = Holder {
        owner: Some(OWNER.to_owned()),
        label: None,
        holds: 1,
        remaining_ms: Some(24_800.0),
        ticket: false,
    };
    let nodes = (1..=5).map(|number| node(number, (number < 5).then(|| holder.clone())));
    LockView {
        slot: None,
        multi_permit: false,
        resource: Some("nightly-report".to_owned()),
        resource_hex: None,
        bytes: b"nightly-report".to_vec(),
        name: "nightly-report".to_owned(),
        state: ShownState::Held,
        needed: 3,
        holder: Some(holder.clone()),
        readers: Vec::new(),
        election: false,
        waiters: Waiters::default(),
        queue: Vec::new(),
        latch: None,
        nodes: nodes.collect(),
    }
}

#[test]
fn a_terminal_of_80_columns_shows_one_line_per_node() {
    let shown = view().shown(Some(80));
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for number in 1..=5 {
        let rows = shown.lines().filter(|line| line.starts_with(&format!("redis-{number}.internal:6379 ")));
        assert_eq!(rows.count(), 1, "{shown}");
    }
    assert_eq!((shown.matches(OWNER).count(), shown.matches("5f0c1f1e…:1234").count()), (1, 4), "{shown}");
}

/// Returns a view with this number of waiters, of which the first `shown` are known.
fn view_with_waiters(waiters: usize, shown: usize) -> LockView {
    let waiter = |number| WaiterView {
        waiter: format!("job-{number}:77/{OWNER}:{number}"),
        label: (number > 0).then(|| format!("job-{number}:77")),
        shared: false,
    };
    let counted = Waiters::in_queue(waiters, 0..shown);
    LockView { waiters: counted, queue: (0..shown).map(waiter).collect(), ..view() }
}

#[test]
fn all_waiters_are_named_up_to_a_bound() {
    assert_eq!(view().waiting(true), None);
    let few = view_with_waiters(3, 3);
    assert_eq!(few.waiting(true).unwrap(), "3 waiters: job-0:77…:0, job-1:77, job-2:77");
    assert!(few.waiting(false).unwrap().contains(OWNER));
    let candidates = LockView { election: true, ..view_with_waiters(1, 1) };
    assert!(candidates.waiting(true).unwrap().starts_with("1 candidate: job-0:77"));
    assert!(candidates.conclusion().starts_with("nightly-report is led by "), "{}", candidates.conclusion());
    for (waiters, known) in [(20, 20), (90, 64)] {
        let many = view_with_waiters(waiters, known).waiting(true).unwrap();
        assert!(many.ends_with(&format!(", job-15:77 and {} more", waiters - 16)), "{many}");
    }
    // The entries of all waiters have just ended.
    assert_eq!(view_with_waiters(2, 0).waiting(true).unwrap(), "2 waiters: 2 more");
    let shown = view_with_waiters(90, 64).shown(Some(80));
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_eq!(
        shown.lines().last(),
        view().shown(Some(80)).lines().last(),
        "the conclusion is the last line"
    );
}

#[test]
fn a_waiter_for_any_slot_counts_once() {
    let slots = [view_with_waiters(3, 3), view_with_waiters(2, 2), view()];
    let waiters = |slots: &[LockView]| LockView::waiters_of_any(slots).counted("waiter");
    assert_eq!(waiters(&slots), "3 waiters");
    assert_eq!(waiters(&[view_with_waiters(90, 32), view()]), "90 waiters");
    let of_many_slots = [90, 1, 1, 0].map(|waiters| view_with_waiters(waiters, waiters.min(32)));
    assert_eq!(waiters(&of_many_slots), "at least 90 waiters");
    assert_eq!(waiters(&[view()]), "0 waiters");
}

#[test]
fn lines_are_not_shortened_without_a_terminal() {
    let shown = view().shown(None);
    assert_eq!(shown.lines().count(), 1 + 5 + 1 + 1, "{shown}");
    assert_eq!(shown.matches(OWNER).count(), 4 + 1, "{shown}");
    assert!(shown.lines().nth(6).unwrap().starts_with("redis-5.internal:6379: the connection"), "{shown}");
}

#[test]
fn a_long_owner_is_shortened_to_its_beginning_and_number() {
    assert_eq!(short("short:1"), "short:1");
    assert_eq!(short(OWNER), "5f0c1f1e…:1234");
    assert_eq!(short("ü".repeat(40).as_str()), "üüüüüüüü…");
}

#[test]
fn a_long_label_is_shortened_to_its_end() {
    assert_eq!(short_label("web-7:4711"), "web-7:4711");
    assert_eq!(short_label("seventeen-long:12"), "seventeen-long:12");
    assert_eq!(short_label("my-worker-7c9d8f6b5d-x2x9k:1"), "…9d8f6b5d-x2x9k:1");
    assert_eq!(short_label(&"ü".repeat(18)), format!("…{}", "ü".repeat(16)));
}
