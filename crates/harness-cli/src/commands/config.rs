//! `harness config`

use harness_core::role::Operation;

use crate::{
    config::{self, Overrides, show, template},
    exit::ExitCode,
    failure::Result,
    invocation::{Invocation, working_directory},
    root::{PIN, StateRoot},
};

/// Show the configuration, and where each value comes from
///
/// Sources, in increasing order of precedence: built-in values, ~/.config/harness/config.toml,
/// harness.toml in the state root, HARNESS_* variables, flags. The variable of key KEY in table
/// TABLE is HARNESS_TABLE_KEY. The limits of sessions are kept in the ledger and are not part of
/// this: `harness session` shows and changes them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness config
  harness config limits.max_iterations
  harness config --init         # a harness.toml in which every key is explained
  harness config --schema > harness.schema.json
  HARNESS_LIMITS_MAX_COST=5 harness config limits")]
pub(crate) struct Args {
    /// Only this key, or the keys of this table
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the JSON schema of the file
    #[arg(long, conflicts_with_all = ["key", "json", "path"])]
    schema: bool,
    /// Write a harness.toml that explains every key, if there is none, and the schema for editors
    #[arg(long, conflicts_with_all = ["key", "json", "path", "schema"])]
    init: bool,
    /// Print the paths of the configuration files, whether they exist or not; the later one wins
    #[arg(long, conflicts_with_all = ["key", "json"])]
    path: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    if args.schema {
        invocation.out.line(serde_json::to_string_pretty(&config::schema())?)?;
        return Ok(ExitCode::Done);
    }
    // Without a ledger it shows the settings that would apply to a new ledger here.
    let start = working_directory()?;
    let env = &invocation.env;
    let root = match StateRoot::discover(env, &start) {
        Err(_) if env.get(PIN).is_none() => StateRoot::for_init(env, &start)?,
        found => found?,
    };
    if args.init {
        invocation.permit(&root, Operation::Configure)?;
        return init(invocation, &root);
    }
    let Invocation { out, env, .. } = invocation;
    if args.path {
        for file in config::files(env, Some(root.path())) {
            out.line(file.display())?;
        }
        return Ok(ExitCode::Done);
    }
    let loaded = config::load(env, Some(root.path()), Overrides::default())?;
    let entries = show::entries(&loaded, args.key.as_deref())?;
    if args.json {
        out.document(&show::document(&entries))?;
    } else {
        show::print(out, &entries)?;
    }
    Ok(ExitCode::Done)
}

/// Writes the template of a harness.toml, and the schema for editors.
fn init(invocation: &mut Invocation, root: &StateRoot) -> Result<ExitCode> {
    template::write_schema(root.path())?;
    let is_new = template::write(root.path())?;
    let (path, schema) = (root.home().config(), root.home().schema());
    invocation.out.line(match is_new {
        true => format!("wrote {}: every key is there as a comment", path.display()),
        false => format!("{} exists and was not changed", path.display()),
    })?;
    invocation.out.line(format!("wrote {}", schema.display()))?;
    Ok(ExitCode::Done)
}
