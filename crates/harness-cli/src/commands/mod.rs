//! One file per command. Each has an `Args`, whose doc comment is the help text, and a `run`.

pub(crate) mod abort;
pub(crate) mod acp;
pub(crate) mod add;
pub(crate) mod args;
pub(crate) mod ask;
pub(crate) mod budget;
mod clone;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
mod fields;
pub(crate) mod gc;
pub(crate) mod get_state;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod install;
pub(crate) mod kick;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;

pub(crate) mod notify;
pub(crate) mod pause;
pub(crate) mod ping;
pub(crate) mod plan;
pub(crate) mod purge;
pub(crate) mod questions;
pub(crate) mod reply;
pub(crate) mod report;
pub(crate) mod rescue;
pub(crate) mod research;
pub(crate) mod resume;
pub(crate) mod revert;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod task;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod trust;
pub(crate) mod uninstall;
pub(crate) mod verify;
pub(crate) mod web;
pub(crate) mod why;
pub(crate) mod work;
pub(crate) mod worker_id;
pub(crate) mod workers;

use std::io;

use crate::invocation::Invocation;
use crate::{
    database,
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    interrupt::Interrupt,
    paint::Paint,
    render::{ColorWhen, Out},
    root,
};
use args::{Cli, Command};

pub(crate) fn main() -> ExitCode {
    // This comes first, because the program may have been started as the guard of an agent.
    harness::guard::init();
    root::reach_databases_by(database::reach);
    let env = Environment::of_this_process();
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(answer) => return tell(&answer, &env),
    };
    let when = cli.global.color_when();
    let paint = Paint::choose(when, &env, &io::stderr());
    let plain = cli.global.plain;
    let interrupt = Interrupt::Signals;
    let mut invocation = Invocation { out: Out::new(when, &env), env, plain, interrupt };
    let ended = dispatch(&mut invocation, cli).and_then(|code| {
        invocation.out.finish()?;
        Ok(code)
    });
    ended.unwrap_or_else(|failure| {
        // Output from before the failure still belongs on standard output.
        _ = invocation.out.finish();
        failure.report(paint)
    })
}

fn dispatch(invocation: &mut Invocation, cli: Cli) -> Result<ExitCode> {
    if let Some(directory) = &cli.global.directory {
        std::env::set_current_dir(directory)
            .map_err(|why| Failure::file("change to", directory, &why))?;
    }
    match cli.command {
        Command::Init(args) => init::run(invocation, args),
        Command::Add(args) => add::run(invocation, args),
        Command::Run(args) => run::run(invocation, args),
        Command::Work(args) => work::run(invocation, args),
        Command::Runs(args) => runs::run(invocation, args),
        Command::Ask(args) => ask::run(invocation, args),
        Command::Questions(args) => questions::run(invocation, args),
        Command::Reply(args) => reply::run(invocation, args),
        Command::Send(args) => send::run(invocation, args),
        Command::Abort(args) => abort::run(invocation, args),
        Command::Top(args) => top::run(invocation, args),
        Command::Kick(args) => kick::run(invocation, args),
        Command::Pause(args) => pause::run(invocation, args),
        Command::Resume(args) => resume::run(invocation, args),
        Command::Budget(args) => budget::run(invocation, args),
        Command::Daemon(args) => daemon::run(invocation, args),
        Command::Ping(args) => ping::run(invocation, args),
        Command::Shutdown(args) => shutdown::run(invocation, args),
        Command::GetState(args) => get_state::run(invocation, args),
        Command::Report(args) => report::run(invocation, args),
        Command::Verify(args) => verify::run(invocation, args),
        Command::Why(args) => why::run(invocation, args),
        Command::Rescue(args) => rescue::run(invocation, args),
        Command::Research(args) => research::run(invocation, args),
        Command::Demo(args) => demo::run(invocation, args),
        Command::Config(args) => config::run(invocation, args),
        Command::Doctor(args) => doctor::run(invocation, args),
        Command::Log(args) => log::run(invocation, args),
        Command::Plan(args) => plan::run(invocation, args),
        Command::Import(args) => import::run(invocation, args),
        Command::Export(args) => export::run(invocation, args),
        Command::Session(args) => session::run(invocation, args),
        Command::Status(args) => status::run(invocation, args),
        Command::Store(args) => store::run(invocation, args),
        Command::Task(args) => task::run(invocation, args),
        Command::Trust(args) => trust::run(invocation, args),
        Command::Gc(args) => gc::run(invocation, args),
        Command::Revert(args) => revert::run(invocation, args),
        Command::WorkerId(args) => worker_id::run(invocation, args),
        Command::Workers(args) => workers::run(invocation, args),
        Command::Completions(args) => completions::run(invocation, args),
        Command::Hook(args) => hook::run(invocation, args),
        Command::Install(args) => install::run(invocation, args),
        Command::Uninstall(args) => uninstall::run(invocation, args),
        Command::Purge(args) => purge::run(invocation, args),
        Command::Man(args) => man::run(invocation, args),
        Command::Acp(args) => acp::run(invocation, args),
        Command::Mcp(args) => mcp::run(invocation, args),
        Command::Notify(args) => notify::run(invocation, args),
        Command::Trace(args) => trace::run(invocation, args),
        Command::Web(args) => web::run(invocation, args),
    }
}

/// Prints clap's answer instead of running a command: help and version as data, anything else as
/// wrong usage.
fn tell(answer: &clap::Error, env: &Environment) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        let text = match Paint::choose(ColorWhen::Auto, env, &io::stderr()) {
            Paint::Coloured => text.ansi().to_string(),
            Paint::Plain => text.to_string(),
        };
        // All errors of the binary begin alike, including those of clap.
        let text = text.replacen("error:", "Error:", 1);
        _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
        // An agent takes exit code 2 of a hook as an instruction to go on. Wrong usage must not
        // cause that.
        return if args::is_hook() { ExitCode::Error } else { ExitCode::Usage };
    }
    let mut out = Out::new(ColorWhen::Auto, env);
    let text = match out.paint() {
        Paint::Coloured => text.ansi().to_string(),
        Paint::Plain => text.to_string(),
    };
    let told = out.raw(text.as_bytes()).and_then(|()| out.finish());
    told.map_or_else(|failure| failure.report(Paint::Plain), |()| ExitCode::Done)
}
