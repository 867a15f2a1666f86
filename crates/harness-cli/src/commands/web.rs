//! `harness web`

use std::{
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    host::places,
    interrupt,
    invocation::Invocation,
    paint::warn,
    web::{self, Mode, Options, Place},
};

/// Show the project in a browser
///
/// Serves pages on this machine only: what needs you, what works, what it cost, and the buttons for
/// what a command can do. The first line on standard output is the address to open. It works once,
/// within two minutes; `harness web --url` prints another one while the server runs. The server
/// stays until Ctrl-C, and ending it never stops a run.
///
/// Programs use the same server with a token: `GET /api/status`, `GET /api/task/ID`,
/// `GET /api/events`, `POST /api/command` and `GET /metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness web --open
  harness web --url              # another link to the server that runs
  harness web --port 8090 --read-only
  harness web --json --token-file ~/.harness-token")]
pub(crate) struct Args {
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// The port [default: one that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Listen on this address instead, which others may reach: ADDRESS:PORT. There is no
    /// encryption
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port", requires = "token_file")]
    listen: Option<SocketAddr>,
    /// Write the token for programs to this file, which only you can read
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print a new link to the server that runs, and exit
    #[arg(long, conflicts_with_all = ["open", "port", "read_only", "listen", "token_file"])]
    url: bool,
    /// Print JSON: url, port and token
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    if args.url {
        let link = web::ask_url(root.path(), &places(&invocation.env))?;
        return show(invocation, &args, &link);
    }
    let place = match args.listen {
        Some(address) => {
            warn(&format!(
                "{address} is open to others, and everything is sent without encryption"
            ));
            Place::Address(address)
        }
        None => Place::Loopback(args.port),
    };
    let mode = if args.read_only { Mode::ReadOnly } else { Mode::Full };
    let options = Options { place, mode, token_file: args.token_file.clone() };
    // Signals are taken over before anybody can see that the server is there.
    let asked = interrupt::request()?;
    let server = web::start(&invocation.env, &root, &options)?;
    let link = json!({ "url": server.url()?, "port": server.port(), "token": server.token() });
    show(invocation, &args, &link)?;
    let _page = match args.open {
        true => open(&server.url()?).inspect_err(|why| warn(&why.error)).ok(),
        false => None,
    };
    let stop = server.stopper();
    std::thread::spawn(move || {
        wait(&asked);
        stop.cancel();
    });
    server.join()?;
    Ok(ExitCode::Done)
}

/// Prints the link.
fn show(invocation: &mut Invocation, args: &Args, link: &Value) -> Result<ExitCode> {
    let url = link["url"].as_str().unwrap_or_default();
    match args.json {
        true => invocation.out.json_line(link)?,
        false => invocation.out.line(url)?,
    }
    invocation.out.finish()?;
    Ok(ExitCode::Done)
}

fn wait(asked: &harness::shell::Cancel) {
    use rustix::event::{PollFd, PollFlags, poll};
    // Nothing else can be done with an error but to try again.
    while poll(&mut [PollFd::new(asked, PollFlags::IN)], None).is_err() {}
}

/// Opens a link by the program of the desktop. Everybody can see the arguments of a process, so they
/// name a file that leads there. Only the user can read it, and it is removed when it is dropped.
fn open(url: &str) -> Result<NamedTempFile> {
    let page = maud::html! {
        (maud::DOCTYPE)
        meta charset="utf-8";
        meta http-equiv="refresh" content=(format!("0; url={url}"));
        title { "harness" }
    };
    let mut file = tempfile::Builder::new().prefix("harness-").suffix(".html").tempfile()?;
    file.write_all(page.into_string().as_bytes())?;
    for program in ["xdg-open", "open"] {
        let started = Command::new(program)
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if started.is_ok_and(|status| status.success()) {
            return Ok(file);
        }
    }
    Err(Failure::error("no browser could be opened; open the link yourself"))
}
