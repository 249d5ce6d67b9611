//! The module `tls` of a build without the feature `tls`, in which every url that requires TLS is an error.

use tokio::net::TcpStream;

use crate::{
    error::ConfigError,
    node::{
        dial::DialLimit,
        redis::{address, handshake_error::ServerRole},
    },
    values::NodeError,
};

/// The TLS settings, which have no content.
#[derive(Debug, Default)]
pub(crate) struct TlsSettings {}

/// The connector of TLS connections, a type without values.
#[derive(Clone, Debug)]
pub(super) enum Connector {}

impl TlsSettings {
    /// Succeeds, because there are no certificates.
    ///
    /// # Errors
    ///
    /// Never.
    pub(crate) fn load(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Refuses a url that requires TLS.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Url`], always.
    #[expect(
        clippy::unused_self,
        clippy::needless_pass_by_ref_mut,
        reason = "the method of the feature `tls` needs the TLS settings, and changes them"
    )]
    pub(super) fn connector(&mut self, url: &str) -> Result<Connector, ConfigError> {
        let reason =
            "it asks for TLS, which this program was built without: switch on redquorum's feature `tls`";
        Err(ConfigError::Url { url: address::without_password(url).into(), reason: reason.into() })
    }
}

impl Connector {
    pub(super) async fn refreshed(&self, _limit: DialLimit<'_>) -> &Self {
        match *self {}
    }

    pub(super) async fn secure(
        &self,
        _host: &str,
        _stream: TcpStream,
        _role: ServerRole,
    ) -> Result<TcpStream, NodeError> {
        match *self {}
    }
}
