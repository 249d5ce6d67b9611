//! The names of keys and channels on a node.

use crate::resource::Resource;

/// The channel on which the release of a resource is told, as Redisson names it.
pub(crate) fn notice_channel(resource: &Resource) -> Vec<u8> {
    named(b"redisson_lock__channel:", resource)
}

fn named(prefix: &[u8], resource: &Resource) -> Vec<u8> {
    let resource = resource.as_bytes();
    if resource.contains(&b'{') {
        [prefix, resource].concat()
    } else {
        [prefix, b"{", resource, b"}"].concat()
    }
}
