//! The arguments and values of operations as arguments and values of the `redis` crate.

use std::fmt;

use redis::{Cmd, RedisWrite, ToRedisArgs};

use super::script::beginning;
use crate::node::operation::{ArgumentSink, Value};

impl ArgumentSink for Cmd {
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.arg(bytes);
    }

    fn push_number(&mut self, number: u64) {
        self.arg(number);
    }

    fn push_text(&mut self, text: fmt::Arguments<'_>) {
        self.arg(Text(text));
    }
}

/// A text that becomes one argument when it is formatted into a command.
struct Text<'a>(fmt::Arguments<'a>);

impl ToRedisArgs for Text<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self.0);
    }
}

impl From<redis::Value> for Value {
    /// Converts a value. Texts are not copied.
    fn from(value: redis::Value) -> Self {
        match value {
            redis::Value::Nil => Self::Nil,
            redis::Value::Int(number) => Self::Integer(number),
            redis::Value::BulkString(bytes) => Self::Bytes(bytes),
            redis::Value::SimpleString(text) => Self::Bytes(text.into_bytes()),
            redis::Value::Array(values) => Self::Array(values.into_iter().map(Into::into).collect()),
            other => Self::Unexpected(beginning(&other)),
        }
    }
}
