//! The identity of a lease on the nodes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;

use crate::{
    mutation::{self, Mutation},
    values::{Label, TicketSecret, readable},
};

/// The lease id that stands for all readers, in the key of a resource.
pub(crate) const READERS: &str = "redquorum:shared";

/// The label of the lease ids of tickets.
pub(super) const TICKET_LABEL: &str = "ticket";

/// The identity of a lease on the nodes, new for each lease: `label/uuid:number`.
///
/// `label` is the [label](Self::label) of the client, `uuid` is random and the same for all leases of the client, and
/// `number` grows with each attempt of the client. Each attempt has an id of its own. Otherwise a late rollback of one
/// attempt would delete the vote that a node gave to another attempt. Redisson's `RLock` also has ids of the form
/// `uuid:number`.
///
/// A key of another program may hold any bytes. [`as_bytes`](Self::as_bytes) returns the id as nodes store it, and
/// `Display` shows the id on one line, with escapes for characters that do not print.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(Arc<[u8]>);

impl LeaseId {
    pub(crate) fn from_wire(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the lease id that stands for all readers.
    pub(crate) fn of_readers() -> Self {
        Self::from_wire(READERS.as_bytes())
    }

    /// Whether the id stands for all readers of a resource. If so, two equal ids may mean different readers.
    #[must_use]
    pub fn is_of_readers(&self) -> bool {
        self.as_bytes() == READERS.as_bytes()
    }

    /// Returns the label of the client, as set by [`QuorumBuilder::label`](crate::QuorumBuilder::label).
    /// `None` for an id of readers, or of another program.
    ///
    /// The label identifies a client in logs and reports, but two clients may have the same label. A label is one line
    /// without control characters. If another program wrote a key with other text in place of a label, the result is
    /// `None`.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        let (label, rest) = std::str::from_utf8(&self.0).ok()?.rsplit_once('/')?;
        let (uuid, _) = rest.split_once(':')?;
        (Uuid::try_parse(uuid).is_ok() && Label::is_valid(label)).then_some(label)
    }

    /// Whether the id is the name of a [`Ticket`](crate::Ticket), which no client holds.
    #[must_use]
    pub fn is_of_ticket(&self) -> bool {
        let name = std::str::from_utf8(&self.0).ok().and_then(|id| id.rsplit_once('/'));
        let Some((TICKET_LABEL, name)) = name else { return false };
        // The ids of clients are random uuids, of version 4. The name of a ticket is a hash, of version 5.
        let uuid = name.strip_suffix(":1").and_then(|uuid| Uuid::try_parse(uuid).ok());
        uuid.is_some_and(|uuid| uuid.get_version_num() == 5)
    }

    /// Whether the id has the form of a lease id of this crate or of Redisson: a uuid and a number, with or
    /// without a label. The script decides in the same way (`node.is_lock`).
    pub(crate) fn is_of_a_lock(&self) -> bool {
        let name = self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let Some(colon) = name.iter().rposition(|byte| *byte == b':') else { return false };
        let (uuid, number) = name.split_at(colon);
        let number = number.strip_prefix(b":").unwrap_or_default();
        let groups = uuid.split(|byte| *byte == b'-');
        let is_hex = |group: &[u8]| !group.is_empty() && group.iter().all(u8::is_ascii_hexdigit);
        groups.clone().count() == 5
            && groups.into_iter().all(is_hex)
            && !number.is_empty()
            && number.iter().all(u8::is_ascii_digit)
    }

    /// Returns the part of the id that all lease ids of the client share; `None` for an id without a colon.
    pub(crate) fn client(&self) -> Option<&[u8]> {
        let colon = self.0.iter().rposition(|byte| *byte == b':')?;
        self.0.get(..colon)
    }

    /// Returns the id as nodes store it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&readable(&self.0))
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The source of one client's lease ids: the label and the uuid of the client, and a number that is never used twice.
#[derive(Debug)]
pub(crate) struct LeaseIds {
    client: Uuid,
    /// The beginning of all lease ids of the client.
    name: String,
    next_number: AtomicU64,
    /// The secret from which the secrets of tickets derive.
    ticket_secret: TicketSecret,
}

impl LeaseIds {
    /// Returns the source of a client's lease ids, and of the secrets of its tickets. `client` has at least 122 random bits, which come from the operating
    /// system outside of tests and simulations.
    pub(crate) fn new(client: Uuid, ticket_secret: TicketSecret, label: &Label) -> Self {
        let name = if label.is_empty() { client.to_string() } else { format!("{label}/{client}") };
        Self { client, name, next_number: AtomicU64::new(1), ticket_secret }
    }

    pub(crate) fn client(&self) -> Uuid {
        self.client
    }

    /// Returns the part that all lease ids of the client share.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns a lease id that no other attempt has.
    pub(crate) fn fresh(&self) -> LeaseId {
        let step = mutation::altered(Mutation::ReuseLeaseId, 1, |_| 0);
        let number = self.next_number.fetch_add(step, Ordering::Relaxed);
        LeaseId(format!("{}:{number}", self.name).into_bytes().into())
    }

    /// Returns a secret that no other ticket has, as a hash of the secret of this client and a number.
    pub(crate) fn fresh_ticket(&self) -> TicketSecret {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.ticket_secret.derive(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_has_the_client_id_and_a_growing_number() {
        let ids = LeaseIds::new(Uuid::from_u128(7), TicketSecret::new(Uuid::from_u128(8)), &Label::default());
        assert_eq!(ids.fresh().to_string(), format!("{}:1", Uuid::from_u128(7)));
        assert_eq!(ids.fresh().to_string(), format!("{}:2", Uuid::from_u128(7)));
    }

    #[test]
    fn a_lease_id_with_an_invalid_label_has_no_label() {
        let lease_id =
            |label: &str| LeaseId::from_wire(format!("{label}/{}:1", Uuid::from_u128(7)).as_bytes());
        for label in ["web-1", "web 7 (blue)", "x/y", "it's", "Gr\u{fc}\u{df}e/\u{6f22}\u{5b57}", "u\u{308}"]
        {
            assert_eq!(lease_id(label).label(), Some(label));
        }
        let long = "x".repeat(49);
        for label in
            ["", &*long, "a\nb", "\u{1b}[2J", "\u{9b}2J", "\u{7f}", "a\u{202e}b", "a\u{2066}b", "a\u{2028}b"]
        {
            let foreign = lease_id(label);
            assert_eq!(foreign.label(), None, "{foreign}");
            assert!(
                !foreign.to_string().contains(|char: char| char == '\u{202e}' || char.is_control()),
                "{foreign}"
            );
        }
    }
}
