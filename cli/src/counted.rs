//! Numbers with nouns and verbs in the right form.

/// Returns a number with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
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
