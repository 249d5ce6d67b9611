//! The findings about clients that wait for each other.

use crate::doctor::{facts::NotSearched, finding::Finding};

/// Judges the cycles. If the locks could not be listed, there is no warning, because other checks report the reason, or
/// a list of many keys only takes longer than this check allows. In the second case, no other check has a line.
pub(super) fn judge(cycles: &Result<Vec<String>, NotSearched>) -> Vec<Finding> {
    let advice = "look at the programs first (tasks of one process count as one client); if they are stuck, end one \
                  lease (`redquorum force-unlock NAME`, for a permit with `--slot`), lock these names in one order \
                  or as a group, and unlock a reader before its client waits to write";
    match cycles {
        Ok(cycles) if cycles.is_empty() => vec![Finding::ok("waits", "no clients wait for each other")],
        Ok(cycles) => cycles.iter().map(|cycle| Finding::warn("waits", cycle, advice)).collect(),
        Err(NotSearched::Failed(reason)) => vec![Finding::ok("waits", format!("not searched: {reason}"))],
        Err(NotSearched::TookTooLong(reason)) => {
            vec![Finding::info(
                "waits",
                format!("not searched: {reason}"),
                "`redquorum list` also shows such clients",
            )]
        }
    }
}
