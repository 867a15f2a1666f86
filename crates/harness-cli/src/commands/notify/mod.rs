//! `harness notify`

use std::sync::Arc;

use harness::{
    Hub,
    clock::{Clock as _, SystemClock},
    notify::{Courier, Recipient},
};
use harness_core::{
    notify::{Delivery, Happening, Notice, Outgoing},
    role::Operation,
};
use serde_json::json;

use crate::{
    config::{self, Config, Notify, Origin, Overrides},
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    local_time,
    notification::{self, END_WITHIN, Watched},
    paint::{one_line, warn},
    render::Table,
    root::StateRoot,
    trust,
};

/// Try the channels of notifications, and see what waits to be sent
///
/// `[[notify]]` in harness.toml or in your own configuration names channels: a command, a webhook,
/// ntfy, Slack, Discord, Telegram or the desktop. Messages wait in an outbox until a channel accepts
/// them. A run waits at most five seconds for them at its end; the rest is sent by the next `harness
/// run`, `harness work` or daemon, or by `harness notify send`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness notify test
  harness notify test --name phone
  harness notify list
  harness notify send")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Send a test message through each channel, now
    Test {
        /// Only the channel of this name
        #[arg(long)]
        name: Option<String>,
        /// Only channels of this kind
        #[arg(long)]
        kind: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the messages that wait, and the last ones that were sent or given up
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send what is due now
    Send,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Test { name, kind, json } => {
            let chosen = Chosen { name, kind };
            test(invocation, &chosen, json)
        }
        Command::List { json } => list(invocation, json),
        Command::Send => send(invocation),
    }
}

/// The channels that a person means.
struct Chosen {
    name: Option<String>,
    kind: Option<String>,
}

impl Chosen {
    fn contains(&self, channel: &Recipient) -> bool {
        let is_named = self.name.as_ref().is_none_or(|name| channel.name == *name);
        is_named && self.kind.as_ref().is_none_or(|kind| channel.means.name() == kind)
    }
}

/// Returns the configuration. Channels that the repository brings must be trusted.
fn trusted(invocation: &Invocation, root: &StateRoot) -> Result<Config> {
    invocation.permit(root, Operation::Notify)?;
    let loaded = config::load(&invocation.env, Some(root.path()), Overrides::default())?;
    if let Some(Origin::Project { .. }) = loaded.origins.get("notify") {
        trust::require(invocation, root)?;
    }
    Ok(loaded.config)
}

fn test(invocation: &mut Invocation, chosen: &Chosen, json: bool) -> Result<ExitCode> {
    let root = invocation.root()?;
    let config = trusted(invocation, &root)?;
    if let Some(Notify::Command(_)) = &config.notify {
        return Err(Failure::config("`notify` is a command, which gets the events of runs only")
            .hint("write it as [[notify]] with kind = \"command\" to test it"));
    }
    let (channels, failures) = notification::channels(&config, &invocation.env);
    failures.iter().for_each(|failure| warn(&failure.error));
    let channels: Vec<Recipient> = channels.into_iter().filter(|c| chosen.contains(c)).collect();
    if channels.is_empty() && failures.is_empty() {
        let none = match (&chosen.name, &chosen.kind) {
            (None, None) => Failure::config("no channel is configured"),
            _ => Failure::error("there is no such channel"),
        };
        return Err(none.hint("add [[notify]] to harness.toml; see docs/notifications.md"));
    }
    let now = SystemClock.now();
    let project = notification::project_name(&root);
    let Some(notice) = Notice::of(Happening::Tried, &project, now) else {
        return Ok(ExitCode::Done);
    };
    let courier = Courier::new(root.path());
    let mut tried = Vec::new();
    for channel in channels {
        let sent = courier.send(&channel, &notice, SystemClock.now());
        tried.push((channel, sent.err().map(|failure| failure.error)));
    }
    if json {
        let channels = tried.iter().map(|(channel, error)| {
            json!({ "name": channel.name, "kind": channel.means.name(), "sent": error.is_none(),
                "error": error })
        });
        let channels: Vec<_> = channels.collect();
        invocation.out.document(&json!({ "id": notice.id, "channels": channels }))?;
    } else {
        for (channel, error) in &tried {
            let result = error.as_deref().map_or("sent".to_owned(), |why| format!("failed: {why}"));
            let (name, kind) = (&channel.name, channel.means.name());
            invocation.out.line(one_line(&format!("{name} ({kind}): {result}")))?;
        }
    }
    let failed = !failures.is_empty() || tried.iter().any(|(_, error)| error.is_some());
    Ok(if failed { ExitCode::Error } else { ExitCode::Done })
}

fn list(invocation: &mut Invocation, json: bool) -> Result<ExitCode> {
    let root = invocation.root()?;
    let store = root.look_at_runs()?;
    let rows = store.map(|store| store.outbox()).transpose()?.unwrap_or_default();
    if json {
        let messages: Vec<_> = rows.iter().map(document).collect();
        invocation.out.document(&json!({ "messages": messages }))?;
        return Ok(ExitCode::Done);
    }
    if rows.is_empty() {
        eprintln!("no message was ever stored");
    }
    let mut table = Table::default();
    for row in &rows {
        let when = local_time::date_and_clock(row.due_at);
        let state = match row.delivery {
            Delivery::Waiting if row.tries > 0 => format!("waiting, {} tries", row.tries),
            other => other.name().to_owned(),
        };
        let error = row.error.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        let title = one_line(&format!("{}{error}", row.notice.title)).into_owned();
        let channel = one_line(&row.channel).into_owned();
        table.row([when, state, channel, row.notice.event.to_string(), title]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}

fn document(row: &Outgoing) -> serde_json::Value {
    json!({ "channel": row.channel, "delivery": row.delivery, "tries": row.tries,
        "due_at": row.due_at, "error": row.error, "notice": row.notice })
}

/// Does what the end of a run does.
fn send(invocation: &mut Invocation) -> Result<ExitCode> {
    let root = invocation.root()?;
    let config = trusted(invocation, &root)?;
    let watched = Watched {
        root: &root,
        runs: root.project()?.runs()?,
        hub: Hub::new("notify"),
        secrets: invocation.secrets(&root),
        warn: Arc::new(warn),
    };
    let Some(notifier) = notification::start(&config, &invocation.env, watched)? else {
        return Err(Failure::config("no channel is configured")
            .hint("add [[notify]] to harness.toml; see docs/notifications.md"));
    };
    let left = notifier.close(harness::notify::TRY_WITHIN.max(END_WITHIN));
    if left > 0 {
        eprintln!("{left} messages are still waiting: `harness notify list`");
    }
    Ok(ExitCode::Done)
}
