//! Supervises coding agents until the work is verifiably done.
//!
//! This is the library behind the `harness` program. With it a Rust program can
//!
//! - put agents to work in a **flow**: Claude Code, Codex, any agent of the Agent Client Protocol, any
//!   other program, or an agent of its own;
//! - work on the tasks of a **ledger**, through the daemon that serves it or by its files;
//! - build on the same parts as `harness run`: checks, commits and rollbacks in git, guarded processes,
//!   a record that survives a crash.
//!
//! # A flow
//!
//! A flow is an async function. It has a state, agents with input and output types of their own, and a
//! [`Hub`] on which its events appear.
//!
//! ```
//! use harness::{Agent, Cx, Execution, Harness, Named, Result, named};
//!
//! struct Shout;
//!
//! impl Agent for Shout {
//!     type Input = String;
//!     type Output = String;
//!
//!     async fn execute(&self, text: String, _: &mut Execution) -> Result<String> {
//!         Ok(text.to_uppercase())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let flow = Harness::define("greeting")
//!     .agents(named("shout", Shout))
//!     .state(|name: &String| format!("hello, {name}"))
//!     .run(async |cx: &mut Cx<'_, String, Named<Shout>>| {
//!         let text = cx.state.clone();
//!         cx.phase("Greeting", async |cx| cx.execute(|shout| shout, text).await).await
//!     });
//! assert_eq!(flow.create("world".to_owned()).run().await?.result, "HELLO, WORLD");
//! # Ok(())
//! # }
//! ```
//!
//! With real agents, `Shout` is a [`ClaudeAgent`](agent::ClaudeAgent) or a
//! [`CodexAgent`](agent::CodexAgent), and its input is a [`Prompt`](agent::Prompt). Call
//! [`guard::init`] first in `main`, so that no agent survives your program. These programs are in
//! `examples/`:
//!
//! | example | shows |
//! |---|---|
//! | `hello` | the smallest flow |
//! | `plan_and_code` | two agents, two phases, and a state that only the flow changes |
//! | `parallel_review` | branches that run side by side |
//! | `human_in_the_loop` | a question that a person answers |
//! | `custom_agent` | an agent that receives messages while it works |
//! | `real_agents` | Claude Code plans, Codex codes, and a check decides when it is done |
//! | `ledger` | a task that is added, claimed, checked and completed |
//! | `run` | `harness run` over a ledger: a row, a budget and a resume, with an agent of your own |
//! | `claim` | a worker that claims tasks through a [`Client`] |
//!
//! # Where to look
//!
//! | to | use |
//! |---|---|
//! | define and run a flow | [`Harness::define`], [`Definition::create`], [`Instance`], [`HarnessResult`], [`HarnessFailure`] |
//! | structure it | [`Cx::phase`], [`Cx::task`], [`Branch::execute`], [`Branch::retry`], [`Branch::parallel`], [`Cx::fork`], [`Error`] |
//! | write an agent | [`Agent`], [`Execution`], [`boxed`] for agents of different types in one team, [`process`] for a program of yours |
//! | watch a run | [`Hub::subscribe`], [`Hub::events`], [`Event`], [`Instance::attach`], [`Channel`], [`terminal`], [`progress_log`], [`recorder()`] |
//! | talk with people | [`Session::wait_for_user`], [`Ask`], [`Hub::send`], [`Hub::reply`], [`Hub::abort`] |
//! | work on tasks from another program | [`Client`], [`protocol`] |
//! | show how a project stands | [`view`], [`Project::snapshot`] |
//! | reach people who are away | [`notify`] |
//! | trace a run | [`trace`] |
//! | own a ledger | [`FileStore`](store::FileStore), [`Writer`](store::Writer), [`core::Command`] |
//! | run `harness run` or a daemon in your own program | [`Project`], [`Engine`], [`ActiveRun`](project::ActiveRun), [`RunOptions`](project::RunOptions), [`Observer`], [`flows`] |
//!
//! # Ports
//!
//! The library reaches the outside world through six traits, so that a test or a simulator can stand
//! in for each:
//!
//! | port | what it is for | the real one |
//! |---|---|---|
//! | [`Agent`] | work that a model does | [`CodingAgent`](agent::CodingAgent), or yours |
//! | [`Store`](store::Store) | the ledger: tasks, claims and their results | [`FileStore`](store::FileStore), owned by a [`Writer`](store::Writer); for several machines [`PostgresStore`](store::postgres::PostgresStore) |
//! | [`Runs`](store::Runs) | the record of runs and their iterations | [`RunStore`](store::RunStore), with the feature `sqlite` |
//! | [`Workspace`](workspace::Workspace) | git: commit, roll back, rescue | [`GitWorkspace`](workspace::GitWorkspace) |
//! | [`Shell`](shell::Shell) | checks, init scripts, cleanups | [`SystemShell`](shell::SystemShell) |
//! | [`Clock`](clock::Clock) | the time, for decisions | [`SystemClock`](clock::SystemClock) |
//!
//! `Store`, `Runs`, `Workspace` and `Shell` block; async code calls them on a thread of their own.
//!
//! # Decisions and `drive`
//!
//! Work that has to survive a crash follows one law: commit, then act, then report. A
//! [`Machine`](core::machine::Machine) decides what to do next. It is pure: it takes an
//! [`Input`](core::machine::Input) and returns a [`Next`](core::machine::Next), which is a [`Command`]
//! to commit, an effect to start, or the outcome. [`Branch::drive`] is the loop around it: it commits
//! through [`Ports::commit`], performs one effect at a time and hands the result to the machine. A
//! machine is never stored. After a crash a new one is made from what was committed. All decisions are
//! in [`harness_core`], which this crate re-exports as [`core`].
//!
//! # Features
//!
//! `http` is on by default and adds HTTP to [`notify`]. Without it neither an HTTP client nor TLS is
//! compiled.
//!
//! `postgres` is on by default and adds [`store::postgres`], a ledger that several machines share.
//! Without it no client of PostgreSQL is compiled.
//!
//! `sqlite` is on by default and adds [`RunStore`](store::RunStore), the record of runs on disk. Without
//! it SQLite is not compiled, and [`MemoryRuns`](store::MemoryRuns) is what remains.
//!
//! # Stability
//!
//! The crate follows semantic versioning, and before 1.0 a minor version may break code that uses it.
//! The files and the wire format are more stable than the Rust API: a newer version reads what an older
//! one wrote, and unknown fields survive a write.
//!
//! Errors, events and types such as [`Prompt`](agent::Prompt) are `#[non_exhaustive]`; a patch version
//! may extend them. The enums of [`core`] are closed on purpose, so that a `match` on a
//! [`Command`] or a [`Fact`](core::Fact) covers every case; they grow in minor versions only. Items that
//! are hidden from this documentation are internals of the program and may change at any time.
//!
//! The library prints nothing unless you ask for it, and reads no `HARNESS_*` variable. It supports
//! Linux; macOS should work and is not tested.
//!
//! [`Command`]: core::Command

#![warn(missing_docs)]

pub mod agent;
#[doc(hidden)]
pub mod attachments;
#[doc(hidden)]
pub mod blocking;
mod channel;
pub mod check;
pub mod client;
pub mod clock;
pub mod conversation;
mod cx;
mod define;
mod drive;
mod error;
pub mod event;
pub mod flows;
#[doc(hidden)]
pub mod handoff;
mod hold;
#[doc(hidden)]
pub mod home;
#[doc(hidden)]
pub mod host;
#[cfg(feature = "http")]
#[doc(hidden)]
pub mod http;
pub mod hub;
pub mod notify;
pub mod process;
pub mod project;
#[doc(hidden)]
pub mod prompts;
pub mod protocol;
mod queue;
mod recorder;
mod repeat;
#[doc(hidden)]
pub mod research;
pub mod shell;
pub mod store;
#[doc(hidden)]
pub mod telemetry;
pub mod trace;
#[doc(hidden)]
pub mod trajectory;
pub mod view;
pub mod workspace;

// Define a flow and run it.
pub use define::{Define, Definition, Harness, HarnessFailure, HarnessResult, Instance, WithState};
// The context of a flow.
pub use cx::{Branch, Cx, PhaseName};
pub use error::{Error, Result};
pub use repeat::{PARALLEL, RetryPolicy};
// Access to tasks for other programs.
pub use client::{Client, ClientError, ClientOptions};
// The agents of a flow.
pub use agent::{Agent, BoxAgent, Execution, Named, boxed, named};
// Its events, and their receivers.
pub use attachments::{progress_log, terminal};
pub use channel::Channel;
pub use define::{Cleanup, IntoCleanup, cleanup};
pub use event::{Context, Envelope, Event, Scope};
pub use hub::{Hub, HubStatus};
pub use recorder::{Recorder, recorder};
// Questions to people.
pub use conversation::{Ask, Session};
pub use hub::UserReply;
// Decisions, and the loop that performs them.
pub use agent::Told;
pub use drive::Ports;
pub use harness_core as core;
#[doc(hidden)]
pub use hold::Hold;
#[doc(no_inline)]
pub use store::{Commit, Committing, Flushed};
// A root, a process at work in it, and its observers.
pub use project::{Engine, Project};
#[doc(no_inline)]
pub use store::{Observer, Observers, Transaction};
// The processes that a flow starts end with it.
pub use process::guard;

// The flows use this crate by its public name, as a user would.
extern crate self as harness;
