//! One event of a history: the beginning or the end of an operation, as a line of EDN in the form of Jepsen.

use std::fmt;

use anyhow::{Context, bail};
use clojure_reader::edn::{Edn, read_string};

use crate::clock::Nanoseconds;

/// The object that an operation works on. Each object has a history of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// The valid leases: a mutex, a read/write lock, a semaphore, or a mutex with tickets.
    Leases,
    /// The fencing tokens of the leases: a counter.
    Tokens,
    /// The elements in the store: an append-only list for each slot.
    Lists,
}

impl Object {
    pub(crate) const ALL: [Self; 3] = [Self::Leases, Self::Tokens, Self::Lists];

    /// Returns the name of the object, which is also the name of the file with its history.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Tokens => "tokens",
            Self::Lists => "lists",
        }
    }
}

/// The stage of an operation that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The beginning of the operation.
    Invoke,
    /// The end of an operation that has happened.
    Ok,
    /// The end of an operation that has not happened and will not happen.
    Fail,
    /// The end of an operation that may have happened, or may happen later.
    Info,
    /// A time until which the lease with this number is valid without a further renewal. Only workers write this stage,
    /// and Jepsen does not have it.
    Until,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Invoke, Self::Ok, Self::Fail, Self::Info, Self::Until];

    fn name(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
            Self::Until => "until",
        }
    }
}

/// The value of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Number(i64),
    Keyword(String),
    Vector(Vec<Self>),
}

impl Value {
    pub(crate) fn pair(first: impl Into<Self>, second: impl Into<Self>) -> Self {
        Self::Vector(vec![first.into(), second.into()])
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn vector(&self) -> &[Self] {
        match self {
            Self::Vector(values) => values,
            _ => &[],
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Nil, Self::Number)
    }
}

impl From<&[i64]> for Value {
    fn from(numbers: &[i64]) -> Self {
        Self::Vector(numbers.iter().copied().map(Self::Number).collect())
    }
}

/// The beginning or the end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) object: Object,
    /// The process. A process has at most one operation at a time on one object.
    pub(crate) process: i64,
    pub(crate) stage: Stage,
    /// The name of the operation, without the colon of the keyword.
    pub(crate) function: String,
    pub(crate) value: Value,
    pub(crate) time: Nanoseconds,
}

impl Event {
    /// Reads an event from a line of EDN. Further fields are ignored.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let edn = read_string(line).map_err(|error| anyhow::anyhow!("no EDN: {error}: {line}"))?;
        Self::from_edn(&edn).with_context(|| format!("no event of a history: {line}"))
    }

    fn from_edn(edn: &Edn<'_>) -> anyhow::Result<Self> {
        let field = |name: &'static str| edn.get(&Edn::key(name)).with_context(|| format!("no :{name}"));
        let number = |name| to_value(field(name)?)?.number().with_context(|| format!(":{name} is no number"));
        let (object, stage) = (keyword(field("object")?)?, keyword(field("type")?)?);
        Ok(Self {
            object: Object::ALL.into_iter().find(|o| o.name() == object).context("an unknown object")?,
            process: number("process")?,
            stage: Stage::ALL.into_iter().find(|s| s.name() == stage).context("an unknown type")?,
            function: keyword(field("f")?)?.to_owned(),
            value: to_value(field("value")?)?,
            time: number("time")?,
        })
    }

    /// Returns the event as Jepsen writes it, with its position in the history.
    pub(crate) fn with_index(&self, index: usize) -> String {
        format!("{{:index {index}, {}", &self.to_string()[1..])
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, process, stage, function, value, time } = self;
        let (object, stage) = (object.name(), stage.name());
        write!(f, "{{:process {process}, :type :{stage}, :f :{function}, :value {value}, ")?;
        write!(f, ":time {time}, :object :{object}}}")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Keyword(name) => write!(f, ":{name}"),
            Self::Vector(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let gap = if index == 0 { "" } else { " " };
                    write!(f, "{gap}{value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

fn to_value(edn: &Edn<'_>) -> anyhow::Result<Value> {
    Ok(match edn {
        Edn::Nil => Value::Nil,
        Edn::Int(number) => Value::Number(*number),
        Edn::Key(name) => Value::Keyword(name.as_ref().to_owned()),
        Edn::Vector(values) => Value::Vector(values.iter().map(to_value).collect::<Result<_, _>>()?),
        other => bail!("no value of a history: {other}"),
    })
}

fn keyword<'e>(edn: &'e Edn<'_>) -> anyhow::Result<&'e str> {
    match edn {
        Edn::Key(name) => Ok(name),
        other => bail!("no keyword: {other}"),
    }
}
