//! The macro that forwards the calls of blocking types to the async API. The file `calls.rs` uses the macro.

/// Implements calls of `Blocking<T>` by the calls of `T` with the same names and arguments. With `as`, the
/// documentation links to the calls of another type, to which `T` derefs. The first word of each line is the kind of
/// the call:
///
/// | kind | async method | blocking method |
/// |---|---|---|
/// | `set` | `fn(self, ..) -> Self` | the same |
/// | `make` | `fn(&self, ..) -> T` | wraps `T` |
/// | `wait` | `async fn(&self, ..) -> T` | blocks |
/// | `call` | `async fn(&self, ..) -> Result<T, Error>` | blocks |
/// | `guard` | `async fn(&self, ..) -> Result<T, Error>` | blocks, wraps `T` |
/// | `maybe` | `async fn(&self, ..) -> Result<Option<T>, Error>` | blocks, wraps `T` |
/// | `end` | `async fn(self, ..) -> Result<T, Error>` | blocks |
/// | `convert` | `async fn(self, ..) -> Result<T, Error>` | blocks, wraps `T` |
macro_rules! forward {
    ($type:ty { $($calls:tt)* }) => { forward!($type as $type { $($calls)* }); };
    ($type:ty as $doc:ty { $($calls:tt)* }) => {
        impl Blocking<$type> {
            forward!(@ $doc; $($calls)*);
        }
    };
    (@ $doc:ty;) => {};
    (@ $doc:ty; set $name:ident($($arg:ident: $of:ty),*); $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`].")]
        #[must_use]
        pub fn $name(self $(, $arg: $of)*) -> Self {
            Self { inner: self.inner.$name($($arg),*), runtime: self.runtime }
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; make $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`].")]
        #[must_use]
        pub fn $name(&self $(, $arg: $of)*) -> Blocking<$out> {
            self.runtime.wrap(self.inner.$name($($arg),*))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; wait $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        pub fn $name(&self $(, $arg: $of)*) -> $out {
            self.runtime.wait(self.inner.$name($($arg),*))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; call $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        #[doc = "\n# Errors\n\nThe errors of that call."]
        pub fn $name(&self $(, $arg: $of)*) -> Result<$out, Error> {
            self.runtime.wait(self.inner.$name($($arg),*))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; guard $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        #[doc = "\n# Errors\n\nThe errors of that call."]
        pub fn $name(&self $(, $arg: $of)*) -> Result<Blocking<$out>, Error> {
            self.runtime.wait(self.inner.$name($($arg),*)).map(|guard| self.runtime.wrap(guard))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; maybe $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        #[doc = "\n# Errors\n\nThe errors of that call."]
        pub fn $name(&self $(, $arg: $of)*) -> Result<Option<Blocking<$out>>, Error> {
            let guard = self.runtime.wait(self.inner.$name($($arg),*))?;
            Ok(guard.map(|guard| self.runtime.wrap(guard)))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; end $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        #[doc = "\n# Errors\n\nThe errors of that call."]
        pub fn $name(self $(, $arg: $of)*) -> Result<$out, Error> {
            self.runtime.wait(self.inner.$name($($arg),*))
        }
        forward!(@ $doc; $($rest)*);
    };
    (@ $doc:ty; convert $name:ident($($arg:ident: $of:ty),*) -> $out:ty; $($rest:tt)*) => {
        #[doc = concat!("Calls [`", stringify!($doc), "::", stringify!($name), "`], and blocks until the result.")]
        #[doc = "\n# Errors\n\nThe errors of that call."]
        pub fn $name(self $(, $arg: $of)*) -> Result<Blocking<$out>, Error> {
            let Self { inner, runtime } = self;
            runtime.wait(inner.$name($($arg),*)).map(|guard| runtime.wrap(guard))
        }
        forward!(@ $doc; $($rest)*);
    };
}

pub(super) use forward;
