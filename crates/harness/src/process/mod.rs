//! One agent or script and all that comes of it: started, fed, listened to and ended as a whole.
//!
//! What the process is (Claude, a script, a test) is none of its business, and neither is what its
//! output means: an adapter of the agent port reads that.
//!
//! | who | owns |
//! |---|---|
//! | [`Job`] | the harness's end: output, standard input, timers, the one end |
//! | [`guard`] | the process between the harness and the agent, which ends the tree of the agent |
//! | `script` | the same for a check or another command line, for a thread that may block |
//! | `ancestry` | which role a process has for a root, by its ancestors and its environment |
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
mod redact;
pub(crate) mod script;
mod spawner;
mod table;
mod transcript;

pub use environment::Allowed;
pub use job::{
    Finished, Job, JobEvent, JobExit, JobStartError, JobState, JobWarning, Limits, Spec, Stdin,
};
pub use lines::{Line, Lines};
pub use pipes::{Chunk, OutputSource};
pub use redact::Redactor;
pub(crate) use redact::is_secret;
#[doc(hidden)]
pub use redact::{Stream as RedactedStream, name_secrets};
#[doc(hidden)]
pub use transcript::{Transcript, Written};

/// Unique to one job and inherited by all that it starts, so that what is left of it can be told
/// from every other process. `HARNESS_RUN_ID` would not do: a run that is resumed keeps its id, and
/// what a dead harness left must not be confused with what its successor has just started. It begins
/// with the hash of the state root that the job was started for.
#[doc(hidden)]
pub const JOB_VARIABLE: &str = "HARNESS_JOB";
/// Names the run that a job belongs to, the same for all of its jobs.
#[doc(hidden)]
pub const RUN_VARIABLE: &str = harness_core::variables::RUN;
/// In the environment of a job: the state root that it is started for.
#[doc(hidden)]
pub const ROOT_VARIABLE: &str = harness_core::variables::ROOT;
