//! The event sequences that the library promises, scenario by scenario: each envelope's context and
//! event are compared as JSON, exactly.

mod agent;
mod harness_;
mod hub;
mod seen;
