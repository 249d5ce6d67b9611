//! The wire format of operations: the arguments of the script, and its replies.
//!
//! The format does not depend on the crate `redis`. `node/redis` implements [`ArgumentSink`] for the commands of that
//! crate, and converts the values of that crate to [`Value`].

use std::{fmt, time::Duration};

use crate::{
    node::{operation::Resources, parameters::Incarnation, ttl::whole_milliseconds},
    values::{Fingerprint, LeaseId, Resource},
};

/// A command that takes arguments one by one.
pub(crate) trait ArgumentSink {
    fn push_bytes(&mut self, bytes: &[u8]);

    fn push_number(&mut self, number: u64);

    /// Appends one argument, formatted in place.
    fn push_text(&mut self, text: fmt::Arguments<'_>);
}

/// The arguments of one operation, as they are added to a call of the script.
pub(crate) struct Arguments<'a>(&'a mut dyn ArgumentSink);

impl<'a> Arguments<'a> {
    pub(crate) fn new(command: &'a mut dyn ArgumentSink) -> Self {
        Self(command)
    }

    /// Writes the name of an operation, and the number of its resources.
    pub(super) fn name(&mut self, name: &str, resources: usize) -> &mut Self {
        self.bytes(name.as_bytes()).index(resources)
    }

    /// Writes the name of an operation, and the number of its resources. If any resource is shared, two arguments
    /// precede the name: the word `shared`, and a text with `1` for each shared and `0` for each exclusive resource.
    pub(super) fn name_for(&mut self, name: &str, resources: &Resources) -> &mut Self {
        if resources.is_any_shared() {
            let shared: String =
                resources.each().map(|(_, is_shared)| if is_shared { '1' } else { '0' }).collect();
            self.bytes(b"shared").bytes(shared.as_bytes());
        }
        self.name(name, resources.len())
    }

    /// Writes the name of an operation that always has one resource, without the number of resources.
    pub(super) fn short_name(&mut self, name: &str) -> &mut Self {
        self.bytes(name.as_bytes())
    }

    pub(super) fn lease_id(&mut self, lease_id: &LeaseId) -> &mut Self {
        self.bytes(lease_id.as_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.push_bytes(bytes);
        self
    }

    pub(super) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        self.0.push_number(number.into());
        self
    }

    /// Writes the index of a resource, or a number of resources.
    pub(super) fn index(&mut self, index: usize) -> &mut Self {
        self.joined(format_args!("{index}"))
    }

    /// Writes a ttl in whole milliseconds.
    pub(crate) fn ttl(&mut self, ttl: Duration) -> &mut Self {
        self.number(whole_milliseconds(ttl))
    }

    /// Writes a time of day, in milliseconds since the epoch.
    pub(super) fn time(&mut self, time: Duration) -> &mut Self {
        self.joined(format_args!("{}", time.as_millis()))
    }

    /// Writes a formatted text as one argument. The text may join several values.
    pub(crate) fn joined(&mut self, values: fmt::Arguments<'_>) -> &mut Self {
        self.0.push_text(values);
        self
    }
}

/// A value that the script returns.
#[derive(PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Integer(i64),
    Bytes(Vec<u8>),
    Array(Vec<Self>),
    /// A value that the script never returns, as text.
    Unexpected(String),
}

impl fmt::Debug for Value {
    /// Shows bytes as text, because tags and lease ids of the script are texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Array(values) => f.debug_list().entries(values).finish(),
            Self::Unexpected(shown) => f.write_str(shown),
        }
    }
}

/// The script's reply to one operation.
#[derive(Clone, Copy)]
pub(crate) enum ScriptReply<'a> {
    /// A bare number, the form of the most frequent answers. A table around the number would cost the server more
    /// than the number itself.
    Number(u64),
    /// A table: the tag that names the kind of answer, and the fields of the answer.
    Tagged(&'a [u8], &'a [Value]),
}

impl<'a> ScriptReply<'a> {
    pub(crate) fn read(value: &'a Value) -> Option<Self> {
        match value {
            Value::Integer(number) => u64::try_from(*number).ok().map(Self::Number),
            Value::Array(parts) => {
                let (tag, fields) = parts.split_first()?;
                Some(Self::Tagged(bytes(tag)?, fields))
            }
            Value::Nil | Value::Bytes(_) | Value::Unexpected(_) => None,
        }
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
}

/// Reads a text; bytes that are not UTF-8 are replaced.
pub(crate) fn text(value: &Value) -> Option<String> {
    bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        value => str::from_utf8(bytes(value)?).ok()?.parse().ok(),
    }
}

pub(super) fn milliseconds(value: &Value) -> Option<Duration> {
    number(value).map(Duration::from_millis)
}

/// Reads a lease id; `Some(None)` if the script names no lease.
pub(super) fn lease_id(value: &Value) -> Option<Option<LeaseId>> {
    match value {
        Value::Nil => Some(None),
        value => bytes(value).map(|lease_id| Some(LeaseId::from_wire(lease_id))),
    }
}

/// Reads the index of one of the operation's resources.
pub(super) fn index(resources: &[Resource], value: &Value) -> Option<usize> {
    usize::try_from(number(value)?).ok().filter(|index| *index < resources.len())
}

pub(crate) fn fingerprint(value: &Value) -> Option<Fingerprint> {
    text(value).map(|text| Fingerprint::new(&text))
}

/// Reads the server's incarnation; `None` if the user may not read it.
pub(super) fn incarnation(value: &Value) -> Option<Incarnation> {
    text(value).map(Into::into)
}
