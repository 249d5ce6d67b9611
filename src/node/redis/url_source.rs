//! Credentials from the urls of a settings file. Each dial reads the file again, so that changed credentials take
//! effect without a restart of the process.

use std::{fmt, sync::Arc};

use futures::future::FutureExt;

use super::{
    Route,
    login::{Credentials, CredentialsProvider},
    own_threads::OwnThreads,
    route::Destination,
    tls::TlsSettings,
};

/// A function that reads the urls of a settings file. The function blocks its thread, so the providers call it in
/// [`OwnThreads`] alone.
#[derive(Clone)]
pub(crate) struct UrlSource(Arc<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>);

/// The servers for which a provider returns credentials. The url of a node behind Sentinels can have credentials for
/// both.
#[derive(Clone, Copy, Debug)]
enum CredentialsFor {
    Server,
    Sentinels,
}

impl UrlSource {
    pub(crate) fn new(read: impl Fn() -> Result<Vec<String>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Returns two providers of the credentials in the urls: for the servers of the nodes, and for their Sentinels.
    /// Each dial reads the urls again, and uses the url with the address of its node.
    pub(crate) fn providers(&self) -> [CredentialsProvider; 2] {
        let threads = OwnThreads::default();
        [CredentialsFor::Server, CredentialsFor::Sentinels].map(|servers| {
            let (source, threads) = (self.clone(), threads.clone());
            CredentialsProvider::of_urls(move |node| {
                let (source, threads, node) = (source.clone(), threads.clone(), node.to_owned());
                async move {
                    let urls: Result<Arc<[String]>, String> = threads
                        .run((), move || (source.0)().map(Into::into))
                        .await
                        .map_err(|error| format!("cannot read the settings file: {error}"))?;
                    Ok(credentials_in(&urls?, &node, servers)?)
                }
                .boxed()
            })
        })
    }
}

/// Returns the credentials in the url with this address; `None` if the url has no credentials.
fn credentials_in(
    urls: &[String],
    node: &str,
    servers: CredentialsFor,
) -> Result<Option<Credentials>, String> {
    let mut tls_settings = TlsSettings::default();
    let routes = urls.iter().filter_map(|url| Route::from_url(url, &mut tls_settings).ok());
    let mut routes = routes.filter(|route| **route.address() == *node);
    let route =
        routes.next().ok_or_else(|| "the settings file does not name the node any more".to_owned())?;
    let endpoint = match (&route.destination, servers) {
        (Destination::Server(endpoint), _) => endpoint,
        (Destination::MasterSet(set), CredentialsFor::Sentinels) => {
            set.sentinels().first().ok_or_else(|| "no Sentinels".to_owned())?
        }
        // All servers of a set have the same credentials, so the host is of no importance.
        (Destination::MasterSet(set), CredentialsFor::Server) => &set.endpoint("", 0),
        (Destination::HashSlot(slot), _) => &slot.endpoint("", 0),
    };
    Ok(Credentials::of_settings(endpoint.settings()))
}

impl fmt::Debug for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlSource").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(
        urls: &[&str],
        node: &str,
        servers: CredentialsFor,
    ) -> Result<Option<Credentials>, String> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        credentials_in(&urls, node, servers)
    }

    #[test]
    fn the_credentials_are_those_of_the_url_with_the_address_of_the_node() {
        let urls = [
            "redis://app:one@10.0.0.1",
            "redis://:two@Node-2:7000/3",
            "no url",
            "redis://10.0.0.3",
            "redis+sentinel://app:four@b,a/set?sentinel_user=eye&sentinel_pass=five",
            "redis+cluster://app:six@d,c/name",
        ];
        for (node, servers, expected) in [
            ("10.0.0.1:6379", CredentialsFor::Server, Ok(Some(Credentials::new("one").user("app")))),
            ("node-2:7000", CredentialsFor::Server, Ok(Some(Credentials::new("two")))),
            ("10.0.0.3:6379", CredentialsFor::Server, Ok(None)),
            ("a:26379/set", CredentialsFor::Server, Ok(Some(Credentials::new("four").user("app")))),
            ("c:6379/name", CredentialsFor::Server, Ok(Some(Credentials::new("six").user("app")))),
            ("a:26379/set", CredentialsFor::Sentinels, Ok(Some(Credentials::new("five").user("eye")))),
            (
                "10.0.0.4:6379",
                CredentialsFor::Server,
                Err("the settings file does not name the node any more".to_owned()),
            ),
        ] {
            assert_eq!(credentials(&urls, node, servers), expected, "{node}");
        }
    }
}
