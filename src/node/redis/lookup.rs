//! Lookups of host names for the dials of one node. The system's resolver blocks its thread for up to tens of seconds,
//! so it must never run on a thread of the runtime.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use redis::{RedisFuture, io::AsyncDNSResolver};

use super::{address, own_threads::OwnThreads};

/// The lookups of the host names of one node. Concurrent callers with the same name share one lookup. The end of a
/// runtime does not wait for a lookup.
#[derive(Clone)]
pub(super) struct Lookups {
    threads: OwnThreads<String, LookupResult>,
    resolver: Arc<Resolver>,
}

/// A function that looks up a name and blocks its thread meanwhile.
type Resolver = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The addresses of a name, with any port; or the kind and the text of the error. Callers that share a lookup have
/// clones of the result.
type LookupResult = Result<Arc<[SocketAddr]>, (io::ErrorKind, Arc<str>)>;

impl Lookups {
    fn with_resolver(resolver: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self { threads: OwnThreads::default(), resolver: Arc::new(resolver) }
    }

    /// Returns the addresses of a host.
    ///
    /// # Errors
    ///
    /// If the name is unknown or has no address, or no thread can be started for the lookup.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lookup continues, and the next call with this name shares its result.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let host = address::plain_host(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let (name, resolver) = (host.to_owned(), Arc::clone(&self.resolver));
        let found = self.threads.run(name.clone(), move || match resolver(&name) {
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err((error.kind(), error.to_string().into())),
        });
        let found = found
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("cannot look up {host}: {error}")))?;
        let addresses = found.map_err(|(kind, why)| io::Error::new(kind, &*why))?;
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        let at_port = |mut address: SocketAddr| {
            address.set_port(port);
            address
        };
        Ok(addresses.iter().copied().map(at_port).collect())
    }
}

impl Default for Lookups {
    /// Returns lookups by the resolver of the system.
    fn default() -> Self {
        Self::with_resolver(|host| (host, 0).to_socket_addrs().map(Iterator::collect))
    }
}

/// Connections that the redis crate opens use the same lookups.
impl AsyncDNSResolver for Lookups {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let addresses: Box<dyn Iterator<Item = SocketAddr> + Send> =
                Box::new(self.addresses(host, port).await?.into_iter());
            Ok(addresses)
        })
    }
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
    };

    use futures::{FutureExt, executor::block_on};
    use tokio::runtime::Runtime;

    use super::*;

    #[test]
    fn an_ip_address_needs_no_lookup() {
        let lookups = Lookups::with_resolver(|host| panic!("{host} is looked up"));
        for (host, address) in [("10.0.0.1", "10.0.0.1:6379"), ("[::1]", "[::1]:6379"), ("::1", "[::1]:6379")]
        {
            let found = block_on(lookups.addresses(host, 6379)).unwrap();
            assert_eq!(found, [address.parse().unwrap()]);
        }
    }

    #[test]
    fn a_lookup_returns_the_addresses_or_the_error_of_the_resolver() {
        let lookups = Lookups::with_resolver(|host| match host {
            "known" => Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]),
            "empty" => Ok(Vec::new()),
            _ => Err(io::Error::other("no such name")),
        });
        let found = |host| block_on(lookups.addresses(host, 1)).map_err(|error| error.to_string());
        assert_eq!(found("known"), Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1))]));
        assert_eq!(found("empty"), Err("the host has no address".to_owned()));
        assert_eq!(found("unknown"), Err("no such name".to_owned()));
        assert!(block_on(Lookups::default().addresses("localhost", 1)).is_ok());
    }

    #[test]
    fn dials_share_a_slow_lookup_and_a_runtime_ends_without_it() {
        let (release, blocked) = mpsc::channel::<()>();
        let (lookup_count, blocked) = (Arc::new(AtomicUsize::new(0)), Mutex::new(blocked));
        let lookups = {
            let lookup_count = Arc::clone(&lookup_count);
            Lookups::with_resolver(move |_| {
                lookup_count.fetch_add(1, Ordering::SeqCst);
                blocked.lock().unwrap().recv().ok();
                Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])
            })
        };
        // Two dials are dropped with their runtimes during the lookup.
        for _ in 0..2 {
            let (runtime, lookups) = (Runtime::new().unwrap(), lookups.clone());
            let (started, dialling) = mpsc::channel();
            drop(runtime.spawn(async move {
                let mut dial = Box::pin(lookups.addresses("slow", 1));
                assert!((&mut dial).now_or_never().is_none());
                started.send(()).unwrap();
                dial.await.ok();
            }));
            dialling.recv().unwrap();
            // The resolver is still blocked. If this drop waited for the lookup, the test would not end.
            drop(runtime);
        }
        let mut third = Box::pin(lookups.addresses("slow", 1));
        assert!((&mut third).now_or_never().is_none());
        release.send(()).unwrap();
        assert_eq!(block_on(third).unwrap(), [SocketAddr::from((Ipv4Addr::LOCALHOST, 1))]);
        assert_eq!(lookup_count.load(Ordering::SeqCst), 1);
    }
}
