//! Rules for the public API: each async call has a blocking twin, guards hide no method of `Lease`, all types
//! are `Send`, `Sync`, `Unpin` and `'static`, and `statements.rs` calls each async method.
//!
//! The last tests break each rule in a small model, and assert that the violation is found.

use std::{fs, path::Path};

use super::surface::{Call, PublicType, Surface};

/// Async methods with a blocking twin of a different name, in the same type.
const TWINS_OF_OTHER_NAME: [(&str, &str, &str); 2] =
    [("QuorumBuilder", "connect", "connect_blocking"), ("Owner", "scope", "sync_scope")];

/// Calls without a blocking twin: a thread cannot stop a closure, and one builder serves both APIs.
const WITHOUT_TWIN: [&str; 2] = ["while_valid", "builder"];

/// The guards, which dereference to `Lease`.
const GUARDS: [&str; 4] = ["LockGuard", "Permit", "ReadGuard", "election::Leadership"];

/// Whether this path belongs to the simulator, which has no blocking API.
fn is_of_simulator(path: &str) -> bool {
    path.starts_with("sim::")
}

impl Surface {
    /// Returns the public calls that `blocking` does not have: any async call, and each method of a type that
    /// `blocking` wraps.
    fn missing_twins(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (path, public) in self.types.iter().filter(|(path, _)| !is_of_simulator(path)) {
            let twin = self.blocking.get(path);
            let target = public.deref.as_ref().and_then(|path| self.types.get(path));
            let inherited = target.into_iter().flat_map(|target| &target.methods);
            let inherited = inherited.filter(|(_, call)| **call == Call::Async);
            for (name, call) in public.methods.iter().chain(inherited) {
                let is_wanted = *call == Call::Async || twin.is_some();
                if is_wanted && !self.has_twin(path, public, name, *call) {
                    missing.push(format!("{path}::{name} has no blocking twin"));
                }
            }
        }
        for (path, call) in self.functions.iter().filter(|(path, _)| !is_of_simulator(path)) {
            if *call == Call::Async && !self.functions.contains_key(&format!("blocking::{path}")) {
                missing.push(format!("{path} has no blocking twin"));
            }
        }
        missing
    }

    /// Whether a method of a type has a blocking twin, or needs no twin.
    fn has_twin(&self, path: &str, public: &PublicType, name: &str, call: Call) -> bool {
        let elsewhere = TWINS_OF_OTHER_NAME.iter().find(|(of, method, _)| *of == path && *method == name);
        if let Some((_, _, twin)) = elsewhere {
            return public.methods.contains_key(*twin);
        }
        let Some(twin) = self.blocking.get(path) else { return WITHOUT_TWIN.contains(&name) };
        let target = twin.deref.as_ref().and_then(|path| self.types.get(path));
        // A call that the twin inherits must not be async: nothing would poll the future.
        let is_inherited =
            call == Call::Sync && target.is_some_and(|target| target.methods.contains_key(name));
        twin.methods.contains_key(name) || is_inherited || WITHOUT_TWIN.contains(&name)
    }

    /// Returns the methods of guards that hide a method of the lease.
    fn hidden_methods(&self) -> Vec<String> {
        let mut hidden = Vec::new();
        for (path, public) in &self.types {
            let Some(target) = public.deref.as_ref() else { continue };
            let Some(lease) = self.types.get(target) else { continue };
            let names = public.methods.keys().filter(|name| lease.methods.contains_key(*name));
            hidden.extend(names.map(|name| format!("{path}::{name} hides {target}::{name}")));
        }
        hidden
    }

    /// Returns the types that are bound to a thread, or that borrow.
    fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (path, public) in self.types.iter().filter(|(path, _)| !is_of_simulator(path)) {
            let wanted = ["Send", "Sync", "Unpin"].into_iter();
            let missing = wanted.filter(|wanted| !public.auto_traits.contains(*wanted));
            broken.extend(missing.map(|missing| format!("{path} is not {missing}")));
            if public.has_lifetime {
                broken.push(format!("{path} is not 'static"));
            }
        }
        broken
    }

    /// Returns the async calls that this source does not contain.
    fn uncalled(&self, source: &str) -> Vec<String> {
        let methods = self.types.iter().flat_map(|(path, public)| {
            let methods = public.methods.iter();
            methods.map(move |(name, call)| (format!("{path}::{name}"), *call))
        });
        let functions = self.functions.iter().map(|(path, call)| (path.clone(), *call));
        let calls = methods.chain(functions).filter(|(_, call)| *call == Call::Async);
        let is_called = |path: &str| {
            let name = path.rsplit("::").next().unwrap_or(path);
            [".", "::"].iter().any(|before| source.contains(&format!("{before}{name}(")))
        };
        let calls = calls.map(|(path, _)| path).filter(|path| !is_of_simulator(path));
        calls.filter(|path| !is_called(path)).map(|path| format!("{path} is in no statement")).collect()
    }
}

#[test]
fn the_surface_obeys_the_rules() {
    let surface = Surface::read();
    let guards = surface.types.iter().filter(|(_, public)| public.deref.as_deref() == Some("Lease"));
    let guards: Vec<_> =
        guards.map(|(path, _)| path.as_str()).filter(|path| *path != "blocking::Blocking").collect();
    assert_eq!(guards, GUARDS, "the guards in rustdoc's JSON");
    let statements = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/statements.rs");
    let findings = [
        surface.missing_twins(),
        surface.hidden_methods(),
        surface.broken_promises(),
        surface.uncalled(&fs::read_to_string(statements).unwrap()),
    ];
    let findings = findings.concat();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn public_type(methods: &[(&str, Call)], deref: Option<&str>) -> PublicType {
    PublicType {
        methods: methods.iter().map(|(name, call)| ((*name).to_owned(), *call)).collect(),
        deref: deref.map(str::to_owned),
        auto_traits: ["Send", "Sync", "Unpin"].map(str::to_owned).into(),
        has_lifetime: false,
    }
}

/// A surface that obeys all rules.
fn model() -> Surface {
    let lease = [("renew", Call::Async), ("while_valid", Call::Async), ("is_valid", Call::Sync)];
    let types = [
        ("Lease", public_type(&lease, None)),
        ("LockGuard", public_type(&[("unlock", Call::Async)], Some("Lease"))),
        ("RedLock", public_type(&[("lock", Call::Async), ("options", Call::Sync)], None)),
        ("Owner", public_type(&[("scope", Call::Async), ("sync_scope", Call::Sync)], None)),
        ("Fence", public_type(&[("write", Call::Sync)], None)),
        ("sim::Process", public_type(&[("sleep", Call::Async)], None)),
    ];
    let blocking = [
        ("Lease", public_type(&[("renew", Call::Sync)], Some("Lease"))),
        ("LockGuard", public_type(&[("renew", Call::Sync), ("unlock", Call::Sync)], Some("Lease"))),
        ("RedLock", public_type(&[("lock", Call::Sync), ("options", Call::Sync)], None)),
    ];
    let functions = [("admin::init", Call::Async), ("blocking::admin::init", Call::Sync)];
    Surface {
        types: types.map(|(path, public)| (path.to_owned(), public)).into(),
        functions: functions.map(|(path, call)| (path.to_owned(), call)).into(),
        blocking: blocking.map(|(path, public)| (path.to_owned(), public)).into(),
    }
}

#[test]
fn a_surface_without_faults_has_no_finding() {
    let surface = model();
    let findings = [surface.missing_twins(), surface.hidden_methods(), surface.broken_promises()];
    assert_eq!(findings.concat(), Vec::<String>::new());
}

#[test]
fn a_missing_twin_is_found() {
    let mut surface = model();
    surface.blocking.get_mut("RedLock").unwrap().methods.clear();
    surface.blocking.get_mut("LockGuard").unwrap().methods.remove("renew");
    surface.types.get_mut("Owner").unwrap().methods.remove("sync_scope");
    surface.types.insert("Latch".to_owned(), public_type(&[("wait", Call::Async)], None));
    surface.functions.remove("blocking::admin::init");
    let missing = [
        "Latch::wait",
        "LockGuard::renew",
        "Owner::scope",
        "RedLock::lock",
        "RedLock::options",
        "admin::init",
    ];
    assert_eq!(surface.missing_twins(), missing.map(|path| format!("{path} has no blocking twin")));
}

#[test]
fn a_name_in_guard_and_lease_is_found() {
    let mut surface = model();
    let guard = surface.types.get_mut("LockGuard").unwrap();
    guard.methods.insert("is_valid".to_owned(), Call::Sync);
    assert_eq!(surface.hidden_methods(), ["LockGuard::is_valid hides Lease::is_valid"]);
}

#[test]
fn a_type_bound_to_a_thread_is_found() {
    let mut surface = model();
    let lease = surface.types.get_mut("Lease").unwrap();
    lease.auto_traits.remove("Send");
    lease.has_lifetime = true;
    assert_eq!(surface.broken_promises(), ["Lease is not Send", "Lease is not 'static"]);
}

#[test]
fn an_async_call_without_a_statement_is_found() {
    let statements = "require_send(lease.renew()); require_send(lease.while_valid(work)); require_send(guard.unlock()); \
                      require_send(admin::init(&builder)); require_send(lock.lock()); owner.scopes()";
    assert_eq!(model().uncalled(statements), ["Owner::scope is in no statement"]);
}
