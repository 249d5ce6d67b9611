//! Timelines of histories, as text and as a picture.

use std::collections::BTreeMap;

use ::svg::{node::element::tag::Type, parser::Event as Parsed};

use super::{row::CHARACTER, *};
use crate::{
    sim::{Promises, history::AttemptId},
    values::{FencingToken, Resource},
};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a history of consecutive leases of the processes 0, 1 and 2 in turn. Each attempt takes
/// 3 ms, and each lease lasts for `held` ms. Every fifth lease ends without an unlock.
fn history(leases: u64, held: u64) -> History {
    let mut history = History::new();
    for number in 0..leases {
        let (process, began) = (usize::try_from(number % 3).unwrap(), number * (held + 4));
        let (attempt, token) = (AttemptId::new(number), FencingToken::new(1_700_000_000_000_000 + number));
        let names: &[&str] = if number % 4 == 3 { &["a<b", "log"] } else { &["a<b"] };
        let resources = names.iter().map(|name| Resource::new(name).unwrap()).collect();
        let is_unlocked = number % 5 != 4;
        history.note(ms(began), process, Event::Began { attempt, resources, shared: vec![] });
        history.note(ms(began + 3), process, Event::Granted { attempt, token });
        history.note(ms(began + 3 + held), process, Event::Ended { attempt, is_unlocked });
        if !is_unlocked {
            history.note(ms(began + 3 + held), process, Event::Announced { attempt });
        }
    }
    history
}

/// Returns a history whose second lease is granted during the first.
fn overlapping() -> History {
    let mut history = history(1, 20);
    let (attempt, token) = (AttemptId::new(1), FencingToken::new(1_700_000_000_000_007));
    history.note(
        ms(30),
        1,
        Event::Began { attempt, resources: vec![Resource::new("a<b").unwrap()], shared: vec![] },
    );
    history.note(ms(31), 1, Event::Granted { attempt, token });
    let (attempt, token) = (AttemptId::new(2), FencingToken::new(1_700_000_000_000_008));
    history.note(
        ms(32),
        2,
        Event::Began { attempt, resources: vec![Resource::new("a<b").unwrap()], shared: vec![] },
    );
    history.note(ms(40), 2, Event::Granted { attempt, token });
    history
}

#[test]
fn the_text_has_events_faults_and_violations_in_the_order_of_time() {
    let mut history = history(1, 20);
    history.note(ms(24), 0, Event::Stalled);
    let violations = history.check(&Promises::ALL).unwrap_err();
    let timeline =
        Timeline::new(&history).with_fault(ms(2), ms(9), "node 2", "paused").with_violations(&violations);
    let expected = "       0.000  c0      attempt 0 on \"a<b\": begun
       2.000  node 2  paused, until 9.000 ms
       3.000  c0      attempt 0 on \"a<b\": granted, token 1700000000000000
      23.000  c0      attempt 0 on \"a<b\": unlocked
      24.000  c0      still waits
      24.000  c0      ! process 0 still waits at 24.000 ms

. asked for  # held  = shared  ~ fault  ! broken promise
\"a<b\" c0   |..........###################################################################   |
node 2     |      ~~~~~~~~~~~~~~~~~~~~~~~~                                                  |
violations |                                                                               !|
           |0                                                                      24.000 ms|
";
    assert_eq!(timeline.to_string(), expected);
}

#[test]
fn an_empty_timeline_has_an_empty_text_and_a_picture() {
    let history = History::new();
    assert_eq!(Timeline::new(&history).to_string(), "");
    assert!(Timeline::new(&history).to_svg().starts_with("<svg"));
}

#[test]
fn a_fault_without_end_reaches_to_the_end_of_the_history() {
    let history = history(1, 20);
    let timeline = Timeline::new(&history).with_fault(ms(10), Duration::MAX, "node 0", "crashed");
    let text = timeline.to_string();
    assert!(text.contains("crashed, from now on") && text.contains("~~~|\n"), "{text}");
    assert!(timeline.to_svg().contains("crashed"));
}

/// Returns the position and the text of each text element of a picture. Panics if the elements are not
/// properly nested.
fn texts_of(picture: &str) -> Vec<(f64, String, String)> {
    let (mut open, mut at, mut texts) = (Vec::new(), None, Vec::new());
    for event in ::svg::read(picture).unwrap() {
        match event {
            Parsed::Error(error) => panic!("{error}"),
            Parsed::Tag(name, Type::Start, attributes) => {
                let place = |name: &str| attributes.get(name).map(ToString::to_string);
                at = place("x").zip(place("y")).filter(|_| name == "text");
                open.push(name);
            }
            Parsed::Tag(name, Type::End, _) => assert_eq!(open.pop(), Some(name)),
            Parsed::Text(text) => {
                if let Some((x, y)) = at.take() {
                    texts.push((x.parse().unwrap(), y, text.to_owned()));
                }
            }
            _ => {}
        }
    }
    assert!(open.is_empty());
    texts
}

#[test]
fn the_picture_is_well_formed_and_has_all_lanes_and_tokens() {
    let history = overlapping();
    let violations = history.check(&Promises::ALL).unwrap_err();
    let picture = Timeline::new(&history)
        .with_fault(ms(5), ms(15), "node <1>", "stepped & stopped")
        .with_violations(&violations)
        .to_svg();
    let texts: Vec<_> = texts_of(&picture).into_iter().map(|(_, _, text)| text).collect();
    for text in ["c0", "c1", "c2", "violations", "node &lt;1&gt;", "stepped &amp; stopped", "a&lt;b"] {
        assert!(texts.iter().any(|actual| actual == text), "{text} is missing in {texts:?}");
    }
    for token in ["1700000000000000", "1700000000000007", "1700000000000008"] {
        let is_end = |actual: &str| actual.starts_with('…') && token.ends_with(&actual[3..]);
        assert!(texts.iter().any(|actual| actual == token || is_end(actual)));
    }
    assert!(texts.iter().any(|text| text.starts_with("1. two leases on \"a&lt;b\" overlap")));
}

#[test]
fn labels_do_not_overlap_and_each_lease_has_a_label() {
    for (leases, held) in [(20, 40), (60, 40), (60, 3)] {
        let history = history(leases, held);
        let mut lines: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
        let texts = texts_of(&Timeline::new(&history).to_svg());
        let is_token = |text: &str| text.starts_with(['…', '1']) && !text.contains("ms");
        let tokens = texts.iter().filter(|(_, _, text)| is_token(text));
        assert!(tokens.count() as u64 >= leases, "labels are missing for {leases} leases of {held} ms");
        for (x, y, text) in texts.into_iter().filter(|(_, _, text)| !text.ends_with('s')) {
            lines.entry(y).or_default().push((x, text.replace("&lt;", "<").chars().count()));
        }
        for line in lines.values_mut() {
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in line.windows(2) {
                assert!(pair[0].0 + pair[0].1 as f64 * CHARACTER <= pair[1].0, "{pair:?}");
            }
        }
    }
}

#[test]
fn the_same_history_gives_the_same_picture() {
    let history = history(20, 10);
    assert_eq!(Timeline::new(&history).to_svg(), Timeline::new(&history).to_svg());
}
