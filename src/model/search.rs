//! The functions that run a search, and that assert its result.

use std::fmt::Write;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::{
    bounds::{Bounds, full_or_quick, is_full_search},
    protocol::Protocol,
    rules::Rules,
};

/// Visits every state within the bounds. Panics with the trace if a state violates the property.
/// If no rule is broken, the keys must also agree with the readers in every state.
///
/// The search is depth first, because such a search needs memory only for the states of one path and
/// for the digests of all visited states.
pub(super) fn assert_holds(bounds: Bounds, rules: Rules) {
    let search = Protocol::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::Any)
        .threads(full_or_quick(2, 1))
        .spawn_dfs()
        .join();
    let found = trace(&search);
    let (states, depth) = (search.unique_state_count(), search.max_depth());
    eprintln!("{:?} holds: {states} states, depth {depth}", bounds.property);
    if let Some((steps, text)) = found {
        panic!("{:?} is broken in {steps} steps\n{text}", bounds.property);
    }
}

/// Searches breadth first for a shortest trace that violates the property, and prints the trace.
/// Panics if no state violates the property.
pub(super) fn assert_shortest_break(bounds: Bounds, rules: Rules) {
    let search = Protocol::new(bounds, rules).checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = trace(&search);
    let states = search.unique_state_count();
    let Some((steps, text)) = found else { panic!("not seen in {states} states: {bounds:?}, {rules:?}") };
    eprintln!("{:?} is broken in {steps} steps: {states} states\n{text}", bounds.property);
}

/// Asserts that a state violates the property, in a case for which a quick search breadth first would
/// take too long. A full search is that of [`assert_shortest_break`]. A quick search is depth first,
/// and ends at the first violation.
pub(super) fn assert_breaks(bounds: Bounds, rules: Rules) {
    if is_full_search() {
        assert_shortest_break(bounds, rules);
        return;
    }
    let search = Protocol::new(bounds, rules).checker().finish_when(HasDiscoveries::Any).spawn_dfs().join();
    let (found, states) = (trace(&search), search.unique_state_count());
    let Some((steps, _)) = found else { panic!("not seen in {states} states: {bounds:?}, {rules:?}") };
    eprintln!("{:?} is broken in {steps} steps at most: {states} states", bounds.property);
}

/// Returns the number of steps and the text of a trace that violates the property; `None` if the search
/// found no violation.
fn trace(search: &impl Checker<Protocol>) -> Option<(usize, String)> {
    let (_, path) = search.discoveries().into_iter().next()?;
    let mut text = String::new();
    // The nodes of each state are sorted by digest, so the index of a node may change at each step.
    // `names` has the constant name of the node at each index.
    let mut names = std::array::from_fn(|node| node + 1);
    let mut steps = 0;
    for (world, action) in path.into_vec() {
        let Some(action) = action else {
            writeln!(text, "      {:?}, granted {:?}, {:?}", world.clients, world.granted, world.flaw)
                .unwrap();
            break;
        };
        steps += 1;
        writeln!(text, "{steps:4}  {}", action.named(names)).unwrap();
        names = search.model().after(&world, action).unwrap().order().map(|place| names[place]);
    }
    Some((steps, text))
}
