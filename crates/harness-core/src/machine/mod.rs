//! The machines: each says what to do next, from what is known. None of them does it.

pub mod recovery;
