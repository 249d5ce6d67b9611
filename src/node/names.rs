//! The names of keys and channels on a node, for clients and for the scripts.
//!
//! The key of a lock has the name of the resource. The names of channels, counters and tombstones follow
//! Redisson's rule: braces enclose the resource, unless the resource contains a `{`. All other derived names always
//! have braces. On a node in a Redis Cluster, a [hash tag](HashTag) precedes the resource, so that all keys of the node
//! are in one hash slot.

use crate::values::{Digest, LeaseId, READERS as READERS_LEASE_ID, Resource};

/// The key of the node metadata.
pub(crate) const METADATA: &str = "redquorum:node";
/// The key that exists while a node must not vote.
pub(crate) const QUARANTINE: &str = "redquorum:quarantine";
/// The key of a dirty node, which exists while any tombstone, wait queue or mark may exist.
pub(crate) const DIRTY: &str = "redquorum:dirty";

/// The name of the sentry on a node in a Redis Cluster.
const SENTRY: &str = "redquorum:sentry";

// Names in the place of a resource, for inspections that only check whether a node answers. No key has these names.
pub(crate) const CONNECT: &str = "redquorum:connect";
pub(crate) const HEALTH: &str = "redquorum:health";
pub(crate) const INIT: &str = "redquorum:init";

/// The suffix of the name of a reader in a wait queue.
const READER_SUFFIX: &str = ":shared";

// Prefixes of names by Redisson's rule: the resource follows in braces, unless the resource contains a brace.
const CHANNEL: &str = "redisson_lock__channel:";
const COUNTER: &str = "redisson_lock_token:";
const TOMBSTONE: &str = "redquorum:tombstone:";

// Prefixes of names that always have braces, so that the names of `a` and `{a}` differ. The two resources have separate
// leaders, queues and marks. In particular, a waiter for `a` must not block clients of `{a}`.
const SLOT: &str = "redquorum:slot:{";
const MULTI_PERMIT: &str = "redquorum:multi_permit:{";
const RELEASE_WATCHER: &str = "redquorum:release_watcher:{";
const READERS: &str = "redquorum:readers:{";
const LEADER: &str = "redquorum:leader:{";
const LATCH: &str = "redquorum:latch:{";
const PERMITS: &str = "redquorum:permits:{";
const QUEUE: &str = "redquorum:queue:{";
const ENTRY_TTL: &str = "redquorum:entry_ttl:{";
const LAST_WOKEN: &str = "redquorum:last_woken:{";
const YIELD_MARK: &str = "redquorum:yield_mark:{";
const WRITER_MARK: &str = "redquorum:writer_mark:{";
const WAKE: &str = "redquorum:wake:{";
const HEAD: &str = "redquorum:head:{";
const FORCE_UNLOCKED: &str = "redquorum:force_unlocked:{";

/// Returns the keys that a node may have for a resource, semaphore, latch or election of this name: one key of each
/// kind, and the keys of the whole node.
#[cfg(feature = "__command")]
pub(crate) fn keys_of(resource: &Resource, tag: Option<&HashTag>) -> Vec<Vec<u8>> {
    let prefixes = [
        MULTI_PERMIT,
        RELEASE_WATCHER,
        READERS,
        LEADER,
        LATCH,
        PERMITS,
        QUEUE,
        ENTRY_TTL,
        LAST_WOKEN,
        YIELD_MARK,
        WRITER_MARK,
    ];
    let whole_node = [METADATA, QUARANTINE, DIRTY, CONNECT, HEALTH, INIT].map(|key| key.as_bytes().to_vec());
    let always_in_braces = prefixes.map(|prefix| in_braces(prefix, resource));
    let with_tag =
        whole_node.into_iter().chain(always_in_braces).chain([slot(resource, 0).as_bytes().to_vec()]);
    let (resource, prefix) = match tag {
        Some(tag) => (&Resource::internal(tag.add_to(resource)), tag.as_str()),
        None => (resource, ""),
    };
    let of_resource = [redisson_name(COUNTER, resource), redisson_name(TOMBSTONE, resource)];
    with_tag.map(|key| [prefix.as_bytes(), &key].concat()).chain(of_resource).collect()
}

/// Returns one channel of each kind of notices for this resource. The waiter and the client in the names are fictitious.
#[cfg(feature = "__command")]
pub(crate) fn channels_of(resource: &Resource, tag: Option<&HashTag>) -> Vec<Vec<u8>> {
    let waiter = LeaseId::from_wire(b"none:1");
    let topics = [
        resource.clone(),
        wake(resource, &waiter),
        head(resource, &waiter),
        leader(resource),
        latch(resource),
        force_unlocked(resource.as_bytes()),
    ];
    let channel =
        |topic: &Resource| tag.map_or_else(|| notice_channel(topic), |tag| tag.notice_channel(topic));
    topics.iter().map(channel).collect()
}

/// Returns the script with the names in the place of their variables, such as `$QUEUE`. If the node has a hash tag,
/// the script gets resources with this tag.
pub(crate) fn substitute_names(script: &str, tag: Option<&HashTag>) -> String {
    // A resource with a hash tag contains a brace, so Redisson's rule adds no braces.
    let (open, close) = if tag.is_some() { ("", "") } else { ("{", "}") };
    let of_resource = [
        ("$CHANNEL", CHANNEL),
        ("$COUNTER", COUNTER),
        ("$TOMBSTONE", TOMBSTONE),
        ("$SHARED", READERS_LEASE_ID),
        ("$READER_SUFFIX", READER_SUFFIX),
        ("$OPEN_BRACE", open),
        ("$CLOSE_BRACE", close),
    ];
    let with_tag = [
        ("$METADATA", METADATA),
        ("$QUARANTINE", QUARANTINE),
        ("$DIRTY", DIRTY),
        ("$READERS", READERS),
        ("$LEADER", LEADER),
        ("$LATCH", LATCH),
        ("$PERMITS", PERMITS),
        ("$QUEUE", QUEUE),
        ("$ENTRY_TTL", ENTRY_TTL),
        ("$LAST_WOKEN", LAST_WOKEN),
        ("$YIELD_MARK", YIELD_MARK),
        ("$WRITER_MARK", WRITER_MARK),
        ("$WAKE", WAKE),
        ("$HEAD", HEAD),
        ("$FORCE_UNLOCKED", FORCE_UNLOCKED),
    ];
    let prefix = tag.map_or("", HashTag::as_str);
    let names = of_resource.map(|name| ("", name)).into_iter().chain(with_tag.map(|name| (prefix, name)));
    names.fold(script.to_owned(), |text, (prefix, (name, value))| {
        text.replace(name, &format!("'{prefix}{value}'"))
    })
}

/// The hash tag of a node in a Redis Cluster: a text in braces, such as `{redquorum}`. A cluster computes the hash slot
/// of a name from the first text in braces, so all names of the node are in the slot of the tag.
///
/// Only the connection of the node and its script know the tag. A connection adds the tag to each resource that the
/// connection sends, and removes the tag from each resource that the connection receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashTag(String);

impl HashTag {
    /// Returns the tag with this name, which has no braces.
    pub(crate) fn new(name: &str) -> Self {
        Self(format!("{{{name}}}"))
    }

    /// Returns the tag with its braces.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text between the braces.
    pub(crate) fn name(&self) -> &str {
        self.0.trim_matches(['{', '}'])
    }

    /// Returns the name of a resource on the node.
    pub(crate) fn add_to(&self, resource: &Resource) -> Vec<u8> {
        [self.0.as_bytes(), resource.as_bytes()].concat()
    }

    /// Returns the resource with this name on the node; `None` if the name has another tag, or no tag.
    pub(crate) fn remove_from(&self, name: &[u8]) -> Option<Resource> {
        let tag = self.0.as_bytes();
        let name = name.strip_prefix(tag)?;
        // The script derives the key of a latch from a resource that has the tag already.
        let of_latch = name.strip_prefix(LATCH.as_bytes()).and_then(|rest| rest.strip_prefix(tag));
        Some(match of_latch {
            Some(rest) => Resource::internal([LATCH.as_bytes(), rest].concat()),
            None => Resource::internal(name),
        })
    }

    /// Returns the key of the node metadata.
    pub(crate) fn metadata(&self) -> String {
        format!("{}{METADATA}", self.0)
    }

    /// Returns the sharded channel of the sentry: the subscription that ends when the server loses the slot. Nothing is
    /// published on this channel.
    pub(crate) fn sentry(&self) -> String {
        format!("{}{SENTRY}", self.0)
    }

    /// Returns the channel of the notices of a resource or of another topic.
    pub(crate) fn notice_channel(&self, topic: &Resource) -> Vec<u8> {
        // The script derives these topics from a resource that has the tag already.
        let of_resource = [WAKE, HEAD, LEADER, LATCH].iter();
        let derived = of_resource
            .filter_map(|prefix| Some((prefix, topic.as_bytes().strip_prefix(prefix.as_bytes())?)))
            .next();
        let topic = match derived {
            Some((prefix, rest)) => [prefix.as_bytes(), self.0.as_bytes(), rest].concat(),
            None => topic.as_bytes().to_vec(),
        };
        notice_channel(&Resource::internal(self.add_to(&Resource::internal(topic))))
    }
}

/// Returns the resource of a slot of a semaphore.
pub(crate) fn slot(semaphore: &Resource, index: usize) -> Resource {
    let name = [SLOT.as_bytes(), semaphore.as_bytes(), format!("}}:{index}").as_bytes()].concat();
    Resource::internal(name)
}

/// Whether the resource is a slot of a semaphore.
pub(crate) fn is_slot(resource: &Resource) -> bool {
    resource.as_bytes().starts_with(SLOT.as_bytes())
}

/// Returns the slot `index` of the same semaphore; the same resource if the resource is no slot.
#[cfg(test)]
pub(crate) fn sibling(slot: &Resource, index: usize) -> Resource {
    match slot
        .as_bytes()
        .strip_prefix(SLOT.as_bytes())
        .and_then(|name| name.iter().rposition(|byte| *byte == b'}'))
    {
        Some(end) => Resource::internal(
            [&slot.as_bytes()[..SLOT.len() + end], format!("}}:{index}").as_bytes()].concat(),
        ),
        None => slot.clone(),
    }
}

/// Returns the multi-permit lock of a semaphore.
pub(crate) fn multi_permit(semaphore: &Resource) -> Resource {
    Resource::internal(in_braces(MULTI_PERMIT, semaphore))
}

/// Returns the lock of the release watcher of the first `permits` slots of a semaphore.
pub(crate) fn release_watcher_of_slots(semaphore: &Resource, permits: usize) -> Resource {
    release_watcher(semaphore, &permits.to_string())
}

/// Returns the lock of the release watcher of a sorted set of resources, of which `first` is the first.
///
/// The name of the lock contains the first resource and the number of resources, for users that list the locks. A hash
/// of all names and their lengths makes the name different for each set.
pub(crate) fn release_watcher_of_set(resources: &[Resource], first: &Resource) -> Resource {
    let names = resources.iter().map(Resource::as_bytes);
    let digest =
        Digest::of(names.flat_map(|name| name.len().to_be_bytes().into_iter().chain(name.iter().copied())));
    release_watcher(first, &format!("{}:{digest}", resources.len()))
}

fn release_watcher(name: &Resource, candidates: &str) -> Resource {
    Resource::internal([&in_braces(RELEASE_WATCHER, name), &b":"[..], candidates.as_bytes()].concat())
}

/// Returns the semaphore and index of a slot; `None` if the key is no slot.
pub(crate) fn read_slot(key: &Resource) -> Option<(Resource, u32)> {
    let (semaphore, index) = read_with_suffix(SLOT, key)?;
    Some((semaphore, index.parse().ok()?))
}

/// Returns the semaphore of a multi-permit lock; `None` for any other key.
pub(crate) fn read_multi_permit(key: &Resource) -> Option<Resource> {
    read_in_braces(MULTI_PERMIT, key)
}

/// Returns the semaphore or the first resource of the lock of a release watcher, and the number of candidates; `None`
/// for any other key.
pub(crate) fn read_release_watcher(key: &Resource) -> Option<(Resource, usize)> {
    let (name, candidates) = read_with_suffix(RELEASE_WATCHER, key)?;
    let count = match candidates.split_once(':') {
        Some((count, digest)) if digest.len() == 16 && u64::from_str_radix(digest, 16).is_ok() => count,
        Some(_) => return None,
        None => candidates,
    };
    Some((name, count.parse().ok()?))
}

/// Returns the key of the number of permits that the last client has counted.
#[cfg(test)]
pub(crate) fn permits(semaphore: &Resource) -> Vec<u8> {
    in_braces(PERMITS, semaphore)
}

/// Returns the name of the latch with this key; `None` for any other key.
pub(crate) fn read_latch(key: &Resource) -> Option<Resource> {
    read_in_braces(LATCH, key)
}

/// Whether a reserved name belongs to a lock: of a slot, of several permits, or of a release watcher.
pub(crate) fn is_lock(name: &[u8]) -> bool {
    let key = Resource::internal(name);
    read_slot(&key).is_some() || read_multi_permit(&key).is_some() || read_release_watcher(&key).is_some()
}

/// Returns the resource in braces, and the text after the last `}:`.
fn read_with_suffix<'a>(prefix: &str, key: &'a Resource) -> Option<(Resource, &'a str)> {
    let rest = key.as_bytes().strip_prefix(prefix.as_bytes())?;
    let (name, suffix) = rest.split_at(rest.windows(2).rposition(|pair| pair == b"}:")?);
    Some((Resource::new(name).ok()?, str::from_utf8(suffix.get(2..)?).ok()?))
}

/// Returns the resource in braces, if the key consists of the prefix and this resource.
fn read_in_braces(prefix: &str, key: &Resource) -> Option<Resource> {
    let name = key.as_bytes().strip_prefix(prefix.as_bytes())?.strip_suffix(b"}")?;
    Resource::new(name).ok()
}

/// Returns the name that a reader has in a wait queue.
pub(crate) fn reader(waiter: &LeaseId) -> LeaseId {
    LeaseId::from_wire(&[waiter.as_bytes(), READER_SUFFIX.as_bytes()].concat())
}

/// Whether a waiter is a reader, by its name.
pub(crate) fn is_reader(waiter: &LeaseId) -> bool {
    waiter.as_bytes().ends_with(READER_SUFFIX.as_bytes())
}

/// Returns the name of a waiter without the suffix of readers.
#[cfg(feature = "__command")]
pub(crate) fn without_reader_suffix(waiter: &LeaseId) -> LeaseId {
    LeaseId::from_wire(waiter.as_bytes().strip_suffix(READER_SUFFIX.as_bytes()).unwrap_or(waiter.as_bytes()))
}

/// Returns the channel of the release notices of a resource, as Redisson names it.
pub(crate) fn notice_channel(resource: &Resource) -> Vec<u8> {
    redisson_name(CHANNEL, resource)
}

/// Returns the key of a fencing counter, as Redisson names it.
#[cfg(test)]
pub(crate) fn counter(resource: &Resource) -> Vec<u8> {
    redisson_name(COUNTER, resource)
}

/// Returns the key of the tombstone that refuses late requests of a lease id.
#[cfg(test)]
pub(crate) fn tombstone(resource: &Resource, lease_id: &LeaseId) -> Vec<u8> {
    let mut name = redisson_name(TOMBSTONE, resource);
    name.push(b':');
    name.extend_from_slice(lease_id.as_bytes());
    name
}

/// Returns the key of a leader's proclamation, which is also the topic of its changes.
pub(crate) fn leader(resource: &Resource) -> Resource {
    Resource::internal(in_braces(LEADER, resource))
}

/// Returns the key of a latch, which is also the topic on which its opening is published.
pub(crate) fn latch(latch: &Resource) -> Resource {
    Resource::internal(in_braces(LATCH, latch))
}

/// Returns the topic on which a queue node wakes one waiter.
pub(crate) fn wake(resource: &Resource, waiter: &LeaseId) -> Resource {
    waiter_topic(WAKE, resource, waiter)
}

/// Returns the topic of the head notices of one waiter: the waiter is now one of the first two in the queue, and
/// subscribes to release notices, too.
pub(crate) fn head(resource: &Resource, waiter: &LeaseId) -> Resource {
    waiter_topic(HEAD, resource, waiter)
}

/// Returns the topic of the notices that a lease of this client was force-unlocked.
pub(crate) fn force_unlocked(client: &[u8]) -> Resource {
    Resource::internal([FORCE_UNLOCKED.as_bytes(), client, b"}"].concat())
}

/// Returns the key of the readers of a resource, each with its end.
#[cfg(test)]
pub(crate) fn readers(resource: &Resource) -> Vec<u8> {
    in_braces(READERS, resource)
}

/// Whether a topic is that of the wakes or of the head notices of one waiter.
#[cfg(test)]
pub(crate) fn is_of_waiter(topic: &Resource) -> bool {
    [WAKE, HEAD].iter().any(|prefix| topic.as_bytes().starts_with(prefix.as_bytes()))
}

/// Returns the key of the wait queue of a resource, sorted by arrival.
#[cfg(test)]
pub(crate) fn queue(resource: &Resource) -> Vec<u8> {
    in_braces(QUEUE, resource)
}

/// Returns the key of the waiter that was woken last, with the time of its first wake.
#[cfg(test)]
pub(crate) fn last_woken(resource: &Resource) -> Vec<u8> {
    in_braces(LAST_WOKEN, resource)
}

/// Returns the key that exists while newcomers yield to the waiters for a resource.
#[cfg(test)]
pub(crate) fn yield_mark(resource: &Resource) -> Vec<u8> {
    in_braces(YIELD_MARK, resource)
}

/// Returns the key that exists while queued readers yield to a woken writer.
#[cfg(test)]
pub(crate) fn writer_mark(resource: &Resource) -> Vec<u8> {
    in_braces(WRITER_MARK, resource)
}

/// Returns the key of the ends of all entries of a wait queue.
#[cfg(test)]
pub(crate) fn entry_ttls(resource: &Resource) -> Vec<u8> {
    in_braces(ENTRY_TTL, resource)
}

/// Returns the resource that represents all resources whose names by Redisson's rule are equal: `a` for `a` and
/// `{a}`.
///
/// Resources with the same alias share a counter. The tokens of each of them then skip some numbers, and stay in order.
pub(crate) fn shared_key_alias(resource: &Resource) -> Resource {
    let bytes = resource.as_bytes();
    let inner = bytes.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inner
        .filter(|inner| !inner.contains(&b'{'))
        .and_then(|inner| Resource::new(inner).ok())
        .unwrap_or_else(|| resource.clone())
}

/// Returns a name by Redisson's rule.
fn redisson_name(prefix: &str, resource: &Resource) -> Vec<u8> {
    let (prefix, resource) = (prefix.as_bytes(), resource.as_bytes());
    if resource.contains(&b'{') {
        [prefix, resource].concat()
    } else {
        [prefix, b"{", resource, b"}"].concat()
    }
}

/// Returns a name that always has braces.
fn in_braces(prefix: &str, resource: &Resource) -> Vec<u8> {
    [prefix.as_bytes(), resource.as_bytes(), b"}"].concat()
}

fn waiter_topic(prefix: &str, resource: &Resource, waiter: &LeaseId) -> Resource {
    Resource::internal([&in_braces(prefix, resource), &b":"[..], waiter.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str) -> Resource {
        Resource::new(name).unwrap()
    }

    #[test]
    fn redisson_names_have_braces_unless_the_resource_contains_a_brace() {
        assert_eq!(notice_channel(&resource("a")), b"redisson_lock__channel:{a}");
        assert_eq!(counter(&resource("a}")), b"redisson_lock_token:{a}}");
        assert_eq!(counter(&resource("x{a}")), b"redisson_lock_token:x{a}");
        assert_eq!(tombstone(&resource("a"), &LeaseId::from_wire(b"me:1")), b"redquorum:tombstone:{a}:me:1");
    }

    /// The first text in braces, from which a cluster computes the hash slot.
    fn first_in_braces(name: &[u8]) -> &[u8] {
        let open = name.iter().position(|byte| *byte == b'{').unwrap();
        let close = name.iter().skip(open).position(|byte| *byte == b'}').unwrap();
        &name[open..=open + close]
    }

    #[test]
    fn all_names_of_a_node_in_a_cluster_have_the_hash_tag_first() {
        let tag = HashTag::new("tag");
        let waiter = LeaseId::from_wire(b"me:1");
        for name in ["a", "x{a}", "{a}", "}{", "{}"].map(resource) {
            let locks = [
                name.clone(),
                slot(&name, 1),
                multi_permit(&name),
                release_watcher_of_slots(&name, 3),
                release_watcher_of_set(&[name.clone(), resource("b")], &name),
            ];
            for lock in locks {
                let on_node = tag.add_to(&lock);
                assert_eq!(tag.remove_from(&on_node), Some(lock.clone()));
                assert_eq!(HashTag::new("other").remove_from(&on_node), None);
                let key_of_latch = tag.add_to(&latch(&Resource::internal(&*on_node)));
                assert_eq!(tag.remove_from(&key_of_latch), Some(latch(&lock)));
                let topics = [
                    lock.clone(),
                    wake(&lock, &waiter),
                    head(&lock, &waiter),
                    leader(&lock),
                    latch(&lock),
                    force_unlocked(b"me"),
                ];
                let channels = topics.map(|topic| tag.notice_channel(&topic));
                let distinct: std::collections::BTreeSet<&Vec<u8>> = channels.iter().collect();
                assert_eq!(distinct.len(), channels.len());
                for name in channels.iter().chain([&on_node]) {
                    assert_eq!(first_in_braces(name), b"{tag}", "{}", name.escape_ascii());
                }
            }
        }
        for name in [tag.metadata(), tag.sentry()] {
            assert_eq!(first_in_braces(name.as_bytes()), b"{tag}");
        }
    }

    /// The script derives these names from the resource with its tag.
    #[test]
    fn channels_on_a_node_in_a_cluster_are_the_channels_of_its_script() {
        let tag = HashTag::new("tag");
        let waiter = LeaseId::from_wire(b"me:1");
        for (topic, channel) in [
            (resource("x"), "redisson_lock__channel:{tag}x"),
            (resource("{x}"), "redisson_lock__channel:{tag}{x}"),
            (wake(&resource("x"), &waiter), "redisson_lock__channel:{tag}redquorum:wake:{{tag}x}:me:1"),
            (head(&resource("x"), &waiter), "redisson_lock__channel:{tag}redquorum:head:{{tag}x}:me:1"),
            (leader(&resource("x")), "redisson_lock__channel:{tag}redquorum:leader:{{tag}x}"),
            (latch(&resource("x")), "redisson_lock__channel:{tag}redquorum:latch:{{tag}x}"),
            (force_unlocked(b"me"), "redisson_lock__channel:{tag}redquorum:force_unlocked:{me}"),
        ] {
            assert_eq!(String::from_utf8(tag.notice_channel(&topic)).unwrap(), channel);
        }
        let script =
            "$WAKE .. resource | $METADATA | $COUNTER .. resource | $CHANNEL .. $OPEN_BRACE .. resource";
        assert_eq!(
            substitute_names(script, Some(&tag)),
            "'{tag}redquorum:wake:{' .. resource | '{tag}redquorum:node' | 'redisson_lock_token:' .. resource | \
             'redisson_lock__channel:' .. '' .. resource"
        );
        assert_eq!(
            substitute_names(script, None),
            "'redquorum:wake:{' .. resource | 'redquorum:node' | 'redisson_lock_token:' .. resource | \
             'redisson_lock__channel:' .. '{' .. resource"
        );
    }

    #[test]
    fn names_of_keys_and_channels_are_reserved() {
        let waiter = LeaseId::from_wire(b"me:1");
        for name in ["a", "x{a}", "{a}"].map(resource) {
            let topics = [leader(&name), wake(&name, &waiter), head(&name, &waiter)]
                .map(|topic| topic.as_bytes().to_vec());
            let channels =
                topics.each_ref().map(|topic| notice_channel(&Resource::internal(topic.as_slice())));
            let keys = [
                counter(&name),
                tombstone(&name, &waiter),
                queue(&name),
                entry_ttls(&name),
                last_woken(&name),
                yield_mark(&name),
                readers(&name),
            ];
            let node_keys = [METADATA, QUARANTINE, DIRTY].map(|name| name.as_bytes().to_vec());
            for derived in
                topics.into_iter().chain(channels).chain(keys).chain(node_keys).chain([notice_channel(&name)])
            {
                let shown = derived.escape_ascii().to_string();
                let refused = crate::values::InvalidResource::Reserved { given: shown.clone().into() };
                assert_eq!(Resource::new(derived), Err(refused), "{shown}");
            }
        }
    }

    #[test]
    fn resources_of_a_semaphore_contain_its_name() {
        for name in ["gpu", "x}:7", "{a}"].map(resource) {
            assert_eq!(read_slot(&slot(&name, 12)), Some((name.clone(), 12)));
            assert_eq!(
                (read_multi_permit(&multi_permit(&name)), read_slot(&multi_permit(&name))),
                (Some(name.clone()), None)
            );
            let set = [name.clone(), resource("z")];
            let (watcher, watcher_of_set) =
                (release_watcher_of_slots(&name, 12), release_watcher_of_set(&set, &name));
            assert_eq!(read_release_watcher(&watcher), Some((name.clone(), 12)));
            assert_eq!(read_release_watcher(&watcher_of_set), Some((name.clone(), 2)));
            assert_eq!((read_multi_permit(&watcher), read_slot(&watcher)), (None, None));
            assert_eq!(
                (read_slot(&name), read_multi_permit(&name), read_multi_permit(&slot(&name, 1))),
                (None, None, None)
            );
        }
    }

    #[test]
    fn each_number_of_permits_and_each_set_of_names_has_its_own_release_watcher() {
        let of = |names: &[&str]| {
            let names: Vec<Resource> = names.iter().copied().map(resource).collect();
            release_watcher_of_set(&names, &names[0])
        };
        let long: Vec<String> = (0..64).map(|name| format!("{name:0>16}")).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let a = resource("a");
        let watchers = [
            release_watcher_of_slots(&a, 4),
            release_watcher_of_slots(&a, 12),
            of(&["a", "b", "c", "d"]),
            of(&["a", "b,c", "d"]),
            of(&["a", "b", "c,d"]),
            of(&["a,b", "c", "d"]),
            of(&["a", "bc", "d"]),
            of(&["a", "b", "cd"]),
            of(&long[..60]),
            of(&long),
        ];
        let distinct: std::collections::BTreeSet<&Resource> = watchers.iter().collect();
        assert_eq!(distinct.len(), watchers.len());
    }

    #[test]
    fn each_resource_has_its_own_leader_key() {
        assert_eq!(leader(&resource("a")).as_bytes(), b"redquorum:leader:{a}");
        assert_eq!(leader(&resource("{a}")).as_bytes(), b"redquorum:leader:{{a}}");
        let topic = leader(&Resource::new([b'a'; 512]).unwrap());
        assert_eq!(shared_key_alias(&topic), topic);
        assert_eq!(notice_channel(&leader(&resource("a"))), b"redisson_lock__channel:redquorum:leader:{a}");
    }

    #[test]
    fn each_waiter_has_its_own_topic_and_each_resource_its_own_queue() {
        let waiter = LeaseId::from_wire(b"me:1");
        let topic = wake(&resource("a"), &waiter);
        assert_eq!(topic.as_bytes(), b"redquorum:wake:{a}:me:1");
        assert_eq!(shared_key_alias(&topic), topic);
        assert_eq!(notice_channel(&topic), b"redisson_lock__channel:redquorum:wake:{a}:me:1");
        assert_ne!(wake(&resource("{a}"), &waiter), topic);
        assert_ne!(queue(&resource("{a}")), queue(&resource("a")));
    }

    #[test]
    fn shared_key_aliases_are_equal_exactly_if_redisson_names_are_equal() {
        let names = ["a", "{a}", "{a", "a}", "{{a}}", "{}", "{a}b", "{a}}", "a}}", "{", "}"];
        for one in names.map(resource) {
            for other in names.map(resource) {
                assert_eq!(
                    counter(&one) == counter(&other),
                    shared_key_alias(&one) == shared_key_alias(&other),
                    "{one} and {other}"
                );
            }
        }
    }
}
