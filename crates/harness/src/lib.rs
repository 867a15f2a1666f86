//! Keeps coding agents working until the work is verifiably done.
//!
//! A **flow** is an async function that puts agents to work. It has a state of its own, agents with
//! their own input and output types, and a [`Hub`] on which it tells what it does. The library gives
//! it names for its parts (phases, tasks), a conversation with people, retries, branches that run
//! side by side, and a stop that leaves no agent behind. The binary's `harness run` is such a flow,
//! written with what is public here.
//!
//! # A flow
//!
//! ```
//! use harness::{Agent, Cx, Execution, Harness, Named, Result, named, terminal};
//!
//! // An agent turns an input into an output. A real one starts a program and waits for it.
//! struct Planner;
//!
//! impl Agent for Planner {
//!     type Input = String;
//!     type Output = Vec<String>;
//!
//!     async fn execute(&self, wish: String, _: &mut Execution) -> Result<Vec<String>> {
//!         Ok(vec![format!("{wish}: code"), format!("{wish}: tests")])
//!     }
//! }
//!
//! struct Coder;
//!
//! impl Agent for Coder {
//!     type Input = String;
//!     type Output = usize;
//!
//!     async fn execute(&self, step: String, _: &mut Execution) -> Result<usize> {
//!         Ok(step.len())
//!     }
//! }
//!
//! // The agents of a flow are a struct of yours, so that each keeps its types.
//! struct Team {
//!     planner: Named<Planner>,
//!     coder: Named<Coder>,
//! }
//!
//! // And so is its state, which nobody but the flow can change.
//! struct Notes {
//!     wish: String,
//!     bytes_written: usize,
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     let flow = Harness::define("plan-and-code")
//!         .agents(Team { planner: named("planner", Planner), coder: named("coder", Coder) })
//!         .state(|wish: &String| Notes { wish: wish.clone(), bytes_written: 0 })
//!         .run(async |cx: &mut Cx<'_, Notes, Team>| {
//!             let wish = cx.state.wish.clone();
//!             let plan = cx
//!                 .phase("Planning", async |cx| cx.execute(|team| &team.planner, wish).await)
//!                 .await?;
//!             cx.phase("Building", async |cx| {
//!                 for step in plan {
//!                     let name = step.clone();
//!                     cx.state.bytes_written += cx
//!                         .task(name, async |cx| cx.execute(|team| &team.coder, step).await)
//!                         .await?;
//!                     // What people said meanwhile; there is a session, see below.
//!                     let said = cx.session().map(|s| s.read_messages()).unwrap_or_default();
//!                     if said.iter().any(|message| message.content == "enough") {
//!                         break;
//!                     }
//!                 }
//!                 Ok(())
//!             })
//!             .await
//!         });
//!
//!     let done = flow
//!         .create("a parser".to_owned()) // an instance, with its state made of this input
//!         .attach(terminal())            // shows on stderr what happens
//!         .start_session()               // lets people speak to the run
//!         .run()
//!         .await?;
//!     assert_eq!(done.state.bytes_written, 29);
//!     Ok(())
//! }
//! ```
//!
//! More of them are in `examples/`: `hello`, `plan_and_code`, `parallel_review`,
//! `human_in_the_loop`, `custom_agent`, `real_agents`. `ledger` works a ledger by itself, and
//! `claim` is a worker that claims tasks from one.
//!
//! # Where to look
//!
//! - To define and run: [`Harness::define`], [`Definition::create`], [`Instance`],
//!   [`HarnessResult`].
//! - Inside a flow: [`Cx::phase`], [`Cx::task`], [`Branch::execute`], [`Branch::retry`],
//!   [`Branch::parallel`], [`Cx::fork`], [`Error`].
//! - To write an agent: [`Agent`], [`Execution`].
//! - To watch a run: [`Hub::subscribe`], [`Hub::events`], [`Event`], [`Instance::attach`],
//!   [`Channel`], [`terminal`], [`progress_log`], [`recorder()`].
//! - To talk with people: [`Session::wait_for_user`], [`Ask`], [`Hub::send`], [`Hub::reply`],
//!   [`Hub::abort`].
//! - To work on the tasks of a ledger from another program: [`Client`], [`protocol`].
//!
//! # Ports
//!
//! What the library needs of the world it reaches through six traits, so that a test or a simulator
//! can stand in for each:
//!
//! | port | what it is for | the real one |
//! |---|---|---|
//! | [`Agent`] | work that a model does | yours |
//! | [`Store`](store::Store) | the ledger: tasks, claims, what became of them | [`FileStore`](store::FileStore), owned by a [`Writer`](store::Writer) |
//! | [`Runs`](store::Runs) | the record of runs and their iterations | [`RunStore`](store::RunStore) |
//! | [`Workspace`](workspace::Workspace) | git: commit, roll back, rescue | [`GitWorkspace`](workspace::GitWorkspace) |
//! | [`Shell`](shell::Shell) | checks, init scripts, cleanups | [`SystemShell`](shell::SystemShell) |
//! | [`Clock`](clock::Clock) | the time, for decisions | [`SystemClock`](clock::SystemClock) |
//!
//! `Store`, `Runs`, `Workspace` and `Shell` block; async code calls them on a thread of their own.
//!
//! # Decisions and `drive`
//!
//! Work that has to survive a crash keeps to one law: commit, then act, then report. What to do next
//! is decided by a [`Machine`](core::machine::Machine), which is pure: it gets an
//! [`Input`](core::machine::Input) and answers with a [`Next`](core::machine::Next), be it a
//! [`Command`] to commit, an effect to start, or its outcome. [`Branch::drive`] is the loop that
//! does it: it commits through [`Ports::commit`], performs one effect at a time and tells the machine
//! what came of it. A machine is never stored. What must survive was committed, and after a crash a
//! new machine is made of that. All that decides is in [`harness_core`], which this crate
//! re-exports as [`core`].
//!
//! [`Command`]: core::Command

#![warn(missing_docs)]

pub mod agent;
#[doc(hidden)]
pub mod attachments;
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
#[doc(hidden)]
pub mod home;
#[doc(hidden)]
pub mod host;
pub mod hub;
pub mod process;
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
#[doc(hidden)]
pub mod trajectory;
pub mod workspace;

// Define a flow and run it.
pub use define::{Define, Definition, Harness, HarnessResult, Instance, WithState};
// Inside of it.
pub use cx::{Branch, Cx, PhaseName};
pub use error::{Error, Result};
pub use repeat::{PARALLEL, RetryPolicy};
// Tasks for other programs.
pub use client::{Client, ClientError, ClientOptions};
// Its agents.
pub use agent::{Agent, BoxAgent, Execution, Named, boxed, named};
// What it tells, and who listens.
pub use attachments::{progress_log, terminal};
pub use channel::Channel;
pub use define::{Cleanup, IntoCleanup, cleanup};
pub use event::{Context, Envelope, Event, Scope};
pub use hub::{Hub, HubStatus};
pub use recorder::recorder;
// The people behind it.
pub use conversation::{Ask, Session};
pub use hub::Reply;
// Decisions, and the loop that carries them out.
pub use agent::Told;
pub use drive::{Commit, Committing, Ports};
pub use harness_core as core;
// The files of a root, and how they are opened.
#[doc(hidden)]
pub use home::folder;
// The processes it starts end with it.
pub use process::guard;

// The flows are written as an outsider would write them.
extern crate self as harness;
