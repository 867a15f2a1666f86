//! Who serves a state root to other processes, and how they talk.

pub mod wire;
