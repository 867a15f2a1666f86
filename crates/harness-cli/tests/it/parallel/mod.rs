//! Several workers on one ledger: `run --workers N` and `work`.

mod crash;
mod gc;
mod landing;
mod lease;
mod mode;
mod pull_request;
mod remote;
mod revert;
mod stage;
mod talk;
