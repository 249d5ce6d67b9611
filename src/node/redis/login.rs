//! The credentials of logins. Each dial calls [`Login::current_settings`] for the settings of its login: those of the
//! url, or the url's settings with the credentials that a provider returns at this time. No error, log or `Debug` text
//! shows a password.

use std::{
    error::Error,
    fmt,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{BoxFuture, Either, FutureExt, select};
use redis::{ProtocolVersion, RedisConnectionInfo};

use crate::{mutex::lock, node::dial::DialLimit, values::NodeError};

/// The user of a login with a password alone.
const DEFAULT_USER: &str = "default";

/// The user and the password for a login at a server, which a provider of
/// [`QuorumBuilder::credentials`](crate::QuorumBuilder::credentials) returns. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "credentials do nothing by themselves"]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// Returns the credentials of the default user with this password.
    pub fn new(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Sets the ACL user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Returns the credentials in the settings of a url; `None` if the url has no password.
    #[cfg(feature = "settings")]
    pub(super) fn of_settings(settings: &RedisConnectionInfo) -> Option<Self> {
        let password = settings.password()?.to_owned();
        Some(Self { user: settings.username().map(str::to_owned), password })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A function that returns the credentials for servers. Every dial calls the function, with the address of the node.
#[derive(Clone)]
pub(crate) struct CredentialsProvider {
    function: Arc<ProviderFunction>,
    /// Whether a dial uses the credentials of the url if the function fails and has never succeeded.
    falls_back_to_url: bool,
}

type ProviderFunction = dyn Fn(&str) -> BoxFuture<'static, ProviderResult> + Send + Sync;

/// The credentials for a login; `None` for a login without a password.
type ProviderResult = Result<Option<Credentials>, Box<dyn Error + Send + Sync>>;

impl CredentialsProvider {
    /// Returns the provider of an application.
    pub(crate) fn new<F>(provider: impl Fn(&str) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let function = move |node: &str| provider(node).map(|result| result.map(Some)).boxed();
        Self { function: Arc::new(function), falls_back_to_url: false }
    }

    /// Returns a provider that reads the credentials of the urls again. Until this succeeds, dials use the credentials
    /// that the urls had first.
    #[cfg(any(test, feature = "settings"))]
    pub(super) fn of_urls(
        provider: impl Fn(&str) -> BoxFuture<'static, ProviderResult> + Send + Sync + 'static,
    ) -> Self {
        Self { function: Arc::new(provider), falls_back_to_url: true }
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsProvider").finish_non_exhaustive()
    }
}

/// The login at a server: the database, and the credentials of the url or of a provider.
#[derive(Clone, Debug)]
pub(super) struct Login {
    /// The settings of the url without the database. The handshake does not select the database, so that a server
    /// without databases is refused for its mode first.
    settings: RedisConnectionInfo,
    database: i64,
    source: Option<Arc<LoginSource>>,
}

/// A provider of credentials for one node, with its last answer.
#[derive(Debug)]
struct LoginSource {
    provider: CredentialsProvider,
    node: Arc<str>,
    state: Mutex<SourceState>,
}

#[derive(Debug, Default)]
struct SourceState {
    /// The credentials that the provider returned last; `None` if the provider has never succeeded.
    latest: Option<Option<Credentials>>,
    /// The last failure that was logged, so that repeated dials do not repeat the log.
    logged: Option<String>,
}

impl Login {
    pub(super) fn new(settings: &RedisConnectionInfo, database: i64) -> Self {
        let settings = settings.clone().set_db(0).set_protocol(ProtocolVersion::RESP3);
        Self { settings, database, source: None }
    }

    /// Returns the same login with the credentials of a provider.
    pub(super) fn with_provider(self, provider: &CredentialsProvider, node: &Arc<str>) -> Self {
        let (provider, node, state) = (provider.clone(), Arc::clone(node), Mutex::default());
        Self { source: Some(Arc::new(LoginSource { provider, node, state })), ..self }
    }

    /// Returns the user of the last login; `None` for a connection without a login. A password without a user is that
    /// of the user `default`.
    pub(super) fn user(&self) -> Option<String> {
        let latest = self.source.as_ref().and_then(|source| lock(&source.state).latest.clone());
        let user = match latest {
            Some(credentials) => credentials?.user,
            None => {
                self.settings.password()?;
                self.settings.username().map(str::to_owned)
            }
        };
        Some(user.unwrap_or_else(|| DEFAULT_USER.to_owned()))
    }

    pub(super) fn database(&self) -> i64 {
        self.database
    }

    /// Returns the settings of the url.
    #[cfg(any(test, feature = "settings"))]
    pub(super) fn url_settings(&self) -> &RedisConnectionInfo {
        &self.settings
    }

    /// Returns the settings of a connection, with the present credentials. If the provider fails, panics or takes
    /// longer than half of the dial's time, the last credentials are used, because the server may still accept them.
    ///
    /// # Errors
    ///
    /// [`NodeError::NoCredentials`] if the provider of an application fails, and has never succeeded.
    pub(super) async fn current_settings(
        &self,
        limit: DialLimit<'_>,
    ) -> Result<RedisConnectionInfo, NodeError> {
        let Some(source) = &self.source else { return Ok(self.settings.clone()) };
        let provided = source.call_provider(limit).await;
        let mut state = lock(&source.state);
        match provided {
            Ok(credentials) => {
                *state = SourceState { latest: Some(credentials.clone()), logged: None };
                drop(state);
                Ok(self.with_credentials(credentials.as_ref()))
            }
            Err(why) => {
                let latest = match &state.latest {
                    Some(latest) => self.with_credentials(latest.as_ref()),
                    None if source.provider.falls_back_to_url => self.settings.clone(),
                    None => return Err(NodeError::NoCredentials(why.into())),
                };
                let is_new = state.logged.as_ref() != Some(&why);
                state.logged = Some(why.clone());
                drop(state);
                if is_new {
                    tracing::warn!(node = %source.node, %why, "no new credentials: using the last credentials");
                }
                Ok(latest)
            }
        }
    }

    /// Returns the settings with these credentials in place of the credentials of the url.
    fn with_credentials(&self, credentials: Option<&Credentials>) -> RedisConnectionInfo {
        let settings = self.settings.clone();
        match credentials {
            Some(Credentials { user: Some(user), password }) => {
                settings.set_username(user).set_password(password)
            }
            // Credentials without a user are a login as the user `default`. The settings have no method that removes
            // the user of the url.
            Some(Credentials { user: None, password }) if settings.username().is_some() => {
                settings.set_username("default").set_password(password)
            }
            Some(Credentials { user: None, password }) => settings.set_password(password),
            None => RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3),
        }
    }
}

impl LoginSource {
    async fn call_provider(&self, limit: DialLimit<'_>) -> Result<Option<Credentials>, String> {
        // The future itself calls the function, so that a panic of the function is caught as well.
        let calling = async { (self.provider.function)(&self.node).await };
        let calling = AssertUnwindSafe(calling).catch_unwind();
        let half = limit.half();
        match select(pin!(calling), limit.sleep(half)).await {
            Either::Left((Ok(provided), _)) => provided.map_err(|error| error.to_string()),
            Either::Left((Err(_), _)) => Err("the provider of credentials panicked".to_owned()),
            Either::Right(((), _)) => Err(too_late(half)),
        }
    }
}

fn too_late(patience: Duration) -> String {
    format!("the provider of credentials has not answered within {patience:?}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::pending;

    use super::*;
    use crate::clock::{Clock, TokioClock};

    const TIMEOUT: Duration = Duration::from_secs(1);

    fn login(provider: &CredentialsProvider) -> Login {
        let url = RedisConnectionInfo::default().set_username("url").set_password("of-url");
        Login::new(&url, 3).with_provider(provider, &Arc::from("node:1"))
    }

    async fn user_and_password(login: &Login, clock: &dyn Clock) -> Result<(String, String), NodeError> {
        let settings = login.current_settings(DialLimit::per_step(clock, TIMEOUT)).await?;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Ok((text(settings.username()), text(settings.password())))
    }

    fn pair(user: &str, password: &str) -> Result<(String, String), NodeError> {
        Ok((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", Credentials::new("secret").user("me"));
        assert_eq!(shown, "Credentials { user: Some(\"me\"), .. }");
    }

    #[tokio::test(start_paused = true)]
    async fn every_dial_calls_the_provider_with_the_address_of_the_node() {
        let clock = TokioClock::new();
        let count = Arc::new(AtomicUsize::new(0));
        let login = login(&CredentialsProvider::new(move |node| {
            let password = format!("{node}-{}", count.fetch_add(1, Ordering::SeqCst));
            async move { Ok(Credentials::new(password).user("app")) }
        }));
        assert_eq!(user_and_password(&login, &clock).await, pair("app", "node:1-0"));
        assert_eq!(user_and_password(&login.clone(), &clock).await, pair("app", "node:1-1"));
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_without_a_user_replace_the_user_of_the_url() {
        let clock = TokioClock::new();
        let without_user = login_of(|_| Ok(Credentials::new("word")));
        assert_eq!(user_and_password(&without_user, &clock).await, pair("default", "word"));
        assert_eq!(without_user.user().as_deref(), Some("default"));
    }

    #[test]
    fn a_login_without_a_password_has_no_user() {
        assert_eq!(Login::new(&RedisConnectionInfo::default(), 0).user(), None);
        let with_password = RedisConnectionInfo::default().set_password("word");
        assert_eq!(Login::new(&with_password, 0).user().as_deref(), Some("default"));
    }

    /// Returns a login with a provider that gets the number of each call, from 0.
    fn login_of(
        answer: impl Fn(usize) -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Login {
        let count = AtomicUsize::new(0);
        login(&CredentialsProvider::new(move |_| {
            let answer = answer(count.fetch_add(1, Ordering::SeqCst));
            async move { answer }
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_the_provider_leaves_the_last_credentials_or_is_an_error() {
        let clock = TokioClock::new();
        let failing = login_of(|call| match call {
            1 => Ok(Credentials::new("good").user("app")),
            3 => panic!("of the provider"),
            _ => Err("the vault is sealed".into()),
        });
        let refused = NodeError::NoCredentials("the vault is sealed".into());
        assert_eq!(user_and_password(&failing, &clock).await, Err(refused));
        for _ in 1..5 {
            assert_eq!(user_and_password(&failing, &clock).await, pair("app", "good"));
        }
        let panicking = login_of(|_| panic!("of the provider"));
        let refused = NodeError::NoCredentials("the provider of credentials panicked".into());
        assert_eq!(user_and_password(&panicking, &clock).await, Err(refused));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_provider_takes_half_of_the_time_of_a_dial() {
        let clock = TokioClock::new();
        let count = AtomicUsize::new(0);
        let silent = login(&CredentialsProvider::new(move |_| {
            let call = count.fetch_add(1, Ordering::SeqCst);
            async move { if call == 1 { Ok(Credentials::new("good")) } else { pending().await } }
        }));
        let refused = "the provider of credentials has not answered within 500ms";
        assert_eq!(user_and_password(&silent, &clock).await, Err(NodeError::NoCredentials(refused.into())));
        assert_eq!(clock.now().since_origin(), TIMEOUT / 2);
        assert_eq!(user_and_password(&silent, &clock).await, pair("default", "good"));
        assert_eq!(user_and_password(&silent, &clock).await, pair("default", "good"));
        assert_eq!(clock.now().since_origin(), TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_urls_leave_the_last_credentials_of_the_url() {
        let clock = TokioClock::new();
        let count = AtomicUsize::new(0);
        let login = login(&CredentialsProvider::of_urls(move |_| {
            let call = count.fetch_add(1, Ordering::SeqCst);
            let answer = match call {
                1 => Ok(Some(Credentials::new("new").user("app"))),
                3 => Ok(None),
                _ => Err("the file is gone".into()),
            };
            async move { answer }.boxed()
        }));
        for (user, password) in [("url", "of-url"), ("app", "new"), ("app", "new"), ("", ""), ("", "")] {
            assert_eq!(user_and_password(&login, &clock).await, pair(user, password));
            assert_eq!(login.user().unwrap_or_default(), user);
        }
    }
}
