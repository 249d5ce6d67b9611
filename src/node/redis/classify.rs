//! The conversion of errors of a server or of a connection to [`NodeError`].

use redis::{ErrorKind, RedisError};

use crate::values::NodeError;

/// Converts an error of the `redis` crate.
///
/// If the connection was refused, the call was never sent. If the connection broke in any other way, the call may have
/// been sent before.
pub(crate) fn classify(error: &RedisError) -> NodeError {
    if let Some(code) = error.code() {
        return classify_code(code, error.detail().unwrap_or_default());
    }
    if error.is_connection_refusal() {
        return NodeError::Unreachable(error.to_string().into());
    }
    if error.is_timeout() {
        return NodeError::TimedOut;
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => NodeError::NoAuth(error.to_string().into()),
        ErrorKind::Io => NodeError::Disconnected,
        _ if error.is_connection_dropped() => NodeError::Disconnected,
        _ => NodeError::Protocol(error.to_string().into()),
    }
}

/// Converts an error that replaces all answers to a call.
pub(super) fn classify_call(error: &RedisError) -> NodeError {
    match classify(error) {
        NodeError::Server(text) => NodeError::CallFailed(text),
        node_error => node_error,
    }
}

/// Returns the text of a server's error without the quoted arguments of the refused command. The first argument of
/// `EVAL` is a whole script.
pub(crate) fn without_arguments(detail: &str) -> &str {
    detail.split(", with args beginning with").next().unwrap_or(detail)
}

/// Converts an error reply, of which `code` is the first word and `detail` the rest.
pub(crate) fn classify_code(code: &str, detail: &str) -> NodeError {
    let detail = without_arguments(detail);
    match code {
        "WRONGTYPE" => NodeError::WrongType,
        "NOAUTH" | "WRONGPASS" => NodeError::NoAuth(detail.into()),
        "READONLY" => NodeError::ReadOnly,
        "OOM" => NodeError::OutOfMemory,
        "LOADING" => NodeError::Loading,
        "NOPERM" => NodeError::NoPermission(detail.into()),
        "MISCONF" => NodeError::CannotPersist,
        "BUSY" => NodeError::Busy,
        "MOVED" => {
            NodeError::NoSlotMaster(format!("the server refers to another server (MOVED {detail})").into())
        }
        "ASK" | "TRYAGAIN" => NodeError::SlotMigrating,
        "CLUSTERDOWN" => NodeError::ClusterDown(detail.into()),
        "ERR" if is_of_migration(detail) => NodeError::SlotMigrating,
        "ERR" if detail.contains("while the cluster is down") => NodeError::ClusterDown(detail.into()),
        "ERR" if missing_permission(detail).is_some() => NodeError::NoPermission(detail.into()),
        _ if detail.is_empty() => NodeError::Server(code.into()),
        _ => NodeError::Server(format!("{code} {detail}").into()),
    }
}

/// Converts an error that a script caught.
///
/// Servers before version 7 prepend the position in the script, and put a `-` before the code or leave the
/// code out.
pub(crate) fn classify_caught(text: &str) -> NodeError {
    let text = match text.strip_prefix("@user_script: ").and_then(|rest| rest.split_once(": ")) {
        Some((line, rest)) if line.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    };
    let text = text.strip_prefix('-').unwrap_or(text).trim_end();
    if let Some(words) = missing_permission(text) {
        return NodeError::NoPermission(words.into());
    }
    let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
    classify_code(code, detail)
}

/// Returns the text of an error about a permission that a script lacks, which has no error code. Redis up to 7.0 has
/// one form of the text, later versions and Valkey have another.
fn missing_permission(text: &str) -> Option<&str> {
    let begins = ["The user executing the script can't", "ACL failure in script: "];
    begins.iter().find_map(|words| text.get(text.find(words)?..))
}

/// Whether a command of a script failed because its key is missing in a slot that moves to another server. Redis 7.0,
/// Redis 8 and Valkey have different texts.
fn is_of_migration(detail: &str) -> bool {
    let texts = [
        "ttempted to access a non local key in a cluster node",
        "undeclared keys were accessed during rehashing of the slot",
        "Script attempted to access a slot not served",
    ];
    texts.iter().any(|text| detail.contains(text))
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::ServerErrorKind;

    use super::*;

    #[test]
    fn error_replies_are_classified_by_their_code() {
        let classified = |code: &str| classify_code(code, "why");
        assert_eq!(classified("WRONGTYPE"), NodeError::WrongType);
        assert_eq!(classified("NOAUTH"), NodeError::NoAuth("why".into()));
        assert_eq!(classified("WRONGPASS"), NodeError::NoAuth("why".into()));
        assert_eq!(classified("READONLY"), NodeError::ReadOnly);
        assert_eq!(classified("OOM"), NodeError::OutOfMemory);
        assert_eq!(classified("LOADING"), NodeError::Loading);
        assert_eq!(classified("NOPERM"), NodeError::NoPermission("why".into()));
        assert_eq!(classified("MISCONF"), NodeError::CannotPersist);
        assert_eq!(classified("BUSY"), NodeError::Busy);
        assert_eq!(classified("NOREPLICAS"), NodeError::Server("NOREPLICAS why".into()));
        assert_eq!(classify_code("ERR", ""), NodeError::Server("ERR".into()));
    }

    /// The texts of Redis 7.0.15 and 8.2.3 and of Valkey 9.1.2.
    #[test]
    fn errors_of_a_cluster_are_classified_in_replies_and_in_scripts() {
        let moved = "5496 127.0.0.1:7001";
        assert!(
            matches!(classify_code("MOVED", moved), NodeError::NoSlotMaster(text) if text.contains(moved))
        );
        assert_eq!(classify_code("ASK", moved), NodeError::SlotMigrating);
        assert_eq!(
            classify_code("TRYAGAIN", "Multiple keys request during rehashing of slot"),
            NodeError::SlotMigrating
        );
        assert!(matches!(classify_code("CLUSTERDOWN", "Hash slot not served"), NodeError::ClusterDown(_)));
        for text in [
            "ERR Script attempted to access a non local key in a cluster node",
            "ERR Attempted to access a non local key in a cluster node",
            "ERR Unable to execute command 'GET' in script because undeclared keys were accessed during rehashing of \
             the slot",
            "ERR Script attempted to access a slot not served",
        ] {
            assert_eq!(classify_caught(text), NodeError::SlotMigrating, "{text}");
        }
        for text in [
            "ERR Script attempted to execute a command while the cluster is down",
            "ERR Script attempted to execute a write command while the cluster is down and readonly",
            "ERR Can not execute a command 'get' while the cluster is down",
        ] {
            assert!(matches!(classify_caught(text), NodeError::ClusterDown(_)), "{text}");
        }
        for error in [
            NodeError::SlotMigrating,
            NodeError::ClusterDown("why".into()),
            NodeError::NoSlotMaster("why".into()),
        ] {
            assert!(!error.may_land_yet() && error.is_refused_call(), "{error}");
        }
    }

    /// The texts of Redis 6.2, 7.0 and 8.
    #[test]
    fn an_unknown_command_is_named_without_its_arguments() {
        for (detail, expected) in [
            (
                "unknown command `EVAL`, with args beginning with: `local function define(braced)`, ",
                "ERR unknown command `EVAL`",
            ),
            (
                "unknown command 'EVAL', with args beginning with: 'local node' '0' ",
                "ERR unknown command 'EVAL'",
            ),
            ("unknown command 'HELLO'", "ERR unknown command 'HELLO'"),
        ] {
            assert_eq!(classify_code("ERR", detail), NodeError::Server(expected.into()));
        }
    }

    /// The script catches errors of its commands, so an error reply to the whole call may come from
    /// a proxy. The proxy may still deliver the call.
    #[test]
    fn a_call_with_an_error_reply_may_still_be_executed() {
        let reply = |text: &str| {
            redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
        };
        assert!(classify_call(&reply("ERR upstream failure")).may_land_yet());
        assert!(!classify_call(&reply("READONLY You can't write")).may_land_yet());
        assert!(!classify_caught("NOREPLICAS Not enough good replicas to write.").may_land_yet());
    }

    #[test]
    fn errors_of_the_redis_crate_are_classified_by_code_and_kind() {
        let server = |kind| RedisError::from((ErrorKind::Server(kind), "text", "why".to_owned()));
        assert_eq!(classify(&server(ServerErrorKind::ReadOnly)), NodeError::ReadOnly);
        assert_eq!(classify(&server(ServerErrorKind::NoPerm)), NodeError::NoPermission("why".into()));
        let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        assert!(matches!(classify(&io(io::ErrorKind::ConnectionRefused)), NodeError::Unreachable(_)));
        assert_eq!(classify(&io(io::ErrorKind::BrokenPipe)), NodeError::Disconnected);
        assert_eq!(classify(&io(io::ErrorKind::UnexpectedEof)), NodeError::Disconnected);
        assert_eq!(classify(&io(io::ErrorKind::TimedOut)), NodeError::TimedOut);
        let refused = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(matches!(classify(&refused), NodeError::NoAuth(_)));
        assert!(matches!(classify(&RedisError::from((ErrorKind::Parse, "no"))), NodeError::Protocol(_)));
    }

    #[test]
    fn errors_caught_by_the_script_are_classified_for_old_and_new_servers() {
        assert_eq!(classify_caught("OOM command not allowed"), NodeError::OutOfMemory);
        assert_eq!(classify_caught("@user_script: 27: -READONLY You can't write\r\n"), NodeError::ReadOnly);
        let old = "@user_script: 9: The user executing the script can't run this command or subcommand";
        assert!(matches!(classify_caught(old), NodeError::NoPermission(_)));
        assert!(matches!(classify_caught(""), NodeError::Server(_)));
    }

    /// The texts of Redis 6.2.5, 7.0.15 and 8.2.3 and of Valkey 9.1.2 for a missing permission to
    /// use a command, a key or a channel. `direct` has replies to a client's own command, `caught`
    /// has errors that a script caught, and `uncaught` has replies to a script that did not catch
    /// the error.
    #[test]
    fn a_missing_permission_is_recognised_in_the_texts_of_all_servers() {
        let direct = [
            "NOPERM this user has no permissions to run the 'set' command or its subcommand",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "NOPERM User u has no permissions to run the 'evalsha' command",
            "NOPERM No permissions to access a channel",
        ];
        let caught = [
            "@user_script: 1: The user executing the script can't run this command or subcommand",
            "=[C]: -1: The user executing the script can't run this command or subcommand",
            "@user_script: 27: The user executing the script can't access at least one of the keys \
             mentioned in the command arguments",
            "ERR The user executing the script can't run this command or subcommand",
            "ERR The user executing the script can't publish to the channel mentioned in the command",
            "ERR ACL failure in script: User u has no permissions to run the 'set' command",
            "ERR ACL failure in script: No permissions to access a key",
            "ERR ACL failure in script: No permissions to access a channel",
        ];
        let uncaught = [
            "ERR Error running script (call to f_88d74c927d723757630ee348feb4f4ac22cff8cf): \
             @user_script:1: @user_script: 1: The user executing the script can't run this command \
             or subcommand",
            "ERR The user executing the script can't run this command or subcommand script: \
             88d74c927d723757630ee348feb4f4ac22cff8cf, on @user_script:1.",
            "ERR ACL failure in script: User u has no permissions to run the 'set' command script: \
             88d74c927d723757630ee348feb4f4ac22cff8cf, on @user_script:1.",
            "ERR ACL failure in script: User u has no permissions to run the 'set' command script: \
             on @user_script:1.",
        ];
        let classified = |text: &str| {
            let (code, detail) = text.split_once(' ').unwrap();
            classify_code(code, detail)
        };
        for text in direct.iter().chain(&uncaught) {
            assert!(matches!(classified(text), NodeError::NoPermission(_)), "{text}: {:?}", classified(text));
        }
        for text in caught {
            assert!(
                matches!(classify_caught(text), NodeError::NoPermission(_)),
                "{text}: {:?}",
                classify_caught(text)
            );
        }
        assert!(matches!(
            classify_caught("ERR This Redis command is not allowed from script"),
            NodeError::Server(_)
        ));
    }
}
