use super::*;
use crate::node::redis::Route;

fn address(url: &str) -> String {
    Route::from_url(url, &mut tls_settings()).unwrap().address().to_string()
}

#[cfg(not(feature = "tls"))]
fn tls_settings() -> TlsSettings {
    TlsSettings::default()
}

/// Returns settings with a test CA, because the system may have no CAs. The private key of the test CA no longer
/// exists.
#[cfg(feature = "tls")]
fn tls_settings() -> TlsSettings {
    let ca = crate::node::redis::Pem::Text(include_bytes!("ca.pem").as_slice().into());
    TlsSettings::new(crate::node::redis::Tls::new().ca(ca))
}

fn refusal(url: &str) -> ConfigError {
    let error = Route::from_url(url, &mut TlsSettings::default()).unwrap_err();
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("secret") && !text.contains("hid"), "{text}");
    }
    error
}

fn reason(url: &str) -> String {
    match refusal(url) {
        ConfigError::Url { reason, .. } => reason.to_string(),
        other => panic!("{other}"),
    }
}

fn credentials_and_database(endpoint: &Endpoint) -> (Option<&str>, Option<&str>, i64) {
    let settings = endpoint.settings();
    (settings.username(), settings.password(), endpoint.database())
}

#[test]
fn all_urls_of_a_server_have_one_address() {
    for url in ["redis://Node-1", "redis://:secret@node-1:6379/3", "valkey://node-1/?protocol=resp2"] {
        assert_eq!(address(url), "node-1:6379");
    }
    assert_eq!(address("redis://[::1]:7000"), "[::1]:7000");
    for url in ["unix:///run/redis.sock?db=2", "redis+unix:///run/redis.sock?user=a&pass=b"] {
        assert_eq!(address(url), "/run/redis.sock");
    }
}

#[test]
fn a_master_set_has_one_address_for_all_orders_of_its_sentinels() {
    for url in [
        "redis+sentinel://b:1,A/lock-1",
        "redis+sentinel://A:26379,b:1/lock-1?db=3",
        "valkey+sentinel://me:secret@a,b:1/lock-1/?sentinel_pass=secret",
    ] {
        assert_eq!(address(url), "a:26379/lock-1");
    }
    assert_eq!(address("redis+sentinel://[::1]/m"), "[::1]:26379/m");
    assert_ne!(address("redis+sentinel://a/m"), address("redis+sentinel://a/n"));
    assert_ne!(
        address("redis+sentinel://a/m"),
        address("redis+sentinel://b/m"),
        "sets with one name and different Sentinels have one address"
    );
}

#[test]
fn a_cluster_has_one_address_for_all_orders_of_its_seeds() {
    for url in
        ["redis+cluster://b:1,A", "redis+cluster://A:6379,b:1/redquorum", "valkey+cluster://me:secret@a,b:1/"]
    {
        assert_eq!(address(url), "a:6379/redquorum");
    }
    assert_eq!(address("redis+cluster://[::1]:7000/locks"), "[::1]:7000/locks");
    assert_ne!(address("redis+cluster://a/m"), address("redis+cluster://a/n"));
}

#[test]
fn an_invalid_cluster_is_refused_with_its_reason() {
    for (url, hint) in [
        ("redis+cluster://", "without a host"),
        ("redis+cluster:///m", "without a host"),
        ("redis+cluster://a,,b", "without a host"),
        ("redis+cluster://a,b:port", "a port is a number from 1 to 65535"),
        ("redis+cluster://0.0.0.0", "wildcard"),
        ("redis+cluster://me@a", "user but no password"),
        ("redis+cluster://a/1", "database 0 alone"),
        ("redis+cluster://a?db=1", "database 0 alone"),
        ("redis+cluster://a/m?slots=3", "no parameters after its `?`"),
        ("redis+cluster://a/m/n", "the name after the hosts"),
        ("redis+cluster://a/%7Bm%7D", "the name after the hosts"),
        ("redis+cluster://a/m#n", "a `#` in it"),
        ("redis+cluster://:se/cret@a", "cannot be read"),
        (&format!("redis+cluster://a/{}", "m".repeat(33)), "at most 32 letters"),
    ] {
        let reason = reason(url);
        assert!(reason.contains(hint) && reason.contains("redis+cluster://10.0.0.1:6379"), "{url}: {reason}");
    }
    assert_eq!(
        address(&format!("redis+cluster://a/{}", "m".repeat(32))),
        format!("a:6379/{}", "m".repeat(32))
    );
}

/// The parser of urls removes such a name, so that the tag would silently be the default tag.
#[test]
fn a_hash_tag_of_dots_is_refused() {
    for name in [".", "..", "%2e", "%2E%2e", ".%2e", "m/..", "m/../n", "./m"] {
        let reason = reason(&format!("redis+cluster://a/{name}"));
        assert!(reason.contains("the name after the hosts"), "{name}: {reason}");
    }
    let reason = reason("redis+cluster://a/..");
    assert!(reason.contains("a name of dots alone stands for a directory"), "{reason}");
    assert_eq!(address("redis+cluster://a/.m"), "a:6379/.m");
}

#[test]
fn the_error_of_a_list_of_servers_names_the_wrong_server() {
    for (url, named) in [
        ("redis+cluster://a:7000,b:70000,c/m", "server 2 of 3 (b:70000): a port is a number from 1 to 65535"),
        ("redis+cluster://me:secret@a:7000,b:port", "server 2 of 2: a port is"),
        ("redis+cluster://me:secret@a:0", "server 1 of 1 (a:0): a port is"),
        ("redis+cluster://a:0,b", "server 1 of 2: a port is"),
        ("redis+cluster://a,b:0", "server 2 of 2 (b:0): a port is"),
        ("redis+cluster://[::1]:0", "server 1 of 1: a port is"),
        ("redis+cluster://a,[::1]:0", "server 2 of 2 ([::1]:0): a port is"),
        ("redis+cluster://a,,b", "server 2 of 3: a server without a host"),
        ("redis+cluster://a,:7000,b", "server 2 of 3: a server without a host"),
        ("redis+cluster://a,b,", "server 3 of 3: a server without a host"),
        (
            "redis+cluster://a,2001:db8::2:7001",
            "server 2 of 2 (2001:db8::2:7001): an IPv6 address is in brackets",
        ),
        ("redis+cluster://a,[::x]:7001", "server 2 of 2 ([::x]:7001): it cannot be read"),
        ("redis+cluster://0.0.0.0:7000,b", "server 1 of 2: a client cannot connect to a wildcard"),
        ("redis+sentinel://a,b:99999/m", "Sentinel 2 of 2 (b:99999): a port is"),
        ("redis+sentinel://a:0,b/m", "Sentinel 1 of 2: a port is"),
        ("redis+cluster://:se/cret@a", "server 1 of 1: it cannot be read as host:port (the url has a `/`"),
    ] {
        let reason = reason(url);
        assert!(reason.starts_with(named), "{url}: {reason}");
    }
}

/// A part of a password may look like a host or a port, also in a url that was cut at a blank.
#[test]
fn the_error_of_a_list_of_servers_shows_no_password() {
    for url in [
        "redis+cluster://me:secret",
        "redis+cluster://hid:secret,a",
        "redis+cluster://me:secret/x@a:7000,b",
        "redis+cluster://me:a,hid:secret/x@a:7000,b",
        "redis+cluster://me:secret?x@a,b:0",
        "redis+cluster://me:pa@secret@a,b:0",
        "redis+cluster://me:pa@secret:x9",
        "redis+cluster://me:1234,secret:x9",
        "redis+cluster://me:secret,hid@a,b:0",
        "redis+cluster://a,me:secret@b",
        "redis+cluster://me:secret@a,hid:secret@b",
        "redis+sentinel://me:secret@a,hid:secret@b/m",
    ] {
        reason(url);
    }
}

#[test]
fn credentials_are_given_once_and_their_separators_are_escaped() {
    for url in [
        "redis+cluster://me:secret@a:7000,me:secret@b:7000",
        "redis+cluster://me:secret@a,b@c",
        "redis+cluster://me:sec@ret@a",
        "redis+sentinel://me:secret@a,me:secret@b/m",
    ] {
        let reason = reason(url);
        assert!(
            reason.starts_with("there are two `@`: write user and password once, before the first server"),
            "{url}: {reason}"
        );
        assert!(reason.contains("%40 and %20, and `,` as %2C"), "{url}: {reason}");
    }
    for url in [
        "redis+cluster://a:7000,me:secret@b:7000",
        "redis+cluster://me:sec,ret@a",
        "redis+cluster://:sec,ret@a,b",
        "redis+sentinel://a,me:secret@b/m",
    ] {
        let reason = reason(url);
        assert!(
            reason.starts_with(
                "there is a `,` before the `@`: write user and password once, before the first server"
            ),
            "{url}: {reason}"
        );
        assert!(reason.contains("%40 and %20, and `,` as %2C"), "{url}: {reason}");
    }
    let slot = match parse("redis+cluster://me:s%2Ce%40c@a,b", &mut TlsSettings::default()).unwrap() {
        Destination::HashSlot(slot) => slot,
        other => panic!("{other:?}"),
    };
    assert_eq!(credentials_and_database(&slot.endpoint("c", 1)), (Some("me"), Some("s,e@c"), 0));
}

#[test]
fn a_blank_between_servers_is_named() {
    for url in [
        "redis+cluster://a:7000, b:7001/m",
        "redis+cluster://a:7000 ,b:7001/m",
        "redis+cluster://me:secret@a:7000,\tb:7001/m",
        "redis+sentinel://a, b/m",
    ] {
        let reason = reason(url);
        assert!(
            reason.contains(" of 2: there is a blank: write no blank after or before a comma"),
            "{url}: {reason}"
        );
    }
    // A list of urls is cut at each blank, so this text is the second half of such a url.
    for url in ["b:7001/m", ",b:7001/m", "b:7001"] {
        let reason = reason(url);
        assert!(
            reason.contains("write no blank after or before a comma between the servers of one cluster"),
            "{reason}"
        );
    }
}

#[test]
fn all_forms_of_urls_can_have_credentials_and_a_database() {
    let endpoint = |url| match parse(url, &mut TlsSettings::default()).unwrap() {
        Destination::Server(endpoint) => endpoint,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        credentials_and_database(&endpoint("redis://me:se%40cret@a/3")),
        (Some("me"), Some("se@cret"), 3)
    );
    assert_eq!(credentials_and_database(&endpoint("redis://:secret@a")), (None, Some("secret"), 0));
    assert_eq!(
        credentials_and_database(&endpoint("unix:///s?db=1&user=me&pass=se%40cret")),
        (Some("me"), Some("se@cret"), 1)
    );
    let slot = match parse("redis+cluster://me:se%40cret@a,b/m", &mut TlsSettings::default()).unwrap() {
        Destination::HashSlot(slot) => slot,
        other => panic!("{other:?}"),
    };
    assert_eq!(credentials_and_database(&slot.endpoint("c", 1)), (Some("me"), Some("se@cret"), 0));
    let url = "redis+sentinel://me:se%40cret@a,b/m?db=2&sentinel_user=you&sentinel_pass=hid%26den";
    let set = match parse(url, &mut TlsSettings::default()).unwrap() {
        Destination::MasterSet(set) => set,
        other => panic!("{other:?}"),
    };
    assert_eq!(credentials_and_database(&set.endpoint("c", 1)), (Some("me"), Some("se@cret"), 2));
    for sentinel in set.sentinels() {
        assert_eq!(credentials_and_database(sentinel), (Some("you"), Some("hid&den"), 0));
    }
}

#[test]
fn a_url_with_an_ignored_or_insecure_part_is_refused() {
    assert!(reason("redis://me@a").contains("user but no password"));
    assert!(reason("redis://a/-1").contains("0 or more"));
    assert!(reason("redis://a?db=1").contains("protocol"), "a database belongs in the path");
    assert!(reason("redis://:pa#ss@a").contains("no url of a server"));
    assert!(reason("redis://a#insecure").contains("a `#` in it"));
    assert!(reason("unix:///s?database=1").contains("db, user, pass"));
    assert!(reason("redis://u:1?hid@den@a").contains("protocol"));
}

#[test]
fn a_text_that_is_no_url_is_refused_with_its_fault() {
    for (url, fault) in [
        ("redis://me:secret@10.0.0.1:99999", "its port is no number from 1 to 65535: write"),
        ("redis://10.0.0.1:notaport", "its port is no number from 1 to 65535: write"),
        ("redis://10.0.0.1:0", "its port is no number from 1 to 65535: write"),
        ("redis://:secret@[::1]:65536/3", "its port is no number"),
        ("redis+sentinel://a,b:99999/m", "a port is a number from 1 to 65535"),
        (
            "http://me:secret@10.0.0.1",
            "its scheme is none of redis, rediss, unix, redis+sentinel and redis+cluster",
        ),
        ("redi://10.0.0.1", "its scheme is none of"),
        (
            "redis-cluster://10.0.0.1,10.0.0.2",
            "three small servers beside the cluster promise (docs/CLUSTER.md)",
        ),
        ("rediss-Cluster://me:secret@10.0.0.1", "the scheme of a Redis Cluster is redis+cluster"),
        ("10.0.0.1:6379", "no `scheme://` begins it"),
        ("redis:/10.0.0.1", "no `scheme://` begins it"),
        ("redis:10.0.0.1", "no `scheme://` begins it"),
        ("", "no `scheme://` begins it"),
        ("a;b", "commas or blanks separate the urls of several nodes, `;` does not"),
        ("redis://10.0.0.1;redis://10.0.0.2", "commas or blanks separate the urls of several nodes"),
        ("redis://10.0.0.1/secret", "the text after the host is no number of a database, as in redis://"),
        ("redis:///3", "it has no host"),
    ] {
        let reason = reason(url);
        assert!(reason.contains(fault), "{url}: {reason}");
        assert!(!reason.contains("InvalidClientConfig"), "{url}: {reason}");
    }
}

#[test]
fn an_invalid_master_set_is_refused_with_its_reason() {
    for (url, hint) in [
        ("redis+sentinel://a", "a blank separates nodes"),
        ("redis+sentinel://a/", "name of a master set"),
        ("redis+sentinel://a/m%20n", "name of a master set"),
        ("redis+sentinel://a/m/1", "name of a master set"),
        ("redis+sentinel:///m", "host"),
        ("redis+sentinel://a,,b/m", "host"),
        ("redis+sentinel://a,b:port/m", "port"),
        ("redis+sentinel://0.0.0.0/m", "wildcard"),
        ("redis+sentinel://me@a/m", "user but no password"),
        ("redis+sentinel://a/m?sentinel_user=me", "Sentinels: the url has a user but no password"),
        ("redis+sentinel://a/m?db=x", "number"),
        ("redis+sentinel://a/m?db=-1", "0 or more"),
        ("redis+sentinel://a/m?database=1", "sentinel_pass, sentinel_tls"),
        ("redis+sentinel://a/m?sentinel_tls=1", "neither yes nor no"),
        ("redis+sentinel://a/m#insecure", "a `#` in it"),
        ("redis+sentinel://me:hid/den@a/m", "port"),
        ("redis+sentinel://me:12/hid@den/m", "name of a master set"),
        ("redis+sentinel://me:12?hid@den/m", "name of a master set"),
    ] {
        assert!(refusal(url).to_string().contains("redis+sentinel://10.0.0.1:26379"), "{url}");
        assert!(reason(url).contains(hint), "{url}: {}", reason(url));
    }
}

#[test]
fn the_error_of_an_invalid_url_shows_no_password() {
    for url in [
        "http://:secret@host",
        "redis://:secret@host:port",
        "redis://:hid/den@host",
        "unix:///s?db=x&pass=secret",
        "redis+sentinel://a/m?db=x&sentinel_pass=secret",
    ] {
        refusal(url);
    }
}

/// The second and third text are parts of a url that was cut at a blank. The fourth text is the form in which
/// a managed service shows an address.
#[test]
fn a_refused_text_is_shown_by_its_scheme_and_host_alone() {
    for (url, shown) in [
        ("redis://me:secret@10.0.0.1/-1", "redis://10.0.0.1: "),
        ("redis://:secret", "redis://***: "),
        ("secret@10.0.0.1", "***: "),
        ("cache.example:6380,password=secret=,ssl=True,abortConnect=False", "***: "),
        ("redis://:sec/ret@10.0.0.1", "redis://***: "),
        ("unix:///run/redis.sock?pass=secret&database=1", "unix://***: "),
        ("redis+sentinel://me:secret@a,b/m?database=secret", "redis+sentinel://***: "),
    ] {
        let text = refusal(url).to_string();
        assert!(text.starts_with(shown), "{text}");
    }
}

#[test]
fn the_error_of_an_unescaped_character_names_the_characters_to_escape() {
    for url in [
        "redis://:pa/ss@host",
        "redis://:12?ss@host",
        "redis://:pa?ss@host",
        "redis://:pa#ss@host",
        "redis://:word",
        "word@host",
        "redis+sentinel://:pa/ss@a/m",
        "redis+sentinel://:12?ss@a/m",
        "redis+sentinel://:pa#ss@a/m",
    ] {
        let reason = reason(url);
        let hint = "`/`, `?`, `#`, `%`, `@` and the blank of a user or a password as %2F, %3F, %23, %25, %40 and %20";
        assert!(reason.contains(hint), "{url}: {reason}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_tls_url_without_the_feature_tls_is_refused_with_the_feature_s_name() {
    for scheme in ["rediss", "valkeys", "REDISS"] {
        let error = refusal(&format!("{scheme}://me:secret@a:7000"));
        assert!(matches!(error, ConfigError::Url { .. }), "{error}");
        assert!(error.to_string().contains("feature `tls`"), "{error}");
    }
    let error = refusal("rediss+sentinel://me:secret@a/m?sentinel_pass=secret");
    assert!(error.to_string().starts_with("rediss+sentinel://***: it asks for TLS"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_no_part_of_an_address_and_cannot_be_insecure() {
    assert_eq!(address("rediss://a"), "a:6379");
    assert_eq!(address("rediss+sentinel://a/m"), "a:26379/m");
    let reason = reason("rediss://a/#insecure");
    assert!(reason.contains("`ca_certificates`"), "{reason}");
}
