//! The findings about clients that wait for each other.

use crate::doctor::finding::Finding;

/// Judges the cycles. If the locks could not be listed, there is no warning, because other checks report the reason, and
/// a list of many keys only takes longer than this check allows.
pub(super) fn judge(cycles: &Result<Vec<String>, String>) -> Vec<Finding> {
    let advice = "end one of the leases (`redquorum force-unlock NAME`), and let the programs lock these names as a \
                  group, or in one order";
    match cycles {
        Ok(cycles) if cycles.is_empty() => vec![Finding::ok("waits", "no clients wait for each other")],
        Ok(cycles) => cycles.iter().map(|cycle| Finding::warn("waits", cycle, advice)).collect(),
        Err(reason) => vec![Finding::ok("waits", format!("not searched: {reason}"))],
    }
}
