//! Traces and metrics of a run: spans from its events, and their form for other programs.
//!
//! A [`Timeline`] turns events into spans, whether they come from a running hub or from the record of
//! a past run. [`otlp`] and [`chrome`] write them. They hold names, numbers and outcomes, and never a
//! prompt, an answer, a path or the output of a program.

pub mod chrome;
mod execution;
#[cfg(feature = "http")]
mod exporter;
mod meter;
pub mod otlp;
mod seen;
mod semconv;
mod span;
mod timeline;

#[cfg(feature = "http")]
pub use exporter::{OtlpExporter, OtlpTerms};
pub use meter::Meter;
pub use semconv::CONVENTIONS;
pub use span::{Attribute, Span, SpanKind};
pub use timeline::Timeline;

#[cfg(test)]
mod tests;
