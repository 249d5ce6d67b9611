//! The queue node order, before the client context moves silent nodes to the end.

/// Returns the nodes in the order in which they take the role of the queue node of a resource: by a hash of resource
/// and address (rendezvous hashing, Thaler and Ravishankar 1998). Therefore all clients agree without messages, and the
/// queue nodes of resources are spread over all nodes.
///
/// Clients that use different addresses for a node may order the nodes differently. Then waiters may lock out of order,
/// but exclusion still holds.
pub(crate) fn rendezvous_order<'a>(
    resource: &[u8],
    addresses: impl IntoIterator<Item = &'a str>,
) -> Vec<usize> {
    let mut ranked: Vec<(u64, usize)> = addresses
        .into_iter()
        .enumerate()
        .map(|(node, address)| (rank(resource, address.as_bytes()), node))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, node)| node).collect()
}

/// Returns the FNV-1a hash of resource, separator and address, finished by the mixer of `SplitMix64`, since FNV alone
/// mixes the last bytes badly. The hash is part of the protocol: after a change, old and new clients would wait in
/// different queues.
fn rank(resource: &[u8], address: &[u8]) -> u64 {
    let bytes = resource.iter().chain([&0xff]).chain(address);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 5] =
        ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"];

    #[test]
    fn clients_agree_on_the_queue_node_for_all_orders_of_their_node_lists() {
        let mut shuffled = NODES;
        shuffled.rotate_left(2);
        for resource in 0..100_u32 {
            let resource = resource.to_be_bytes();
            let names = |nodes: [&'static str; 5]| {
                rendezvous_order(&resource, nodes).into_iter().map(move |node| nodes[node])
            };
            assert!(names(NODES).eq(names(shuffled)));
        }
    }

    #[test]
    fn queue_nodes_of_resources_are_evenly_distributed() {
        let mut first = [0_u32; 5];
        for resource in 0..5000 {
            first[rendezvous_order(format!("invoice:{resource}").as_bytes(), NODES)[0]] += 1;
        }
        assert!(first.iter().all(|count| (850..1150).contains(count)), "{first:?}");
    }

    /// Clients of other versions compute the same hash.
    #[test]
    fn the_hash_of_the_queue_node_order_never_changes() {
        assert_eq!(rank(b"invoice:42", b"10.0.0.1:6379"), 0x32c8_dc67_99a2_8efe);
        assert_eq!(rank(b"", b"[::1]:6379"), 0x4cad_7055_61c9_99ca);
    }
}
