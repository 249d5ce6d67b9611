//! The text of events.

use crate::{
    sim::history::{AttemptRecord, Event},
    values::FencingToken,
};

/// Returns the text of an event; `None` for checks of validity and for the start of verifications.
pub(super) fn of(event: &Event, record: Option<&AttemptRecord<'_>>) -> Option<String> {
    Some(match event {
        Event::Checked { .. } | Event::Verifying { .. } => return None,
        Event::Read { register, token, value: Some(value) } => {
            format!("register {register:?}: {value} read {}", under(*token))
        }
        Event::Read { register, token, value: None } => {
            format!("register {register:?}: read {} refused", under(*token))
        }
        Event::Written { register, token, value, is_accepted } => {
            let outcome = if *is_accepted { "" } else { " refused" };
            format!("register {register:?}: write of {value} {}{outcome}", under(*token))
        }
        Event::Stalled => "still waits".to_owned(),
        event => format!("{}: {}", record.map_or_else(|| unknown(event), subject), of_attempt(event)?),
    })
}

/// Returns the attempt and its resources: `attempt 7 on "a", "b" (shared)`.
pub(super) fn subject(record: &AttemptRecord<'_>) -> String {
    let name = |resource| format!("{resource:?}{}", if record.shares(resource) { " (shared)" } else { "" });
    let names: Vec<_> = record.resources.iter().map(name).collect();
    format!("{} on {}", record.attempt, names.join(", "))
}

fn unknown(event: &Event) -> String {
    event.attempt().map_or_else(String::new, |attempt| attempt.to_string())
}

fn of_attempt(event: &Event) -> Option<String> {
    Some(match event {
        Event::Began { .. } => "begun".to_owned(),
        Event::Granted { token, .. } => format!("granted, token {token}"),
        Event::Lost { .. } => "not granted".to_owned(),
        Event::Ended { is_unlocked: true, .. } => "unlocked".to_owned(),
        Event::Ended { is_unlocked: false, .. } => "validity over".to_owned(),
        Event::Announced { .. } => "loss announced".to_owned(),
        Event::Reentered { token, .. } => format!("entered again, token {token}"),
        Event::Downgraded { from, .. } => format!("downgraded from {from}"),
        Event::Redeemed { from, .. } => format!("redeemed from {from}"),
        Event::Proven { .. } => "proven".to_owned(),
        Event::Residue { node, .. } => format!("key left on node {node}"),
        _ => return None,
    })
}

fn under(token: Option<FencingToken>) -> String {
    token.map_or_else(|| "without a token".to_owned(), |token| format!("under token {token}"))
}
