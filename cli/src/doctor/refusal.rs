//! The cause of a refused command, recognised by the server's error text, and the remedy. Pure.

/// The cause of a refused command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The user lacks the permission for the command.
    Command,
    /// The user lacks the permission for a key.
    Keys,
    /// The user lacks the permission for a channel.
    Channels,
    /// The server has no command of this name.
    UnknownCommand,
    Loading,
    Busy,
    ReadOnly,
    OutOfMemory,
    CannotPersist,
    NoReplicas,
    ClusterMode,
    NoAuth,
    WrongType,
    Other,
}

impl Cause {
    /// Returns the cause of an error, by its text from a server or from a script that caught the error.
    pub(crate) fn of(text: &str) -> Self {
        let text = without_position(text);
        match text.split_whitespace().next().unwrap_or_default() {
            "LOADING" => return Self::Loading,
            "BUSY" => return Self::Busy,
            "READONLY" => return Self::ReadOnly,
            "OOM" => return Self::OutOfMemory,
            "MISCONF" => return Self::CannotPersist,
            "NOREPLICAS" => return Self::NoReplicas,
            "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" => return Self::ClusterMode,
            "NOAUTH" | "WRONGPASS" => return Self::NoAuth,
            "WRONGTYPE" => return Self::WrongType,
            _ => {}
        }
        if is_about_permission(text) {
            return Self::of_permission(text);
        }
        let text = text.to_lowercase();
        if text.contains("unknown") && text.contains("command") {
            return Self::UnknownCommand;
        }
        Self::Other
    }

    /// Returns the kind of a missing permission. An error about a command is recognised first, because the name of the
    /// command may contain "key" or "channel".
    fn of_permission(text: &str) -> Self {
        if text.contains("can't run") || text.contains("to run the") {
            Self::Command
        } else if text.contains("channel") {
            Self::Channels
        } else if text.contains("key") {
            Self::Keys
        } else {
            Self::Command
        }
    }

    /// Whether the user lacks a permission.
    pub(crate) fn is_permission(self) -> bool {
        matches!(self, Self::Command | Self::Keys | Self::Channels)
    }
}

/// Returns the text without the position in the script, which servers before version 7 prepend to an error that a
/// script caught.
fn without_position(text: &str) -> &str {
    let text = match text.strip_prefix("@user_script: ").and_then(|rest| rest.split_once(": ")) {
        Some((line, rest)) if line.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    };
    text.strip_prefix('-').unwrap_or(text)
}

/// Whether an error is about a missing permission. An error that a script caught may lack the code NOPERM. The
/// second text is from Redis up to 7.0, the third text from later versions and from Valkey.
fn is_about_permission(text: &str) -> bool {
    text.contains("NOPERM")
        || text.contains("The user executing the script can't")
        || text.contains("ACL failure in script: ")
}

/// Returns the remedy for a refused command. `text` is the server's error, and `keys` the pattern of the keys that
/// the command was to use.
pub(crate) fn remedy(text: &str, command: &str, keys: &str) -> String {
    match Cause::of(text) {
        Cause::Command => acl(&[format!("+{command}")]),
        Cause::Keys => acl(&[keys.to_owned()]),
        Cause::Channels => acl(&["&redisson_lock__channel:*".to_owned()]),
        Cause::UnknownCommand => format!(
            "the server has no command `{command}`: give the command its own name again (`rename-command`), or \
             connect to the server without a proxy"
        ),
        Cause::Loading => "wait until the server has loaded its data, and check again".to_owned(),
        Cause::Busy => "wait for the long script, or end it (SCRIPT KILL), and check again".to_owned(),
        Cause::ReadOnly => "name its master instead of this replica".to_owned(),
        Cause::OutOfMemory => "raise maxmemory, or set a shorter counter_ttl".to_owned(),
        Cause::CannotPersist => {
            "let the server write to its disk: its log names the cause, such as a full disk".to_owned()
        }
        Cause::NoReplicas => "start a replica of this master (min-replicas-to-write)".to_owned(),
        Cause::ClusterMode => {
            "wait until the cluster serves all hash slots and moves none, and check again; behind redis://, name a \
             standalone master (cluster-enabled no), or the whole cluster by redis+cluster:// (docs/CLUSTER.md)"
                .to_owned()
        }
        Cause::NoAuth => "correct the user or password in the url".to_owned(),
        Cause::WrongType => "delete the key, or name another resource".to_owned(),
        Cause::Other => "correct the cause of the server's error, and check again".to_owned(),
    }
}

/// Returns the command that grants these permissions to a user.
pub(crate) fn acl(rules: &[String]) -> String {
    format!("ACL SETUSER ... {}", rules.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of Redis 6.2.5, 7.0.15 and 8.2.3 and of Valkey 9.1.2, from commands and from scripts.
    #[test]
    fn the_error_text_reveals_the_cause() {
        for (text, cause) in [
            (
                "NOPERM this user has no permissions to run the 'set' command or its subcommand",
                Cause::Command,
            ),
            ("NOPERM User monkey has no permissions to run the 'set' command", Cause::Command),
            ("@user_script: 9: -NOPERM this user has no permissions", Cause::Command),
            (
                "ERR The user executing the script can't run this command or subcommand script: abc",
                Cause::Command,
            ),
            (
                "ERR ACL failure in script: User u has no permissions to run the 'hkeys' command",
                Cause::Command,
            ),
            ("NOPERM this user has no permissions to access one of the keys used as arguments", Cause::Keys),
            ("NOPERM No permissions to access a key", Cause::Keys),
            (
                "The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments",
                Cause::Keys,
            ),
            ("ERR ACL failure in script: No permissions to access a key", Cause::Keys),
            (
                "NOPERM this user has no permissions to access one of the channels used as arguments",
                Cause::Channels,
            ),
            ("ERR The user executing the script can't publish to the channel mentioned", Cause::Channels),
            ("ERR ACL failure in script: No permissions to access a channel", Cause::Channels),
            ("ERR unknown command 'EVAL'", Cause::UnknownCommand),
            ("@user_script: 9: Unknown Redis command called from Lua script", Cause::UnknownCommand),
            ("ERR Unknown Redis command called from script script: abc", Cause::UnknownCommand),
            ("LOADING Redis is loading the dataset in memory", Cause::Loading),
            ("BUSY Redis is busy running a script", Cause::Busy),
            ("READONLY You can't write against a read only replica.", Cause::ReadOnly),
            ("@user_script: 9: -READONLY You can't write against a read only replica.", Cause::ReadOnly),
            ("OOM command not allowed when used memory > 'maxmemory'.", Cause::OutOfMemory),
            ("MISCONF Redis is configured to save RDB snapshots", Cause::CannotPersist),
            ("NOREPLICAS Not enough good replicas to write.", Cause::NoReplicas),
            ("CLUSTERDOWN Hash slot not served", Cause::ClusterMode),
            ("MOVED 3999 127.0.0.1:6381", Cause::ClusterMode),
            ("NOAUTH Authentication required.", Cause::NoAuth),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Cause::WrongType),
            ("ERR upstream failure", Cause::Other),
        ] {
            assert_eq!(Cause::of(text), cause, "{text}");
        }
    }

    #[test]
    fn the_remedy_follows_the_cause() {
        for (text, words) in [
            ("NOPERM User u has no permissions to run the 'time' command", "ACL SETUSER ... +time"),
            ("NOPERM No permissions to access a key", "ACL SETUSER ... ~redquorum:*"),
            ("NOPERM No permissions to access a channel", "ACL SETUSER ... &redisson_lock__channel:*"),
            ("ERR unknown command 'TIME'", "the server has no command `time`"),
            ("LOADING why", "wait until the server has loaded"),
            ("CLUSTERDOWN why", "standalone master"),
            ("MOVED 3999 10.0.0.1:6379", "docs/CLUSTER.md"),
            ("TRYAGAIN why", "moves none"),
        ] {
            let remedy = remedy(text, "time", "~redquorum:*");
            assert!(remedy.contains(words), "{text}: {remedy}");
            assert_eq!(remedy.contains("ACL"), Cause::of(text).is_permission(), "{text}: {remedy}");
        }
    }
}
