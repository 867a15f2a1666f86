//! The lock of a state root.
