//! The public names of the library, as rustdoc's JSON lists them.
//!
//! The source is not enough, because macros write most methods of locks and of `blocking`. The format of the JSON is
//! unstable. If a new compiler changes the format, a test of `parity.rs` fails, because the guards are not found.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
};

use serde_json::Value;

use super::cargo::{cargo, scratch, target};

/// The public names of the library, by path without the name of the crate: `election::Leadership`.
#[derive(Debug, Default)]
pub(super) struct Surface {
    pub(super) types: BTreeMap<String, PublicType>,
    pub(super) functions: BTreeMap<String, Call>,
    /// The methods of `Blocking<T>`, by the path of `T`.
    pub(super) blocking: BTreeMap<String, PublicType>,
}

/// A struct or enum with its inherent methods. `Blocking<T>` also has the methods of traits here.
#[derive(Debug, Default)]
pub(super) struct PublicType {
    pub(super) methods: BTreeMap<String, Call>,
    /// The path of the type that this type dereferences to.
    pub(super) deref: Option<String>,
    pub(super) auto_traits: BTreeSet<String>,
    pub(super) has_lifetime: bool,
}

/// The kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The function is async or returns a future.
    Async,
    Sync,
}

impl Surface {
    /// Reads the surface of the library with all features.
    pub(super) fn read() -> Self {
        let json: Value = serde_json::from_str(&rustdoc_json()).expect("rustdoc writes JSON");
        let document = Document { json: &json, public: public_paths(&json) };
        let mut surface = Self::default();
        for (id, path) in &document.public {
            let (kind, inner) = kind(document.item(id));
            match kind {
                "struct" | "enum" => surface.add(&document, path, inner),
                "function" => {
                    surface.functions.insert(path.clone(), call(inner));
                }
                _ => {}
            }
        }
        surface.add_implementations_of_aliases();
        surface
    }

    /// Adds implementations of traits for an alias of `Blocking<T>`, which rustdoc's JSON lacks (1.95). Calls in
    /// `statements.rs` and `two_quorums.rs` check that these implementations exist.
    fn add_implementations_of_aliases(&mut self) {
        let leaders = self.blocking.entry("election::Leaders".to_owned()).or_default();
        leaders.methods.insert("next".to_owned(), Call::Sync);
        let guard = self.blocking.entry("MultiLockGuard".to_owned()).or_default();
        guard.deref = Some("MultiLockGuard".to_owned());
    }

    fn add(&mut self, document: &Document<'_>, path: &str, definition: &Value) {
        let mut public = PublicType { has_lifetime: has_lifetime(definition), ..PublicType::default() };
        for id in array(&definition["impls"]) {
            // An implementation that another crate defines is not in the index.
            let Some(item) = document.get(id) else { continue };
            let (_, implementation) = kind(item);
            if !implementation["blanket_impl"].is_null() {
                continue;
            }
            let argument = path_argument(&implementation["for"]);
            let of_trait = &implementation["trait"]["path"];
            if implementation["is_synthetic"] == true {
                if implementation["is_negative"] == false {
                    public.auto_traits.insert(text(of_trait).to_owned());
                }
            } else if let Some(twin_of) = argument.and_then(|id| document.public.get(&id)) {
                let twin = self.blocking.entry(twin_of.clone()).or_default();
                document.add_methods(twin, implementation);
                document.add_deref(twin, implementation);
            } else if of_trait.is_null() {
                document.add_methods(&mut public, implementation);
            } else {
                document.add_deref(&mut public, implementation);
            }
        }
        self.types.insert(path.to_owned(), public);
    }
}

/// The JSON and the public path of each public item, by id.
struct Document<'a> {
    json: &'a Value,
    public: BTreeMap<u64, String>,
}

impl Document<'_> {
    fn get(&self, id: &Value) -> Option<&Value> {
        self.json["index"].get(id.to_string())
    }

    fn item(&self, id: &u64) -> &Value {
        &self.json["index"][id.to_string()]
    }

    fn add_methods(&self, public: &mut PublicType, implementation: &Value) {
        for id in array(&implementation["items"]) {
            let item = self.get(id).unwrap_or(&Value::Null);
            if let ("function", function) = kind(item) {
                public.methods.insert(text(&item["name"]).to_owned(), call(function));
            }
        }
    }

    fn add_deref(&self, public: &mut PublicType, implementation: &Value) {
        if implementation["trait"]["path"] != "Deref" {
            return;
        }
        for id in array(&implementation["items"]) {
            let ("assoc_type", target) = kind(self.get(id).unwrap_or(&Value::Null)) else { continue };
            let id = target["type"]["resolved_path"]["id"].as_u64();
            public.deref = id.and_then(|id| self.public.get(&id)).cloned();
        }
    }
}

/// Runs rustdoc on the library, and returns the JSON.
///
/// The variable `RUSTC_BOOTSTRAP` permits an unstable option. Only rustdoc gets this variable. Build scripts of
/// dependencies also read the variable, so cargo would compile these dependencies again, now and in the next build.
fn rustdoc_json() -> String {
    let rustdoc = scratch("rustdoc").unwrap().join("rustdoc");
    fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)).unwrap();
    let output = cargo("rustdoc")
        .args(["--package", "redquorum", "--lib", "--all-features"])
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", rustdoc)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(target().join("doc/redquorum.json")).unwrap()
}

/// Returns the public path of each item that a user can name, by id.
fn public_paths(json: &Value) -> BTreeMap<u64, String> {
    let mut paths = BTreeMap::new();
    let mut modules = vec![(json["root"].clone(), String::new())];
    while let Some((module, prefix)) = modules.pop() {
        for id in array(&kind(&json["index"][module.to_string()]).1["items"]) {
            let item = &json["index"][id.to_string()];
            let (kind, inner) = kind(item);
            let (id, name) = match kind {
                "use" => (&inner["id"], text(&inner["name"])),
                _ => (id, text(&item["name"])),
            };
            let target = json["index"].get(id.to_string());
            if inner["is_glob"] == true || target.is_some_and(|item| !item["inner"]["module"].is_null()) {
                let glob = inner["is_glob"] == true;
                modules.push((id.clone(), if glob { prefix.clone() } else { format!("{prefix}{name}::") }));
            } else if let (Some(_), Some(id)) = (target, id.as_u64()) {
                paths.entry(id).or_insert_with(|| format!("{prefix}{name}"));
            }
        }
    }
    paths
}

/// Returns the kind of an item, and the part of its JSON that depends on the kind.
fn kind(item: &Value) -> (&str, &Value) {
    let inner = item["inner"].as_object().and_then(|inner| inner.iter().next());
    inner.map_or(("", &Value::Null), |(kind, inner)| (kind, inner))
}

fn call(function: &Value) -> Call {
    let bounds = array(&function["sig"]["output"]["impl_trait"]);
    let is_future = bounds.iter().any(|bound| bound["trait_bound"]["trait"]["path"] == "Future");
    if function["header"]["is_async"] == true || is_future { Call::Async } else { Call::Sync }
}

/// Returns the id of `T` in a type `Blocking<T>`, or `None` for any other type.
fn path_argument(of: &Value) -> Option<u64> {
    let path = &of["resolved_path"];
    let is_wrapper = text(&path["path"]).rsplit("::").next() == Some("Blocking");
    let argument = &path["args"]["angle_bracketed"]["args"][0]["type"]["resolved_path"]["id"];
    argument.as_u64().filter(|_| is_wrapper)
}

fn has_lifetime(definition: &Value) -> bool {
    array(&definition["generics"]["params"]).iter().any(|param| !param["kind"]["lifetime"].is_null())
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
