//! Seeded simulator and conformance suites.
