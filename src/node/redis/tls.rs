//! Connections with TLS.

use std::{io, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

use crate::{
    error::ConfigError,
    node::redis::{Tls, address, tls_config::describe},
    values::NodeError,
};

/// The TLS settings of the nodes of one client. The roots are read for the first node with TLS, because a client
/// without such a node needs no roots.
#[derive(Debug, Default)]
pub(crate) struct TlsSettings {
    settings: Tls,
    connector: Option<Connector>,
}

/// The connector of TLS connections.
#[derive(Clone)]
pub(super) struct Connector(TlsConnector);

impl TlsSettings {
    pub(crate) fn new(settings: Tls) -> Self {
        Self { settings, connector: None }
    }

    /// Returns the connector for nodes with TLS.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] if the system has no roots and none were given.
    pub(super) fn connector(&mut self, _url: &str) -> Result<Connector, ConfigError> {
        if let Some(connector) = &self.connector {
            return Ok(connector.clone());
        }
        let connector = Connector(Arc::new(self.settings.config()?).into());
        self.connector = Some(connector.clone());
        Ok(connector)
    }
}

impl Connector {
    /// Performs the TLS handshake with this host.
    pub(super) async fn secure(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, NodeError> {
        let name = ServerName::try_from(address::plain_host(host).to_owned());
        let name =
            name.map_err(|_| NodeError::Tls(format!("{host} is no name that a certificate has").into()))?;
        self.0.connect(name, stream).await.map_err(|error| failed(&error))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

fn failed(error: &io::Error) -> NodeError {
    NodeError::Tls(describe(error).into())
}
