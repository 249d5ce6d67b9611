//! The TLS of connections: certificates, which dials read again so that new certificates take effect without a restart,
//! and handshakes.

use std::{
    fmt, io,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::{Either, select};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, pki_types::ServerName},
};

use crate::{
    error::ConfigError,
    mutex::lock,
    node::{
        dial::DialLimit,
        redis::{
            Tls, address,
            handshake_error::ServerRole,
            opening_stream::OpeningStream,
            own_threads::OwnThreads,
            tls_config::{Contents, describe},
        },
    },
    values::NodeError,
};

/// The TLS settings of one client, and the connector that its nodes with TLS share. Without a node with TLS, there is
/// no connector, and the CAs of the system are not read.
#[derive(Debug, Default)]
pub(crate) struct TlsSettings {
    settings: Tls,
    connector: Option<Connector>,
}

/// The connector of TLS connections. Every dial reads the certificate files again.
#[derive(Clone)]
pub(super) struct Connector(Arc<ConnectorState>);

struct ConnectorState {
    settings: Tls,
    threads: OwnThreads<(), Result<Arc<LoadedConfig>, Arc<str>>>,
    loaded: Mutex<Option<Arc<LoadedConfig>>>,
    /// The last failure that was logged, so that repeated dials do not repeat the log.
    logged: Mutex<Option<Arc<str>>>,
    /// Whether a handshake has failed since the CAs of the system were read. Only then does a dial read these CAs
    /// again, because they change rarely and take long to read.
    has_failed: AtomicBool,
}

/// A TLS configuration, and the contents from which the configuration was made.
struct LoadedConfig {
    contents: Contents,
    config: Arc<ClientConfig>,
}

/// A connector with the certificates for one dial.
pub(super) struct RefreshedConnector<'a> {
    state: &'a ConnectorState,
    /// `None` if the certificates have never been read.
    config: Option<Arc<ClientConfig>>,
}

impl TlsSettings {
    pub(crate) fn new(settings: Tls) -> Self {
        Self { settings, connector: None }
    }

    /// Returns the connector for nodes with TLS. Certificates are not read here, but by [`load`](Self::load).
    pub(super) fn connector(&mut self, _url: &str) -> Result<Connector, ConfigError> {
        let connector = self.connector.get_or_insert_with(|| Connector::new(self.settings.clone()));
        Ok(connector.clone())
    }

    /// Reads and checks all certificates for the first time. The CAs of the system are read only if a node has TLS.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] if a certificate or key cannot be used, or if the CAs of the system are needed and there are
    /// none.
    pub(crate) fn load(&self) -> Result<(), ConfigError> {
        match &self.connector {
            Some(Connector(state)) => state.load().map(drop),
            None => self.settings.check(),
        }
    }
}

impl Connector {
    fn new(settings: Tls) -> Self {
        Self(Arc::new(ConnectorState {
            settings,
            threads: OwnThreads::default(),
            loaded: Mutex::default(),
            logged: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }))
    }

    /// Returns the connector with the present certificates. If the certificates cannot be read and used within half of
    /// the dial's time, the last certificates are used, because a file may be half written at this moment.
    pub(super) async fn refreshed(&self, limit: DialLimit<'_>) -> RefreshedConnector<'_> {
        let state = &*self.0;
        let last = lock(&state.loaded).as_ref().map(|loaded| Arc::clone(&loaded.config));
        let is_due = state.settings.has_files()
            || (state.settings.trusts_system() && state.has_failed.swap(false, Ordering::Relaxed));
        if last.is_some() && !is_due {
            return RefreshedConnector { state, config: last };
        }
        let loader = Arc::clone(&self.0);
        let loading = state.threads.run((), move || loader.load().map_err(|error| error.to_string().into()));
        let half = limit.half();
        let loaded = match select(pin!(loading), limit.sleep(half)).await {
            Either::Left((Ok(loaded), _)) => loaded,
            Either::Left((Err(error), _)) => Err(format!("cannot read the certificates: {error}").into()),
            Either::Right(((), _)) => Err(format!("the certificates were not read within {half:?}").into()),
        };
        let config = match loaded {
            Ok(loaded) => {
                *lock(&state.logged) = None;
                Some(Arc::clone(&loaded.config))
            }
            Err(why) => {
                if lock(&state.logged).replace(Arc::clone(&why)).is_none_or(|before| before != why) {
                    tracing::warn!(%why, "no new certificates: using the last certificates");
                }
                last
            }
        };
        RefreshedConnector { state, config }
    }
}

impl ConnectorState {
    /// Reads all certificates. If the files have not changed, and the CAs of the system are not used, returns the last
    /// configuration with its TLS sessions.
    fn load(&self) -> Result<Arc<LoadedConfig>, ConfigError> {
        let contents = self.settings.read()?;
        let last = lock(&self.loaded).clone();
        if let Some(last) = last.filter(|last| last.contents == contents && !self.settings.trusts_system()) {
            return Ok(last);
        }
        let config = Arc::new(self.settings.config(&contents)?);
        let loaded = Arc::new(LoadedConfig { contents, config });
        *lock(&self.loaded) = Some(Arc::clone(&loaded));
        Ok(loaded)
    }
}

impl RefreshedConnector<'_> {
    /// Performs the TLS handshake with this host. The advice in an error depends on the role of the server.
    pub(super) async fn secure(
        &self,
        host: &str,
        stream: TcpStream,
        role: ServerRole,
    ) -> Result<TlsStream<OpeningStream<TcpStream>>, NodeError> {
        let name = ServerName::try_from(address::plain_host(host).to_owned());
        let name = name.map_err(|_| {
            NodeError::Tls(format!("{host} is not a name that a certificate can have").into())
        })?;
        let Some(config) = &self.config else {
            return Err(NodeError::Tls("the certificates could not be read".into()));
        };
        let (stream, opening) = OpeningStream::new(stream);
        let secured = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        secured.map_err(|error| {
            self.state.has_failed.store(true, Ordering::Relaxed);
            role.error_without_tls(&opening.bytes()).unwrap_or_else(|| handshake_failed(&error))
        })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

fn handshake_failed(error: &io::Error) -> NodeError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    // A server that has too many clients closes the connection before the handshake, so it can send no reason. The
    // error is no evidence of wrong certificates, about which a server sends an alert.
    if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
        let why = format!(
            "the server closed the connection in the TLS handshake ({}); likely causes: the server has too many \
             clients (maxclients) or does not admit this address, or a proxy has no server behind it",
            describe(error)
        );
        return NodeError::NotExecuted(why.into());
    }
    NodeError::Tls(describe(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_in_the_handshake_names_the_limit_of_clients() {
        let closed = handshake_failed(&io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(&closed, NodeError::NotExecuted(why) if why.contains("maxclients")), "{closed}");
        let untrusted = handshake_failed(&io::Error::new(io::ErrorKind::InvalidData, "UnknownIssuer"));
        assert!(matches!(untrusted, NodeError::Tls(_)), "{untrusted}");
    }
}
