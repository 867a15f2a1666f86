//! One span: a piece of work with a beginning and an end.

use harness_core::trace::{SpanId, TraceId};

/// A piece of work that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Its own name.
    pub id: SpanId,
    /// The work that it is a part of.
    pub parent: Option<SpanId>,
    /// What it is, of a small set of words.
    pub name: String,
    /// Its relation to other programs.
    pub kind: SpanKind,
    /// The beginning, in milliseconds since 1970.
    pub start_ms: i64,
    /// The end, in milliseconds since 1970.
    pub end_ms: i64,
    /// Names and values, in order.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The kind of its failure, if it failed.
    pub error: Option<String>,
}

/// The relation of a span to other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of this program.
    Internal,
    /// Work that another program does for this one.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A yes or no.
    Bool(bool),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
