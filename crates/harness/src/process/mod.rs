//! One agent or script and all processes that it starts. They are started, fed, read and ended as a
//! whole.
//!
//! This module knows neither what the process is (Claude, a script, a test) nor what its output
//! means. An adapter of the agent port reads the output.
//!
//! | part | owns |
//! |---|---|
//! | [`Job`] | the end of harness: output, standard input, timers, the single end |
//! | [`guard`] | the process between harness and the agent, which ends the tree of the agent |
//! | `script` | the same for a check or another command line, for a thread that may block |
//! | `ancestry` | the role of a process in a root, by its ancestors and its environment |
//! | `program` | the place of a program in `PATH` |
//! | `leftovers` | what even a killed guard leaves, found by a variable in its environment |
//! | [`Lines`], `Transcript`, [`Redactor`], [`Allowed`] | what goes in and out |

#[doc(hidden)]
pub mod ancestry;
mod environment;
pub(crate) mod group;
pub mod guard;
mod job;
#[doc(hidden)]
pub mod leftovers;
pub(crate) mod life;
mod lines;
mod pipes;
pub(crate) mod program;
mod redact;
pub(crate) mod script;
mod spawner;
mod table;
mod transcript;

pub(crate) use environment::is_withheld;
pub use environment::{Allowed, withhold};
pub use job::{
    Finished, Job, JobEvent, JobExit, JobStartError, JobState, JobWarning, Limits, Spec, Stdin,
};
pub use lines::{Line, Lines};
pub use pipes::{Chunk, OutputSource};
pub use redact::Redactor;
pub(crate) use redact::is_secret;
#[doc(hidden)]
pub use redact::{Stream as RedactedStream, name_secrets};
pub(crate) use spawner::is_guard_reachable;
#[doc(hidden)]
pub use transcript::{Transcript, Written};

/// The variable that is unique to one job and inherited by all its processes, so that leftovers can
/// be distinguished from every other process. `HARNESS_RUN_ID` is not enough: a resumed run keeps
/// its id, and leftovers of a dead harness must not be confused with processes of its successor.
/// The value begins with the hash of the state root of the job.
#[doc(hidden)]
pub const JOB_VARIABLE: &str = "HARNESS_JOB";
/// The variable that names the run of a job. It is the same for all jobs of a run.
#[doc(hidden)]
pub const RUN_VARIABLE: &str = harness_core::variables::RUN;
/// The variable that names the state root of a job.
#[doc(hidden)]
pub const ROOT_VARIABLE: &str = harness_core::variables::ROOT;
