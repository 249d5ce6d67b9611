//! Numbers with nouns and verbs in the right form.

/// Returns a number with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns at most `most` names of `all` things, separated by commas, and the number of the other things:
/// `a, b and 3 more`. Fewer names than things may be known.
pub(crate) fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>, most: usize, all: usize) -> String {
    let names: Vec<S> = names.into_iter().take(most).collect();
    let shown: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let more = match all.saturating_sub(shown.len()) {
        0 => return shown.join(", "),
        more => format!("{more} more"),
    };
    if shown.is_empty() { more } else { format!("{} and {more}", shown.join(", ")) }
}

/// Returns a part of the nodes with a verb in the right form: `1 of 3 nodes votes`, `0 of 1 node votes`,
/// `2 of 3 nodes vote`.
pub(crate) fn some_of(some: usize, nodes: usize, verb: &str) -> String {
    let ending = if some == 1 || nodes == 1 { "s" } else { "" };
    format!("{some} of {} {verb}{ending}", counted(nodes, "node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_largest_number_are_counted() {
        let shown = |most, all| listed(["a", "b", "c"], most, all);
        assert_eq!(
            [(1, 3), (2, 3), (3, 3)].map(|(most, all)| shown(most, all)),
            ["a and 2 more", "a, b and 1 more", "a, b, c"]
        );
        assert_eq!(
            (shown(9, 5), listed([""; 0], 3, 0), listed([""; 0], 3, 2)),
            ("a, b, c and 2 more".into(), String::new(), "2 more".into())
        );
    }

    #[test]
    fn the_verb_agrees_with_the_number_of_nodes() {
        for (voting, nodes, expected) in [
            (0, 1, "0 of 1 node votes"),
            (1, 1, "1 of 1 node votes"),
            (0, 3, "0 of 3 nodes vote"),
            (1, 3, "1 of 3 nodes votes"),
            (2, 3, "2 of 3 nodes vote"),
        ] {
            assert_eq!(some_of(voting, nodes, "vote"), expected);
        }
    }
}
