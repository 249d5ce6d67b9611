//! Searches and their results.

use std::fmt::Write;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::{
    bounds::{Bounds, full_or},
    protocol::Protocol,
    rules::Rules,
};

/// Visits every state within the bounds. Fails with the trace if a state violates the property.
///
/// The search is depth first, because then memory holds only one path, and one word for each
/// visited state.
pub(super) fn assert_holds(bounds: Bounds, rules: Rules) {
    let search = Protocol::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::Any)
        .threads(full_or(2, 1))
        .spawn_dfs()
        .join();
    let found = trace(&search);
    let (states, depth) = (search.unique_state_count(), search.max_depth());
    eprintln!("{:?} holds: {states} states, depth {depth}", bounds.property);
    if let Some((steps, text)) = found {
        panic!("{:?} is broken in {steps} steps\n{text}", bounds.property);
    }
}

/// Searches breadth first for a shortest trace that violates the property. Prints the trace, and
/// returns its length. Fails if there is no such trace.
pub(super) fn shortest_break(bounds: Bounds, rules: Rules) -> usize {
    let search = Protocol::new(bounds, rules).checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = trace(&search);
    let states = search.unique_state_count();
    let Some((steps, text)) = found else { panic!("not seen in {states} states: {bounds:?}, {rules:?}") };
    eprintln!("{:?} is broken in {steps} steps: {states} states\n{text}", bounds.property);
    steps
}

/// Searches like [`shortest_break`]. A quick search is depth first instead, and takes the first
/// violation.
pub(super) fn assert_breaks(bounds: Bounds, rules: Rules) {
    if full_or(true, false) {
        shortest_break(bounds, rules);
        return;
    }
    let search = Protocol::new(bounds, rules).checker().finish_when(HasDiscoveries::Any).spawn_dfs().join();
    let (found, states) = (trace(&search), search.unique_state_count());
    let Some((steps, _)) = found else { panic!("not seen in {states} states: {bounds:?}, {rules:?}") };
    eprintln!("{:?} is broken in {steps} steps at most: {states} states", bounds.property);
}

fn trace(search: &impl Checker<Protocol>) -> Option<(usize, String)> {
    let (_, path) = search.discoveries().into_iter().next()?;
    let mut text = String::new();
    let mut names = [1, 2, 3];
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
