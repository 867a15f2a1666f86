//! Seeded simulator and conformance suites.

pub mod conformance;
pub mod git;
