//! The conversion of failed handshakes to errors that state the remedy. An error has the reason that the server sent.
//! If the server sent no reason, the error lists the likely causes.

use redis::{ErrorKind, RedisError};

use super::classify::{classify, classify_code};
use crate::values::NodeError;

/// The largest number of characters that an error quotes from the answer of a server of another protocol.
const MAX_QUOTED: usize = 60;

/// The largest number of characters that an error quotes from a refusal in the clear.
#[cfg(feature = "tls")]
const MAX_REASON: usize = 160;

/// The role of a server in its node. The advice in errors depends on the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerRole {
    /// The only server of a node.
    Node,
    /// The only server of a node, whose url names a Unix socket.
    Socket,
    /// The master that Sentinels name.
    Master,
    /// A Sentinel, which names the master.
    Sentinel,
    /// A server of a cluster.
    ClusterNode,
}

/// The settings of a connection on which the advice in errors depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandshakeSettings {
    pub(super) role: ServerRole,
    pub(super) has_tls: bool,
}

impl ServerRole {
    /// Returns the change of the url for a port with TLS.
    pub(super) fn advice_for_tls(self) -> &'static str {
        match self {
            Self::Node | Self::Socket => "write rediss://",
            Self::Master => "write rediss+sentinel://, with ?sentinel_tls=no if the Sentinels have no TLS",
            Self::ClusterNode => "write rediss+cluster://",
            Self::Sentinel => "add ?sentinel_tls=yes, or write rediss+sentinel:// if the master has TLS too",
        }
    }

    /// Returns the change of the url for a port without TLS.
    pub(super) fn advice_for_plain(self) -> &'static str {
        match self {
            Self::Node | Self::Socket => "write redis:// instead of rediss://",
            Self::Master => "write redis+sentinel://, with ?sentinel_tls=yes if the Sentinels have TLS",
            Self::ClusterNode => "write redis+cluster:// instead of rediss+cluster://",
            Self::Sentinel => {
                "add ?sentinel_tls=no, or write redis+sentinel:// if the master has no TLS either"
            }
        }
    }

    /// Returns the error of a server that answered a TLS handshake with an error reply in the clear; `None` if the first
    /// bytes of the answer are something else.
    #[cfg(feature = "tls")]
    pub(super) fn error_without_tls(self, opening: &[u8]) -> Option<NodeError> {
        let text = String::from_utf8_lossy(opening);
        let reason = text.strip_prefix('-')?.lines().next()?;
        let reason: String = reason.chars().take(MAX_REASON).collect();
        let advice = self.advice_for_plain();
        Some(NodeError::Tls(format!("the port has no TLS: {advice}; the server refuses: {reason}").into()))
    }

    fn advice_for_password(self, has_tls: bool) -> &'static str {
        match (self, has_tls) {
            (Self::Node, false) => "the server wants a password: write redis://:PASSWORD@HOST:PORT",
            (Self::Node, true) => "the server wants a password: write rediss://:PASSWORD@HOST:PORT",
            (Self::Socket, _) => "the server wants a password: write unix:///PATH?pass=PASSWORD",
            (Self::Master, false) => {
                "the master wants a password: write redis+sentinel://:PASSWORD@HOST:PORT/NAME"
            }
            (Self::Master, true) => {
                "the master wants a password: write rediss+sentinel://:PASSWORD@HOST:PORT/NAME"
            }
            (Self::ClusterNode, false) => {
                "the server wants a password: write redis+cluster://:PASSWORD@HOST:PORT"
            }
            (Self::ClusterNode, true) => {
                "the server wants a password: write rediss+cluster://:PASSWORD@HOST:PORT"
            }
            (Self::Sentinel, _) => "the Sentinel wants a password: add ?sentinel_pass=PASSWORD to the url",
        }
    }
}

impl HandshakeSettings {
    /// Converts the error of a handshake. `opening` has the first bytes from the server.
    pub(super) fn node_error(self, error: &RedisError, opening: &[u8]) -> NodeError {
        if error.kind() == ErrorKind::RESP3NotSupported {
            return no_resp3();
        }
        if let Some(code) = error.code() {
            return self.error_reply(code, error.detail().unwrap_or_default());
        }
        let is_closed = error.kind() == ErrorKind::Io || error.is_connection_dropped();
        let is_unparsed = error.kind() == ErrorKind::Parse;
        if !is_closed && !is_unparsed {
            return classify(error);
        }
        // A server that has too many clients sends one error reply and closes the connection. The redis crate then
        // reports the close, because the answers to the other commands of the handshake are missing.
        match self.reason_in(opening) {
            Some(node_error) => node_error,
            None if is_unparsed => no_redis(opening),
            None => self.closed(error),
        }
    }

    /// Returns the error that the first bytes from a server show; `None` if an answer to a handshake can begin with
    /// these bytes.
    fn reason_in(self, opening: &[u8]) -> Option<NodeError> {
        let text = String::from_utf8_lossy(opening);
        let line = text.lines().next().unwrap_or_default();
        match opening {
            [b'-', ..] => {
                let line = line.trim_start_matches('-');
                let (code, detail) = line.split_once(' ').unwrap_or((line, ""));
                Some(self.error_reply(code, detail))
            }
            // The alert of a TLS server: the type of the record, and the first byte of the TLS version.
            [0x15, 0x03, ..] if !self.has_tls => {
                Some(NodeError::Tls(format!("the port has TLS: {}", self.role.advice_for_tls()).into()))
            }
            // No bytes, or the first byte of a value of RESP3.
            []
            | [
                b'%' | b'*' | b'+' | b'$' | b'>' | b'_' | b':' | b'~' | b'|' | b'#' | b',' | b'!' | b'='
                | b'(',
                ..,
            ] => None,
            _ => Some(no_redis(opening)),
        }
    }

    /// Converts an error reply, and adds the remedy if the text of the server lacks it.
    fn error_reply(self, code: &str, detail: &str) -> NodeError {
        match code {
            "NOAUTH" => NodeError::NoAuth(self.role.advice_for_password(self.has_tls).into()),
            "WRONGPASS" | "NOPERM" => classify_code(code, detail),
            "NOPROTO" => no_resp3(),
            _ if detail.to_ascii_lowercase().contains("hello") => no_resp3(),
            "ERR" if detail.contains("max number of clients") => {
                NodeError::Server(format!("{code} {detail} (the setting maxclients of the server)").into())
            }
            _ => classify_code(code, detail),
        }
    }

    /// Returns the error of a connection that the server closed without a reason.
    fn closed(self, error: &RedisError) -> NodeError {
        // With TLS 1.3, the handshake of TLS has succeeded before the server checks the certificate of the client. If
        // the certificate is missing or not trusted, the server sends an alert, and sometimes the connection only
        // breaks.
        if self.has_tls {
            let why = format!(
                "the server ended the handshake ({error}); likely causes: the server requires a client certificate or \
                 trusts another CA, has too many clients (maxclients) or does not admit this address, or a proxy has \
                 no server behind it"
            );
            return NodeError::Tls(why.into());
        }
        let tls = match self.role {
            ServerRole::Socket => String::new(),
            role => format!("the port has TLS ({}), ", role.advice_for_tls()),
        };
        let why = format!(
            "the server closed the connection without a reason; likely causes: {tls}the server has too many clients \
             (maxclients) or does not admit this address, or a proxy has no server behind it"
        );
        NodeError::NotExecuted(why.into())
    }
}

fn no_resp3() -> NodeError {
    NodeError::Protocol("the server does not speak RESP3 (HELLO 3): Redis 6 or later is required".into())
}

/// Returns the error of a server of another protocol, with the first line of its answer.
fn no_redis(opening: &[u8]) -> NodeError {
    if opening.starts_with(b"HTTP/") {
        return NodeError::Protocol("the server speaks HTTP, not the protocol of Redis".into());
    }
    let text = String::from_utf8_lossy(opening);
    let line: String = text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED).collect();
    let quoted = if line.is_empty() { String::new() } else { format!(", its answer begins with {line:?}") };
    NodeError::Protocol(format!("the server does not speak the protocol of Redis{quoted}").into())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const PLAIN: HandshakeSettings = HandshakeSettings { role: ServerRole::Node, has_tls: false };

    /// Returns the error of a connection that the server closed after these bytes.
    fn closed_after(settings: HandshakeSettings, opening: &[u8]) -> NodeError {
        settings.node_error(&io::Error::from(io::ErrorKind::ConnectionReset).into(), opening)
    }

    #[test]
    fn an_error_reply_before_a_close_is_the_reason() {
        let error_after = |opening: &str| closed_after(PLAIN, opening.as_bytes());
        assert_eq!(error_after("-LOADING Redis is loading\r\n"), NodeError::Loading);
        assert_eq!(error_after("-DENIED why\r\n-ERR later"), NodeError::Server("DENIED why".into()));
        assert_eq!(error_after("-upstream"), NodeError::Server("upstream".into()));
        assert!(matches!(error_after("-NOAUTH Authentication required.\r\n"), NodeError::NoAuth(_)));
        assert!(matches!(error_after("-ERR unknown command 'HELLO'\r\n"), NodeError::Protocol(_)));
    }

    #[test]
    fn a_close_in_the_middle_of_answers_has_no_reason() {
        for opening in ["", "%7\r\n$6\r\nserver\r\n", "+OK\r\n"] {
            let error = closed_after(PLAIN, opening.as_bytes());
            assert!(matches!(&error, NodeError::NotExecuted(why) if why.contains("rediss://")), "{error}");
        }
        let socket = HandshakeSettings { role: ServerRole::Socket, has_tls: false };
        assert!(!closed_after(socket, b"").to_string().contains("TLS"));
        let with_tls = HandshakeSettings { role: ServerRole::Node, has_tls: true };
        let silent = closed_after(with_tls, b"");
        assert!(matches!(&silent, NodeError::Tls(why) if why.contains("maxclients")), "{silent}");
        assert!(matches!(closed_after(with_tls, b"-ERR no room\r\n"), NodeError::Server(_)));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_error_reply_in_the_clear_shows_that_the_port_has_no_tls() {
        let error =
            |opening: &[u8]| ServerRole::Node.error_without_tls(opening).map(|error| error.to_string());
        let denied = error(b"-DENIED Redis is running in protected mode.\r\nmore").unwrap();
        assert!(denied.contains("the port has no TLS: write redis:// instead of rediss://"), "{denied}");
        assert!(
            denied.ends_with("the server refuses: DENIED Redis is running in protected mode."),
            "{denied}"
        );
        assert!(error(&[b"-".as_slice(), &[b'x'; 500]].concat()).unwrap().len() < 300);
        for opening in [&b""[..], b"\x15\x03\x03\0\x02\x02\x46", b"+OK\r\n"] {
            assert_eq!(error(opening), None);
        }
    }

    #[test]
    fn another_protocol_is_named_or_quoted() {
        let error = |opening: &[u8]| closed_after(PLAIN, opening).to_string();
        assert!(error(b"HTTP/1.0 400 Bad Request\r\n").ends_with("HTTP, not the protocol of Redis"));
        assert!(error(b"SSH-2.0-OpenSSH\r\nmore").ends_with("its answer begins with \"SSH-2.0-OpenSSH\""));
        assert!(error(b"\x15\x03\x03\0\x02\x02\x46").contains("the port has TLS: write rediss://"));
        assert!(error(&[b'x'; 500]).len() < 200);
    }

    #[test]
    fn the_advice_for_a_password_shows_the_url_of_the_role() {
        let refused =
            |role, has_tls| closed_after(HandshakeSettings { role, has_tls }, b"-NOAUTH no\r\n").to_string();
        assert!(refused(ServerRole::Node, true).contains("rediss://:PASSWORD@HOST:PORT"));
        assert!(refused(ServerRole::Socket, false).contains("?pass=PASSWORD"));
        assert!(refused(ServerRole::Master, false).contains("redis+sentinel://:PASSWORD@HOST:PORT/NAME"));
        assert!(refused(ServerRole::ClusterNode, false).contains("redis+cluster://:PASSWORD@HOST:PORT"));
        assert!(refused(ServerRole::Sentinel, true).contains("?sentinel_pass=PASSWORD"));
    }
}
