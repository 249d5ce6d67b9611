//! `redquorum force-unlock`: ends a lock, no matter who holds it.

use std::{borrow::Cow, ffi::OsString, fmt, os::unix::ffi::OsStrExt};

use clap::{Args, value_parser};
use console::Term;
use redquorum::{
    Quorum, admin,
    error::{ConfigError, NodeReply},
};
use serde::Serialize;

use crate::{
    app::App,
    consent::{self, Consent},
    counted::counted,
    exit::Exit,
    failure::Failure,
    lock_view::LockView,
    table,
};

/// End a lock, no matter who holds it
///
/// For a holder that is known to be gone, whose ttl is too long to wait for. A holder that is alive
/// is told at once, and works on until it hears that: until then there may be two, and only their
/// fencing tokens tell them apart. A key that is deleted by hand comes back with the next renewal; this
/// keeps it from that. Shows who holds it, and asks; where there is no terminal to ask
/// on, it wants `--yes`.
#[derive(Args, Debug)]
pub(crate) struct ForceUnlock {
    /// What is locked
    name: OsString,
    /// End what has this slot of a semaphore instead: 0 to 1023
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(0..=1023))]
    slot: Option<u32>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// The output of `force-unlock`.
#[derive(Debug, Serialize)]
struct ForceUnlockOutput {
    /// Who held it before.
    before: LockView,
    /// Whether there was anything to unlock.
    was_unlocked: bool,
    /// Nodes that have confirmed.
    confirmed: Vec<String>,
    /// Nodes that have not.
    open: Vec<String>,
}

impl ForceUnlock {
    /// Shows who holds it, asks, and unlocks it.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] if there is nobody to ask, [`Exit::Declined`] if the answer is no, or of
    /// somebody else by now; why no quorum of nodes has confirmed.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let consent = Consent::of(self.yes, "unlock")?;
        let settings = app.settings()?;
        // What only looks makes no node a member of a quorum.
        let shown = app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            let before = self.inspect(quorum).await?;
            if before.is_free_everywhere() {
                let done = ForceUnlockOutput {
                    before,
                    was_unlocked: false,
                    confirmed: Vec::new(),
                    open: Vec::new(),
                };
                app.output.print(&done)?;
                return Ok(None);
            }
            if consent == Consent::Ask {
                app.messages.flush();
                if !ask(&before).await? {
                    return Err(Failure::new(Exit::Declined, "nothing was unlocked"));
                }
                // The answer is about whom was shown, and may have taken a while.
                let now = self.inspect(quorum).await?;
                if !now.has_no_other_holder_than(&before) {
                    let conclusion = now.conclusion();
                    let message = format!(
                        "nothing was unlocked, as the holder has changed since it was shown: now {conclusion}"
                    );
                    return Err(Failure::new(Exit::Declined, message));
                }
            }
            Ok(Some(before))
        });
        let Some(before) = shown.await? else { return Ok(Exit::Success) };
        app.with_quorum(&settings, async |quorum| self.unlock(quorum, before, app).await).await
    }

    /// The resource of the lock, or of the slot, as it stands on the nodes.
    fn resource(&self, quorum: &Quorum) -> Result<Cow<'_, [u8]>, ConfigError> {
        let name = self.name.as_bytes();
        let Some(slot) = self.slot else { return Ok(name.into()) };
        let slot = quorum.semaphore(name, slot.saturating_add(1)).slot_resource(slot as usize)?;
        Ok(slot.as_bytes().to_vec().into())
    }

    async fn inspect(&self, quorum: &Quorum) -> Result<LockView, Failure> {
        let found = quorum.inspect(self.resource(quorum)?).await?;
        let name = self.name.as_bytes();
        Ok(match self.slot {
            None => LockView::new(name, &found),
            Some(slot) => LockView::of_slot(name, slot as usize, &found),
        })
    }

    async fn unlock(&self, quorum: &Quorum, before: LockView, app: &App) -> Result<Exit, Failure> {
        let replies = admin::force_unlock(quorum, self.resource(quorum)?).await?;
        let (confirmed, open): (Vec<_>, Vec<_>) =
            replies.iter().partition(|(_, reply)| **reply == NodeReply::Done);
        let names =
            |nodes: Vec<(&str, &NodeReply)>| nodes.iter().map(|(node, _)| (*node).to_owned()).collect();
        let (confirmed, open) = (names(confirmed), names(open));
        app.output.print(&ForceUnlockOutput { before, was_unlocked: true, confirmed, open })?;
        app.messages.notice(
            "a holder that is still running has been told; one that did not hear it works on until its next \
             renewal, at most a third of its ttl from now, or without renewal until the ttl is over",
        );
        Ok(Exit::Success)
    }
}

async fn ask(before: &LockView) -> Result<bool, Failure> {
    let shown = before.shown(table::width_of(&Term::stderr()));
    consent::ask(format!("{shown}\nUnlock it on all nodes?")).await
}

impl fmt::Display for ForceUnlockOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.was_unlocked {
            return write!(f, "{}: there was nothing to unlock", self.before.conclusion());
        }
        let width = table::width();
        let mut table = table::table(&["node", "unlocked"], width);
        for node in &self.confirmed {
            table.add_row([node, "confirmed"]);
        }
        for node in &self.open {
            table.add_row([node, "not confirmed: what it keeps ends with its ttl"]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        let nodes = counted(self.confirmed.len() + self.open.len(), "node");
        let conclusion = format!(
            "unlocked on {} of {nodes}; what was seen before: {}",
            self.confirmed.len(),
            self.before.conclusion()
        );
        f.write_str(&table::wrapped(&conclusion, width))
    }
}
