//! The urls of a settings file, and the credentials in them.

use std::{fmt, sync::Arc};

use futures::future::FutureExt;

use super::{
    Route,
    login::{Credentials, CredentialsProvider},
    own_threads::OwnThreads,
    route::Destination,
    tls::TlsSettings,
};

/// The urls of a settings file, which can be read again. The function blocks its thread.
#[derive(Clone)]
pub(crate) struct UrlSource(Arc<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>);

/// The server of a node whose credentials a url has.
#[derive(Clone, Copy, Debug)]
enum LoginAt {
    Server,
    Sentinels,
}

impl UrlSource {
    pub(crate) fn new(read: impl Fn() -> Result<Vec<String>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Returns providers of the credentials in the urls: for the server of a node, and for its Sentinels. Each dial reads
    /// the urls again, and finds the url of its node by the address.
    pub(crate) fn providers(&self) -> [CredentialsProvider; 2] {
        let threads = OwnThreads::default();
        [LoginAt::Server, LoginAt::Sentinels].map(|at| {
            let (source, threads) = (self.clone(), threads.clone());
            CredentialsProvider::of_urls(move |node| {
                let (source, threads, node) = (source.clone(), threads.clone(), node.to_owned());
                async move {
                    let urls: Result<Arc<[String]>, String> =
                        threads.run((), move || (source.0)().map(Into::into)).await?;
                    Ok(credentials_in(&urls?, &node, at)?)
                }
                .boxed()
            })
        })
    }
}

/// Returns the credentials that the url of the node with this address has; `None` if the url has none.
fn credentials_in(urls: &[String], node: &str, at: LoginAt) -> Result<Option<Credentials>, String> {
    let mut tls_settings = TlsSettings::default();
    let routes = urls.iter().filter_map(|url| Route::from_url(url, &mut tls_settings).ok());
    let mut routes = routes.filter(|route| **route.address() == *node);
    let route =
        routes.next().ok_or_else(|| "the settings file does not name the node any more".to_owned())?;
    let endpoint = match (&route.destination, at) {
        (Destination::Server(endpoint), _) => endpoint,
        (Destination::MasterSet(set), LoginAt::Sentinels) => {
            set.sentinels().first().ok_or_else(|| "no Sentinels".to_owned())?
        }
        (Destination::MasterSet(set), LoginAt::Server) => &set.endpoint("", 0),
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

    fn login(urls: &[&str], node: &str, at: LoginAt) -> Result<Option<Credentials>, String> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        credentials_in(&urls, node, at)
    }

    #[test]
    fn the_credentials_of_a_node_are_those_of_the_url_with_its_address() {
        let urls = [
            "redis://app:one@10.0.0.1",
            "redis://:two@Node-2:7000/3",
            "no url",
            "redis://10.0.0.3",
            "redis+sentinel://app:four@b,a/set?sentinel_user=eye&sentinel_pass=five",
        ];
        for (node, at, expected) in [
            ("10.0.0.1:6379", LoginAt::Server, Ok(Some(Credentials::new("one").user("app")))),
            ("node-2:7000", LoginAt::Server, Ok(Some(Credentials::new("two")))),
            ("10.0.0.3:6379", LoginAt::Server, Ok(None)),
            ("a:26379/set", LoginAt::Server, Ok(Some(Credentials::new("four").user("app")))),
            ("a:26379/set", LoginAt::Sentinels, Ok(Some(Credentials::new("five").user("eye")))),
            (
                "10.0.0.4:6379",
                LoginAt::Server,
                Err("the settings file does not name the node any more".to_owned()),
            ),
        ] {
            assert_eq!(login(&urls, node, at), expected, "{node}");
        }
    }
}
