//! The third world: a daemon and its clients. The daemon is the engine and the dispatch of requests
//! that `harness daemon` uses, over simulated ports. Clients send requests of the wire to it. They
//! repeat requests whose answers were lost, insist on claims that they lost, and vanish while their
//! check runs. The daemon is killed at any write and started again on what is on the disk.

mod annals;
mod client;
mod fault;
mod floor;
mod life;
mod workshop;
mod world;

pub use fault::DaemonFault;
pub use world::DaemonWorld;
