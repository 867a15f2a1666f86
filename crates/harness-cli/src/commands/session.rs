//! `harness session`

use harness_core::{
    command::{ConfigureSession, SessionKey},
    ledger::SessionConfig,
    role::Operation,
};
use serde_json::{Map, Value, json};

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    render::{Cell, Table},
};

/// Show or change the settings of sessions in the ledger
///
/// A session is one pass of `harness run` over the ledger. Its settings are `session_config` in
/// harness-tasks.json: how many tasks one session works on, how many sessions may begin, and
/// whether one or several sessions work at a time. They apply to everybody who works on this
/// ledger. A run that is at work uses a new max_sessions for its next session, and the other
/// settings when it is started again. `harness config` is about other settings: those of
/// harness.toml.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness session
  harness session max_sessions
  harness session max_sessions 200
  harness session max_tasks_per_session 0    # no limit
  harness session max_sessions --unset")]
pub(crate) struct Args {
    /// Only this setting
    #[arg(value_name = "KEY", value_parser = key)]
    key: Option<SessionKey>,
    /// The new value
    #[arg(value_name = "VALUE", requires = "key", allow_hyphen_values = true)]
    value: Option<String>,
    /// Go back to the default
    #[arg(long, requires = "key", conflicts_with = "value")]
    unset: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn key(text: &str) -> Result<SessionKey, String> {
    let known = || SessionKey::ALL.map(SessionKey::name).join(", ");
    SessionKey::parse(text).ok_or_else(|| format!("the settings are {}", known()))
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    if let Some(key) = args.key.filter(|_| args.unset || args.value.is_some()) {
        invocation.permit(&root, Operation::Configure)?;
        let change = ConfigureSession { key, value: args.value.clone(), by: None };
        invocation.with_client(&root, |client| client.configure_session(change))?;
    }
    let ledger = invocation.look(&root)?;
    let config = &ledger.head().session_config;
    if args.json {
        invocation.out.document(&json!({ "session_config": document(config, args.key)? }))?;
        return Ok(ExitCode::Done);
    }
    match args.key {
        Some(key) => invocation.out.line(key.value(config))?,
        None => invocation.out.table(&table(config))?,
    }
    Ok(ExitCode::Done)
}

fn table(config: &SessionConfig) -> Table {
    let usual = SessionConfig::default();
    let mut table = Table::default();
    for key in SessionKey::ALL {
        let (value, default) = (key.value(config), key.value(&usual));
        let from = match value == default {
            true => "default".to_owned(),
            false => format!("default {default}"),
        };
        table.row([
            Cell::from(key.name().to_owned()),
            value.into(),
            format!("({from}; {})", key.allowed()).into(),
        ]);
    }
    table
}

/// Returns the values as the ledger has them: numbers as numbers.
fn document(config: &SessionConfig, only: Option<SessionKey>) -> Result<Map<String, Value>> {
    let keys = SessionKey::ALL.into_iter().filter(|key| only.is_none_or(|only| only == *key));
    let entry = |key: SessionKey| {
        let text = key.value(config);
        let value = match key {
            SessionKey::ConcurrencyMode => Value::from(text),
            SessionKey::MaxTasksPerSession | SessionKey::MaxSessions => {
                let number: i64 = text.parse().map_err(|_| Failure::error("not a number"))?;
                number.into()
            }
        };
        Ok((key.name().to_owned(), value))
    };
    keys.map(entry).collect()
}
