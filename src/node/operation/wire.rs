//! How operations travel: as arguments of the script, and what it says to them.

use std::{fmt, time::Duration};

use redis::{Cmd, RedisWrite, ToRedisArgs, Value};

use crate::{
    node::{operation::Resources, parameters::Incarnation, ttl::whole_milliseconds},
    values::{Fingerprint, LeaseId, Resource},
};

/// The arguments of one operation, as they are added to a call of the script.
pub(crate) struct Arguments<'a>(&'a mut Cmd);

impl<'a> Arguments<'a> {
    pub(crate) fn new(command: &'a mut Cmd) -> Self {
        Self(command)
    }

    /// The name of an operation that says how many resources it names.
    pub(super) fn name(&mut self, name: &str, resources: usize) -> &mut Self {
        self.0.arg(name).arg(resources);
        self
    }

    /// The same of an operation to which it matters which of its resources are shared. Where none is,
    /// there is no more to say.
    pub(super) fn name_for(&mut self, name: &str, resources: &Resources) -> &mut Self {
        if resources.is_any_shared() {
            let shared: String = resources.each().map(|(_, is)| if is { '1' } else { '0' }).collect();
            self.0.arg("shared").arg(shared);
        }
        self.name(name, resources.len())
    }

    /// A name that stands for an operation of one resource.
    pub(super) fn short_name(&mut self, name: &str) -> &mut Self {
        self.0.arg(name);
        self
    }

    pub(super) fn owner(&mut self, owner: &LeaseId) -> &mut Self {
        self.bytes(owner.as_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.arg(bytes);
        self
    }

    pub(super) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        self.0.arg(number.into());
        self
    }

    /// One of the resources that the operation names.
    pub(super) fn index(&mut self, index: usize) -> &mut Self {
        self.0.arg(index);
        self
    }

    /// A ttl in whole milliseconds.
    pub(crate) fn ttl(&mut self, ttl: Duration) -> &mut Self {
        self.number(whole_milliseconds(ttl))
    }

    /// A time of day, in milliseconds since the epoch.
    pub(super) fn time(&mut self, time: Duration) -> &mut Self {
        self.joined(format_args!("{}", time.as_millis()))
    }

    /// Several values as one argument.
    pub(crate) fn joined(&mut self, values: fmt::Arguments<'_>) -> &mut Self {
        self.0.arg(Joined(values));
        self
    }
}

struct Joined<'a>(fmt::Arguments<'a>);

impl ToRedisArgs for Joined<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self.0);
    }
}

/// What the script says to one operation.
#[derive(Clone, Copy)]
pub(crate) enum Said<'a> {
    /// The answers that are given most are bare numbers: a table costs the server more than the
    /// number in it.
    Number(u64),
    Tagged(&'a [u8], &'a [Value]),
}

impl<'a> Said<'a> {
    pub(crate) fn read(value: &'a Value) -> Option<Self> {
        match value {
            Value::Int(number) => u64::try_from(*number).ok().map(Self::Number),
            Value::Array(parts) => {
                let (tag, fields) = parts.split_first()?;
                Some(Self::Tagged(bytes(tag)?, fields))
            }
            _ => None,
        }
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// A text, whatever bytes it is of.
pub(crate) fn text(value: &Value) -> Option<String> {
    bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => str::from_utf8(bytes(value)?).ok()?.parse().ok(),
    }
}

pub(super) fn milliseconds(value: &Value) -> Option<Duration> {
    number(value).map(Duration::from_millis)
}

/// An owner, or nobody.
pub(super) fn owner(value: &Value) -> Option<Option<LeaseId>> {
    match value {
        Value::Nil => Some(None),
        value => bytes(value).map(|owner| Some(LeaseId::from_wire(owner))),
    }
}

/// One of the resources of an operation.
pub(super) fn index(resources: &[Resource], value: &Value) -> Option<usize> {
    usize::try_from(number(value)?).ok().filter(|index| *index < resources.len())
}

pub(crate) fn fingerprint(value: &Value) -> Option<Fingerprint> {
    text(value).map(|text| Fingerprint::new(&text))
}

/// The server's incarnation, unless the user may not know it.
pub(super) fn incarnation(value: &Value) -> Option<Incarnation> {
    text(value).map(Into::into)
}
