//! `harness hook NAME`: the commands that an agent's own hooks call, with JSON on standard input.
//!
//! This module owns the list of hooks, and decides when they are silent. An agent waits for each of
//! them at every turn, so most take no lock, repair nothing and start nothing. `claim` and `renew`
//! change the ledger as any worker does.

mod answer;
mod binding;
mod claim;
mod kind;
mod objective;
mod outlook;
mod payload;
mod pre_compact;
mod project;
mod prompt;
mod record;
mod renew;
mod self_reflect;
mod session_start;
mod stop;
mod subagent_stop;
mod teammate_idle;

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Read, Write},
    panic::{self, AssertUnwindSafe},
    path::Path,
};

use harness::{ClientError, workspace::glance};
use serde_json::json;

use self::{
    answer::{Answer, Ending},
    binding::{Binding, Pursuit},
    kind::Hook,
    payload::Payload,
    project::{Marker, Project},
};
use crate::{
    client::CommandClient,
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    root::{LEDGER, StateRoot},
    trust::Trust,
};

/// Performs one operation of a client. No daemon is started for a hook.
fn with_client<T>(
    invocation: &Invocation,
    root: &StateRoot,
    operation: impl FnOnce(&mut CommandClient<'_>) -> Result<T, ClientError>,
) -> Result<T> {
    let mut options = invocation.client_options(root)?;
    options.launch = None;
    invocation.with_options(root, options, operation)
}

/// The limit of the input. No agent sends more, and a longer input counts as empty.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Answer a hook of Claude Code or Codex
///
/// The hooks of an agent call this command with their JSON on standard input. NAME is one of stop,
/// session-start, teammate-idle, subagent-stop, self-reflect, pre-compact, prompt, claim and renew. All
/// but the last three print nothing unless a ledger is being worked on (.harness-active), or the session
/// was given an objective. None acts on a ledger that came with the repository until you trust it
/// (harness trust). With several names, the first hook that has something to say answers. With --bound
/// before the names, they answer only to sessions that were put to work with /harness, which `prompt`
/// notices, or that have HARNESS_BIND=1. HARNESS_HOOKS=off silences the hooks of a session;
/// HARNESS_HOOK_LOG names a file that gets a line per call. Only teammate-idle ever exits with 2,
/// which agents take to mean "go on"; usage errors exit with 1 here. `harness install` writes these
/// calls into the settings of an agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness hook stop < payload.json
  harness hook --bound stop self-reflect < payload.json
  echo '{\"session_id\":\"s\"}' | harness hook session-start
  HARNESS_WORKER_ID=alice harness hook claim < /dev/null")]
pub(crate) struct Args {
    /// The hook; with several, the first that has something to say answers. --bound before them: only
    /// for sessions that were put to work
    // All words are taken here and judged below: clap would end wrong usage with 2.
    #[arg(value_name = "NAME", allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// The sessions that a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// All sessions that the marker does not exclude.
    Everyone,
    /// The sessions that were put to work: by `/harness`, by their environment or by the marker.
    Bound,
}

impl Audience {
    const BOUND: &'static str = "--bound";

    fn includes(
        self,
        env: &Environment,
        project: &Project<'_>,
        marker: &Marker,
        session: Option<&str>,
    ) -> bool {
        let is_named = session.is_some_and(|id| marker.names(id));
        match self {
            Self::Everyone => marker.is_for_all() || is_named,
            Self::Bound => {
                let binding = session.and_then(|id| Binding::read(project, id));
                is_named || binds(env) || binding == Some(Binding::Ledger)
            }
        }
    }
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let (audience, hooks) = named(&args.words)?;
    let payload = Payload::read(&input());
    // An internal error must neither show the agent a trace nor delay it.
    panic::set_hook(Box::new(|_| {}));
    let start = std::env::current_dir().unwrap_or_default();
    let answer = first_answer(invocation, audience, &hooks, &payload, &start);
    invocation.out.raw(answer.stdout.as_bytes())?;
    // If this fails, nothing is left to receive a message.
    _ = io::stderr().write_all(answer.stderr.as_bytes());
    Ok(answer.ending.exit_code())
}

fn named(words: &[OsString]) -> Result<(Audience, Vec<Hook>)> {
    let (audience, words) = match words.split_first() {
        Some((first, rest)) if first == Audience::BOUND => (Audience::Bound, rest),
        Some(_) | None => (Audience::Everyone, words),
    };
    let names = Hook::ALL.map(Hook::name).join(", ");
    if words.is_empty() {
        return Err(Failure::error("no hook was named").hint(format!("the hooks are {names}")));
    }
    let hook = |name: &OsString| {
        Hook::ALL.into_iter().find(|hook| name == hook.name()).ok_or_else(|| {
            Failure::error(format!("unknown hook {:?}", name.to_string_lossy()))
                .hint(format!("the hooks are {names}; they read JSON from standard input"))
        })
    };
    Ok((audience, words.iter().map(hook).collect::<Result<_>>()?))
}

/// Returns the answer of the first hook that is not silent, and does not call those after it. An
/// agent starts the commands of an event together. Only within one command does `self-reflect` see
/// the result of `stop`.
fn first_answer(
    invocation: &Invocation,
    audience: Audience,
    hooks: &[Hook],
    payload: &Payload,
    start: &Path,
) -> Answer {
    let mut warnings = String::new();
    for hook in hooks {
        let called = AssertUnwindSafe(|| call(invocation, audience, *hook, payload, start));
        let called = panic::catch_unwind(called);
        let (root, mut answer) = called.unwrap_or_else(|_| (None, failed_inside(*hook)));
        if let Err(why) = record::append(&invocation.env, *hook, root.as_ref(), payload, &answer) {
            answer = answer.warn(&format!("the call was not written to HARNESS_HOOK_LOG: {why}"));
        }
        answer.stderr.insert_str(0, &warnings);
        if !answer.stdout.is_empty() || answer.ending != Ending::Done {
            return answer;
        }
        warnings = answer.stderr;
    }
    Answer { stderr: warnings, ..Answer::silent() }
}

/// Reads the input of the agent. A person at a terminal sends nothing.
fn input() -> Vec<u8> {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    if stdin.is_terminal() {
        return bytes;
    }
    let read = stdin.lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() as u64 > INPUT_BYTES_MAX {
        bytes.clear();
    }
    bytes
}

/// Returns the answer, and the root that it is about. `start` is the working directory.
fn call(
    invocation: &Invocation,
    audience: Audience,
    hook: Hook,
    payload: &Payload,
    start: &Path,
) -> (Option<StateRoot>, Answer) {
    let env = &invocation.env;
    let is_supervised = hook.is_supervisors() && env.get("HARNESS_RUN_ID").is_some();
    if !hook.is_tool() && (is_off(env) || is_supervised) {
        return (None, Answer::silent());
    }
    let cwd = payload.text("cwd").map(Path::new);
    let root = StateRoot::for_hook(env, cwd, start);
    if !hook.is_tool()
        && let Some(place) = StateRoot::for_session(env, cwd, start)
        && let Some(answer) = in_session(hook, payload, &Project::new(&place))
    {
        return (Some(place), answer);
    }
    let answer = match hook {
        Hook::Claim | Hook::Renew
            if root.as_ref().is_some_and(|root| !may_act(env, root, None)) =>
        {
            untrusted(hook)
        }
        Hook::Claim => claim::answer(invocation, root.as_ref(), payload),
        Hook::Renew => renew::answer(invocation, root.as_ref(), payload),
        _ => match &root {
            Some(root) => in_project(env, audience, hook, payload, root),
            None => Answer::silent(),
        },
    };
    (root, answer)
}

/// Returns the answer about the session alone, with or without a ledger: a request to it, and its
/// objective. With `None` the ledger decides.
fn in_session(hook: Hook, payload: &Payload, project: &Project<'_>) -> Option<Answer> {
    if hook == Hook::Prompt {
        return Some(prompt::answer(project, payload));
    }
    let session = payload.session()?;
    let Binding::Objective(pursuit) = Binding::read(project, session)? else { return None };
    let retold = |pursuit: &Pursuit| objective::state(project, pursuit);
    match hook {
        Hook::Stop => Some(objective::stop(project, session, pursuit, payload)),
        Hook::SessionStart => {
            Some(session_start::context(&format!("HARNESS: {}", retold(&pursuit))))
        }
        Hook::PreCompact => Some(pre_compact::keep(&retold(&pursuit))),
        Hook::TeammateIdle
        | Hook::SubagentStop
        | Hook::SelfReflect
        | Hook::Prompt
        | Hook::Claim
        | Hook::Renew => None,
    }
}

/// Returns whether the ledger may send text to an agent. One that came with a repository must not,
/// because another person wrote its titles. One in a trusted place may. So may one if git tracks
/// neither the ledger nor its marker, because it was made on this machine. Git is used only if the
/// place is not trusted.
fn may_act(env: &Environment, root: &StateRoot, marker: Option<&str>) -> bool {
    let trusted = Trust::of_user(env).and_then(|trust| trust.is_place_trusted(root));
    let files: Vec<_> = [LEDGER].into_iter().chain(marker).collect();
    trusted.unwrap_or(false)
        || glance::tracked(root.path(), &files).is_some_and(|tracked| tracked.is_empty())
}

/// Returns the answer of the two hooks that promise one in any case. It contains nothing of the
/// ledger.
fn untrusted(hook: Hook) -> Answer {
    let error = "this ledger came with the repository and is not trusted: `harness trust`";
    match hook {
        Hook::Renew => Answer::json(&json!({ "renewed": false, "error": error })),
        _ => Answer::json(&json!({ "claimed": false, "error": error })),
    }
}

fn is_off(env: &Environment) -> bool {
    env.get("HARNESS_HOOKS").is_some_and(|value| value.eq_ignore_ascii_case("off"))
}

/// Returns whether this session asked for the hooks.
fn binds(env: &Environment) -> bool {
    env.get("HARNESS_BIND").is_some_and(|value| value == "1")
}

/// Answers for a hook that acts only while its marker exists, and only for the sessions it is for.
fn in_project(
    env: &Environment,
    audience: Audience,
    hook: Hook,
    payload: &Payload,
    root: &StateRoot,
) -> Answer {
    let project = Project::new(root);
    let Some(mut marker) = hook.marker().and_then(|name| project.marker(name)) else {
        return Answer::silent();
    };
    if !may_act(env, root, hook.marker()) {
        return Answer::silent();
    }
    let mut warning = None;
    if hook == Hook::SessionStart
        && binds(env)
        && let Some(session) = payload.session()
    {
        warning = marker.bind(session).err();
    }
    if !audience.includes(env, &project, &marker, payload.session()) {
        return Answer::silent();
    }
    let answer = match hook {
        Hook::Stop => stop::answer(env, &project, &marker, payload),
        Hook::SessionStart => session_start::answer(&project),
        Hook::TeammateIdle => teammate_idle::answer(env, &project, payload),
        Hook::SubagentStop => subagent_stop::answer(env, &project, payload),
        Hook::SelfReflect => self_reflect::answer(env, &project, payload),
        Hook::PreCompact => pre_compact::answer(env, &project),
        // These hooks were answered before.
        Hook::Prompt | Hook::Claim | Hook::Renew => Answer::silent(),
    };
    match warning {
        None => answer,
        Some(why) => answer.warn(&format!("this session is not bound: {why}")),
    }
}

fn failed_inside(hook: Hook) -> Answer {
    let error = "internal error; this is a bug in harness";
    match hook {
        Hook::Claim => Answer::json(&json!({ "claimed": false, "error": error })),
        Hook::Renew => Answer::json(&json!({ "renewed": false, "error": error })),
        _ => Answer::silent().warn(error),
    }
}

#[cfg(test)]
mod tests;
