//! `redquorum force-unlock`: unlocks a resource without its holder.

use std::{borrow::Cow, collections::BTreeMap, ffi::OsString, fmt, os::unix::ffi::OsStrExt, time::Duration};

use clap::Args;
use console::Term;
use redquorum::{
    __command::{unconnected, unpublished_notices},
    Quorum, admin,
    error::{ConfigError, Error, NodeError, NodeReplies, NodeReply},
};
use serde::Serialize;

use crate::{
    app::App,
    consent::{self, Consent},
    counted::counted,
    doctor::refusal::remedy,
    exit::Exit,
    failure::{ANSWERS, Failure, NOT_WAITED_FOR},
    lock_view::LockView,
    node_remedy, number,
    settings::Settings,
    stopwatch, table,
};

/// The time limit for the last requests of an unlock without a quorum.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// End a lock without its holder
///
/// Use this command for a holder that is dead, if its ttl is too long to wait for. A living holder is
/// notified at once, and works until the notice arrives. If the nodes refuse the notice, the command
/// names the missing permission, and the holder works until its next renewal. Until then there may be two holders, and only
/// their fencing tokens distinguish them. A key that is deleted by hand comes back with the next
/// renewal; after this command, the nodes refuse that renewal. The command shows the holder and asks
/// for confirmation. Without a terminal, `--yes` is required. If fewer nodes than a quorum answer, the command unlocks
/// these nodes, names them, and ends with 69.
#[derive(Args, Debug)]
pub(crate) struct ForceUnlock {
    /// The name of the lock
    name: OsString,
    /// Unlock this slot of a semaphore instead: 0 to 1023
    #[arg(long, value_name = "NUMBER", value_parser = number::within(0_u32..=1023), allow_negative_numbers = true)]
    slot: Option<u32>,
    /// Unlock the multi-permit lock of a semaphore instead, by which clients that acquire several permits
    /// take turns
    #[arg(long, conflicts_with = "slot")]
    multi_permit: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// The output of `force-unlock`.
#[derive(Debug, Serialize)]
struct ForceUnlockOutput {
    /// The lock before the unlock.
    before: LockView,
    /// Whether there was a lock to unlock.
    was_unlocked: bool,
    /// The nodes that confirmed the unlock.
    confirmed: Vec<String>,
    /// The nodes that did not confirm the unlock.
    open: Vec<String>,
    /// The reply of each node that did not confirm the unlock.
    reasons: BTreeMap<String, String>,
    /// The nodes that confirmed the unlock and did not notify a living holder, with the error and the remedy.
    unnotified: Vec<UnnotifiedNode>,
}

/// A node that refused to notify the holder.
#[derive(Clone, Debug, Serialize)]
struct UnnotifiedNode {
    node: String,
    error: String,
    remedy: String,
}

impl ForceUnlock {
    /// Shows the holder, asks for confirmation, and unlocks the resource.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] without `--yes` and a terminal, [`Exit::Declined`] if the answer is no or the
    /// holder changed before the answer, or [`Exit::NoQuorum`] if fewer nodes than a quorum confirmed. The nodes that
    /// answer are unlocked even without a quorum.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let consent = Consent::of(self.yes, "unlock")?;
        let settings = app.settings()?;
        // Until the user has answered, the client is read-only, so that no node is changed.
        let shown = app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let before = self.inspect(quorum).await?;
            if before.is_free_everywhere() {
                let output = ForceUnlockOutput {
                    before,
                    was_unlocked: false,
                    confirmed: Vec::new(),
                    open: Vec::new(),
                    reasons: BTreeMap::new(),
                    unnotified: Vec::new(),
                };
                app.output.print(&output)?;
                return Ok(None);
            }
            if consent == Consent::Ask {
                app.messages.flush();
                if !ask(&before).await? {
                    return Err(Failure::new(Exit::Declined, "nothing was unlocked: the answer was no"));
                }
                // The answer applies only to the shown holder. The holder may have changed before the answer.
                let now = self.inspect(quorum).await?;
                if !now.has_no_other_holder_than(&before) {
                    let conclusion = now.conclusion();
                    let message = format!(
                        "nothing was unlocked: the holder changed before the answer, and {conclusion}; run the \
                         command again to unlock this holder"
                    );
                    return Err(Failure::new(Exit::Declined, message));
                }
            }
            Ok(Some(before))
        });
        let before = match shown.await {
            Ok(Some(before)) => before,
            Ok(None) => return Ok(Exit::Success),
            Err(failure) if failure.exit == Exit::NoQuorum => {
                return self.unlock_without_quorum(&settings, consent, failure, app).await;
            }
            Err(failure) => return Err(failure),
        };
        let unlocked = app.with_quorum(&settings, async |quorum| self.unlock(quorum, before, app).await);
        match unlocked.await {
            // The user has agreed already, and the quorum was lost meanwhile.
            Err(failure) if failure.exit == Exit::NoQuorum => {
                self.unlock_without_quorum(&settings, Consent::Given, failure, app).await
            }
            unlocked => unlocked,
        }
    }

    /// Returns the resource to unlock: the lock, the slot, or the multi-permit lock of the semaphore.
    fn resource(&self, quorum: &Quorum) -> Result<Cow<'_, [u8]>, ConfigError> {
        let name = self.name.as_bytes();
        if self.multi_permit {
            return Ok(quorum.semaphore(name, 1).multi_permit_resource()?.as_bytes().to_vec().into());
        }
        let Some(slot) = self.slot else { return Ok(name.into()) };
        let slot = quorum.semaphore(name, slot.saturating_add(1)).slot_resource(slot as usize)?;
        Ok(slot.as_bytes().to_vec().into())
    }

    async fn inspect(&self, quorum: &Quorum) -> Result<LockView, Failure> {
        let found = quorum.inspect(self.resource(quorum)?).await?;
        let name = self.name.as_bytes();
        Ok(match self.slot {
            None if self.multi_permit => LockView::of_multi_permit(name, &found),
            None => LockView::new(name, &found),
            Some(slot) => LockView::of_slot(name, slot as usize, &found),
        })
    }

    async fn unlock(&self, quorum: &Quorum, before: LockView, app: &App) -> Result<Exit, Failure> {
        let replies = admin::force_unlock(quorum, self.resource(quorum)?).await?;
        let (confirmed, reasons) = split(&replies);
        let unnotified: Vec<_> = unpublished_notices(quorum)
            .into_iter()
            .filter(|(node, _)| confirmed.contains(node))
            .map(|(node, error)| UnnotifiedNode::new(node, &error))
            .collect();
        // Without a known holder, no client was notified.
        let notice = before.is_held_anywhere().then(|| notice(&unnotified, confirmed.len()));
        let open = reasons.keys().cloned().collect();
        let output = ForceUnlockOutput { before, was_unlocked: true, confirmed, open, reasons, unnotified };
        app.output.print(&output)?;
        if let Some(notice) = notice {
            app.messages.notice(&notice);
        }
        Ok(Exit::Success)
    }

    /// Unlocks the resource on the nodes that answer, which are no quorum. `failure` is the failure to connect or to
    /// inspect a quorum.
    ///
    /// # Errors
    ///
    /// [`Exit::NoQuorum`] with the reply of each node, unless a quorum answers meanwhile; [`Exit::Declined`] if the answer
    /// to the question is no.
    async fn unlock_without_quorum(
        &self,
        settings: &Settings,
        consent: Consent,
        failure: Failure,
        app: &App,
    ) -> Result<Exit, Failure> {
        if consent == Consent::Ask {
            app.messages.failure(&failure);
            app.messages.flush();
            let question = "Unlock it on the nodes that answer, although they are no quorum?";
            if !consent::ask(question.to_owned(), "--yes").await? {
                return Err(Failure::new(Exit::Declined, "nothing was unlocked: the answer was no"));
            }
        }
        let quorum = unconnected(&settings.builder())?;
        let unlocked = match self.resource(&quorum) {
            Ok(resource) => admin::force_unlock(&quorum, resource).await,
            Err(error) => Err(error.into()),
        };
        // The unlocks of known leases may still be on their way to the nodes that answer.
        drop(stopwatch::within(DELIVERY_TIMEOUT, quorum.shutdown_within(DELIVERY_TIMEOUT)).await);
        match unlocked {
            Ok(replies) => {
                let (confirmed, _) = split(&replies);
                app.messages.notice(&format!("unlocked on {}", confirmed.join(", ")));
                Ok(Exit::Success)
            }
            Err(Error::NoQuorum(error)) => Err(partly_unlocked(error.node_replies(), failure)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the nodes that confirmed the unlock, and the reasons of the other nodes.
fn split(replies: &NodeReplies) -> (Vec<String>, BTreeMap<String, String>) {
    let (confirmed, open): (Vec<_>, Vec<_>) =
        replies.iter().partition(|(_, reply)| **reply == NodeReply::Done);
    let confirmed = confirmed.iter().map(|(node, _)| (*node).to_owned()).collect();
    (confirmed, open.iter().map(|(node, reply)| ((*node).to_owned(), reply.to_string())).collect())
}

/// Returns the failure of an unlock that fewer nodes than a quorum confirmed. The message says which nodes did.
///
/// A node that is still silent has the reason of `before`, the failure to connect or to inspect a quorum. That call
/// waited longer, so it knows more than that there is no connection yet.
fn partly_unlocked(replies: &NodeReplies, before: Failure) -> Failure {
    let (confirmed, reasons) = split(replies);
    let nodes = counted(confirmed.len() + reasons.len(), "node");
    let message = if confirmed.is_empty() {
        format!("no node was unlocked, {} of {nodes} needed: the lock may still be held", replies.needed())
    } else {
        format!(
            "unlocked only on {} of {nodes}, {} needed: the lock may still be held on the other nodes, and ends there by \
             its ttl unless its holder renews it",
            confirmed.len(),
            replies.needed()
        )
    };
    let remedies = node_remedy::for_failures(replies);
    let remedy = if remedies.is_empty() {
        String::new()
    } else {
        format!("; {}, and run the command again", remedies.join(", "))
    };
    let is_silent = |node: &str| {
        replies.iter().any(|(other, reply)| {
            matches!(reply, NodeReply::Failed(error) if other == node && node_remedy::is_silence(error))
        })
    };
    let earlier = |node: &str| {
        let of_node = |line: &&String| line.strip_prefix(node).is_some_and(|rest| rest.starts_with(": "));
        let is_reason = |line: &&String| !line.ends_with(ANSWERS) && !line.ends_with(NOT_WAITED_FOR);
        before.evidence.iter().find(of_node).filter(is_reason).cloned()
    };
    let confirmed = confirmed.into_iter().map(|node| format!("{node}: unlocked"));
    let evidence = confirmed.chain(reasons.into_iter().map(|(node, reason)| {
        earlier(&node).filter(|_| is_silent(&node)).unwrap_or_else(|| format!("{node}: {reason}"))
    }));
    let evidence = evidence.collect();
    let failure = Failure::new(Exit::NoQuorum, format!("{message}{remedy}"));
    Failure { evidence, reported: before.reported, ..failure }
}

impl UnnotifiedNode {
    fn new(node: String, error: &NodeError) -> Self {
        let text = match error {
            NodeError::NoPermission(text) => format!("NOPERM {text}"),
            NodeError::Server(text) | NodeError::CallFailed(text) => text.to_string(),
            error => error.to_string(),
        };
        Self { node, error: error.to_string(), remedy: remedy(&text, "publish", "") }
    }
}

/// Returns the notice about the time at which a living holder detects the unlock. `confirmed` is the number of nodes
/// that confirmed the unlock.
fn notice(unnotified: &[UnnotifiedNode], confirmed: usize) -> String {
    const LATEST: &str = "until its next renewal, at most a third of its ttl from now, or without renewal until the \
                          ttl ends";
    let notified = match unnotified.len() {
        0 => {
            return format!("a living holder was notified; if the notice is lost, the holder works {LATEST}");
        }
        refused if refused >= confirmed => {
            format!(
                "a living holder was not notified, and works {LATEST}, because the nodes refused the notice"
            )
        }
        _ => format!(
            "a living holder was notified by some nodes only; if these notices are lost, the holder works {LATEST}; \
             the other nodes refused the notice"
        ),
    };
    let nodes =
        unnotified.iter().map(|UnnotifiedNode { node, error, remedy }| format!("{node}: {error}: {remedy}"));
    format!("{notified}: {}", nodes.collect::<Vec<_>>().join("; "))
}

async fn ask(before: &LockView) -> Result<bool, Failure> {
    let shown = before.shown(table::width_of(&Term::stderr()));
    consent::ask(format!("{shown}\nUnlock it on all nodes?"), "--yes").await
}

impl fmt::Display for ForceUnlockOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.was_unlocked {
            return write!(f, "{}: nothing to unlock", self.before.conclusion());
        }
        let width = table::width();
        let mut table = table::table(&["node", "unlocked"], width);
        for node in &self.confirmed {
            table.add_row([node.as_str(), "confirmed"]);
        }
        for (node, reason) in &self.reasons {
            table.add_row([node, &format!("not confirmed ({reason}): a key ends by its ttl")]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        let nodes = counted(self.confirmed.len() + self.open.len(), "node");
        let conclusion =
            format!("unlocked on {} of {nodes}; before: {}", self.confirmed.len(), self.before.conclusion());
        f.write_str(&table::wrapped(&conclusion, width))
    }
}
