//! What an error of a server or of its connection means for the vote.

use redis::{ErrorKind, RedisError};

use crate::node::fault::Fault;

/// The fault behind an error of the `redis` crate.
///
/// A connection that was refused never carried the call. Any other break may have come after the call was sent.
pub(crate) fn classify(error: &RedisError) -> Fault {
    if let Some(code) = error.code() {
        return classify_code(code, error.detail().unwrap_or_default());
    }
    if error.is_connection_refusal() {
        return Fault::Unreachable(error.to_string().into());
    }
    if error.is_timeout() {
        return Fault::TimedOut;
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Fault::NoAuth(error.to_string().into()),
        ErrorKind::Io => Fault::Disconnected,
        _ if error.is_connection_dropped() => Fault::Disconnected,
        _ => Fault::Protocol(error.to_string().into()),
    }
}

/// The fault behind an error reply: its first word is the code.
pub(crate) fn classify_code(code: &str, detail: &str) -> Fault {
    match code {
        "WRONGTYPE" => Fault::WrongType,
        "NOAUTH" | "WRONGPASS" => Fault::NoAuth(detail.into()),
        "READONLY" => Fault::ReadOnly,
        "OOM" => Fault::OutOfMemory,
        "LOADING" => Fault::Loading,
        "NOPERM" => Fault::NoPermission(detail.into()),
        "MISCONF" => Fault::CannotPersist,
        "BUSY" => Fault::Busy,
        _ if detail.is_empty() => Fault::Server(code.into()),
        _ => Fault::Server(format!("{code} {detail}").into()),
    }
}

/// The fault behind an error that a script caught.
///
/// Servers before 7 put the place in the script before it and leave a `-` before the code; and up to 7.0, a permission
/// that is missing is said in words.
pub(crate) fn classify_caught(text: &str) -> Fault {
    let text = match text.strip_prefix("@user_script: ").and_then(|rest| rest.split_once(": ")) {
        Some((line, rest)) if line.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    };
    let text = text.strip_prefix('-').unwrap_or(text).trim_end();
    let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
    for said in [text, detail] {
        if said.starts_with("The user executing the script can't") {
            return Fault::NoPermission(said.into());
        }
    }
    classify_code(code, detail)
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::ServerErrorKind;

    use super::*;

    #[test]
    fn error_replies_are_told_apart_by_their_code() {
        let told = |code: &str| classify_code(code, "why");
        assert_eq!(told("WRONGTYPE"), Fault::WrongType);
        assert_eq!(told("NOAUTH"), Fault::NoAuth("why".into()));
        assert_eq!(told("WRONGPASS"), Fault::NoAuth("why".into()));
        assert_eq!(told("READONLY"), Fault::ReadOnly);
        assert_eq!(told("OOM"), Fault::OutOfMemory);
        assert_eq!(told("LOADING"), Fault::Loading);
        assert_eq!(told("NOPERM"), Fault::NoPermission("why".into()));
        assert_eq!(told("MISCONF"), Fault::CannotPersist);
        assert_eq!(told("BUSY"), Fault::Busy);
        assert_eq!(told("NOREPLICAS"), Fault::Server("NOREPLICAS why".into()));
        assert_eq!(classify_code("ERR", ""), Fault::Server("ERR".into()));
    }

    #[test]
    fn errors_of_the_crate_are_told_apart_by_code_and_kind() {
        let server = |kind| RedisError::from((ErrorKind::Server(kind), "text", "why".to_owned()));
        assert_eq!(classify(&server(ServerErrorKind::ReadOnly)), Fault::ReadOnly);
        assert_eq!(classify(&server(ServerErrorKind::NoPerm)), Fault::NoPermission("why".into()));
        let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        assert!(matches!(classify(&io(io::ErrorKind::ConnectionRefused)), Fault::Unreachable(_)));
        assert_eq!(classify(&io(io::ErrorKind::BrokenPipe)), Fault::Disconnected);
        assert_eq!(classify(&io(io::ErrorKind::UnexpectedEof)), Fault::Disconnected);
        assert_eq!(classify(&io(io::ErrorKind::TimedOut)), Fault::TimedOut);
        let refused = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(matches!(classify(&refused), Fault::NoAuth(_)));
        assert!(matches!(classify(&RedisError::from((ErrorKind::Parse, "no"))), Fault::Protocol(_)));
    }

    #[test]
    fn caught_errors_are_read_in_the_words_of_old_and_new_servers() {
        assert_eq!(classify_caught("OOM command not allowed"), Fault::OutOfMemory);
        assert_eq!(classify_caught("@user_script: 27: -READONLY You can't write\r\n"), Fault::ReadOnly);
        let old = "@user_script: 9: The user executing the script can't run this command or subcommand";
        assert!(matches!(classify_caught(old), Fault::NoPermission(_)));
        assert!(matches!(classify_caught(""), Fault::Server(_)));
    }
}
