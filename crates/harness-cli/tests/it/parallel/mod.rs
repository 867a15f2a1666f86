//! Several workers on one ledger: `run --workers N` and `work`.

mod crash;
mod gates;
mod gc;
mod host;
mod landing;
mod lease;
mod limits;
mod mode;
mod pull_request;
mod remote;
mod revert;
mod stage;
mod states;
mod talk;
