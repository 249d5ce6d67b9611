//! Tickets, by which another process continues with a lock.

use std::{fmt, str::FromStr, sync::Arc};

use uuid::Uuid;

use crate::values::{FencingToken, LeaseId, Resource, lease_id::TICKET_LABEL};

/// The first word of the text of a ticket, with the version of the format.
const FORMAT: &str = "redquorum-ticket-1";

/// A ticket of a lock, which lives at most for the quorum's `max_ttl` (a minute by default) and cannot be renewed.
/// [`LockGuard::into_ticket`](crate::LockGuard::into_ticket) turns a lease into a ticket.
///
/// Until its end, no client holds the resources of the ticket. The first client that
/// [redeems](crate::Quorum::redeem) the ticket holds them, and no other client can have held them since the lease that
/// became the ticket. Any process may redeem or [release](crate::Quorum::release) the ticket, if the process has the
/// text of the ticket and a client of the same quorum.
///
/// The text, by [`Display`](fmt::Display), contains a secret: a program with this text can redeem the ticket, so the
/// text belongs neither in logs nor in the arguments of a command. `Debug` does not show the secret, and the nodes
/// store only a [name](Self::id) that is a hash of the secret. With the feature `serde`, a ticket is stored as its
/// text. The drop of a ticket has no effect.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redquorum::{LockOptions, Ticket};
///
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let guard = quorum.red_lock("order:7").lock().await?;
/// let text = guard.into_ticket(Duration::from_secs(60)).await?.to_string();
///
/// // In another process, which has received the text with a job:
/// let ticket: Ticket = text.parse()?;
/// let guard = quorum.redeem(&ticket, LockOptions::new()).await?.expect("the ticket is not spent");
/// assert!(guard.fencing_token() > ticket.fencing_token());
/// assert!(quorum.redeem(&ticket, LockOptions::new()).await?.is_none(), "a ticket is redeemed once");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct Ticket {
    secret: TicketSecret,
    /// At least one resource, sorted.
    resources: Arc<[Resource]>,
    token: FencingToken,
}

/// The error of a text that is no [`Ticket`]. The error does not show the text, which may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no ticket: {reason}")]
#[non_exhaustive]
pub struct InvalidTicket {
    /// The fault of the text, and what is expected.
    pub reason: Arc<str>,
}

/// The secret of a ticket, or of a client whose tickets derive their secrets from it. A secret of a client has 122
/// random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TicketSecret(Uuid);

impl TicketSecret {
    pub(crate) fn new(secret: Uuid) -> Self {
        Self(secret)
    }

    /// Returns a secret for a ticket: a hash of this secret and a number that is used once.
    pub(super) fn derive(self, number: u64) -> Self {
        Self(Uuid::new_v5(&self.0, &number.to_be_bytes()))
    }

    /// Returns the lease id of the ticket on the nodes: a hash of the secret, in the form of all lease ids.
    pub(crate) fn lease_id(self) -> LeaseId {
        let name = Uuid::new_v5(&self.0, b"redquorum ticket");
        LeaseId::from_wire(format!("{TICKET_LABEL}/{name}:1").as_bytes())
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret")
    }
}

impl Ticket {
    pub(crate) fn new(
        secret: TicketSecret,
        resources: impl IntoIterator<Item = Resource>,
        token: FencingToken,
    ) -> Self {
        Self { secret, resources: resources.into_iter().collect(), token }
    }

    /// Returns the token of the ticket: larger than the token of the lease that became the ticket, and smaller than
    /// the token of the lease that redeems the ticket.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the resources, sorted.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Returns the lease id by which nodes, inspections and logs show the ticket. The id does not reveal the secret.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.secret.lease_id()
    }
}

impl fmt::Display for Ticket {
    /// Writes the text of the ticket, with its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT}.{}.{}", self.secret.0.simple(), self.token)?;
        for resource in &*self.resources {
            f.write_str(".")?;
            resource.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Ticket {
    /// Writes the parts of the ticket without its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("id", &self.id())
            .field("resources", &self.resources)
            .field("fencing_token", &self.token)
            .finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = InvalidTicket;

    /// Parses the text by which [`Display`](fmt::Display) shows a ticket. White space around the text is ignored.
    fn from_str(text: &str) -> Result<Self, InvalidTicket> {
        let invalid = |reason: &str| InvalidTicket { reason: reason.into() };
        let mut parts = text.trim().split('.');
        if parts.next() != Some(FORMAT) {
            return Err(invalid("expected the text of a ticket, which begins with `redquorum-ticket-1.`"));
        }
        let cut = || invalid("the text is damaged or incomplete");
        let secret = parts.next().and_then(|secret| Uuid::try_parse(secret).ok()).ok_or_else(cut)?;
        let token = parts.next().and_then(|token| token.parse().ok()).ok_or_else(cut)?;
        let resources = parts.map(|part| resource(part).ok_or_else(cut)).collect::<Result<Arc<[_]>, _>>()?;
        if resources.is_empty() || !resources.is_sorted_by(|one, next| one < next) {
            return Err(cut());
        }
        Ok(Self { secret: TicketSecret::new(secret), resources, token })
    }
}

impl TryFrom<String> for Ticket {
    type Error = InvalidTicket;

    fn try_from(text: String) -> Result<Self, InvalidTicket> {
        text.parse()
    }
}

impl From<Ticket> for String {
    fn from(ticket: Ticket) -> Self {
        ticket.to_string()
    }
}

/// Parses the hexadecimal form of a resource.
fn resource(text: &str) -> Option<Resource> {
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    Resource::new(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(names: &[&[u8]]) -> Ticket {
        let secret = TicketSecret::new(Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef));
        Ticket::new(secret, names.iter().map(|name| Resource::new(name).unwrap()), FencingToken::new(42))
    }

    #[test]
    fn a_text_of_a_ticket_parses_to_the_same_ticket() {
        for names in [&[&b"order:7"[..]][..], &[b"\0.\n", b"b"]] {
            let ticket = ticket(names);
            let text = ticket.to_string();
            assert_eq!(format!(" {text}\n").parse(), Ok(ticket), "{text}");
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        }
        let text = ticket(&[b"order:7"]).to_string();
        assert_eq!(text, "redquorum-ticket-1.0123456789ab4def8123456789abcdef.42.6f726465723a37");
    }

    #[test]
    fn debug_and_the_name_on_nodes_do_not_show_the_secret() {
        let ticket = ticket(&[b"order:7"]);
        let shown = format!("{ticket:?} {}", ticket.id());
        assert!(!shown.contains("0123456789ab") && !shown.contains("01234567-89ab"), "{shown}");
        assert!(shown.contains("order:7") && shown.contains("42"), "{shown}");
        assert!(ticket.id().is_of_ticket() && ticket.id().is_of_a_lock());
        assert_eq!(ticket.id().label(), Some("ticket"));
        let client = format!("ticket/{}:1", Uuid::new_v4());
        assert!(!LeaseId::from_wire(client.as_bytes()).is_of_ticket(), "a client with the label `ticket`");
    }

    #[test]
    fn damaged_texts_are_refused_without_showing_them() {
        let text = ticket(&[b"a", b"b"]).to_string();
        let damaged = [
            "",
            "order:7",
            &text.replace("ticket-1", "ticket-2"),
            &text.replace(".42.", ".0."),
            &text.replace(".61", ".6"),
            &text.replace(".61", ".zz"),
            &text.replace(".61.62", ".62.61"),
            &text.replace(".61.62", ""),
            &text.replace("0123456789ab", "0123"),
        ];
        for damaged in damaged {
            let refused = damaged.parse::<Ticket>().unwrap_err().to_string();
            assert!(!refused.contains("0123"), "{refused}");
        }
    }
}
