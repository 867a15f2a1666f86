//! `harness store …`

mod status;
mod transfer;

use harness::store::postgres::{Database, Grants};
use harness_core::role::Operation;
use serde_json::json;

use crate::{
    database::{self, DatabasePlace},
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
};

/// Move the ledger into a PostgreSQL database that several machines share, and look after it
///
/// The default is a file that one machine uses. `harness init --database` begins with a ledger in a
/// database, and `push` copies an existing one there. Every command is the same afterwards. The password
/// comes from HARNESS_DATABASE_URL, PGPASSWORD, ~/.pgpass or `password_command` in your own
/// configuration, never from harness.toml.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness store push --database postgres://harness@db.example.org/work
  harness store status
  harness store pull                        # back into files
  harness store grant | psql work           # the roles for workers and for dashboards")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Copy the ledger, its log and its receipts from the files into a database
    ///
    /// Both sides are compared afterwards. Only if they are equal, the files are archived, and harness.toml
    /// gets the address without the password. Nothing is changed otherwise. The record of earlier runs
    /// stays on this machine.
    #[command(after_help = "\
Examples:
  harness store push --database postgres://harness@db.example.org/work
  harness store push --database postgres://harness@db.example.org/work --ledger shop
  HARNESS_DATABASE_URL=postgres://me:password@localhost/work harness store push")]
    Push(PushArgs),
    /// Copy the ledger, its log and its receipts from the database back into files
    ///
    /// Both sides are compared afterwards. The ledger in the database then gets another name, so that no
    /// other machine goes on with it, and [store] is removed from harness.toml.
    #[command(after_help = "\
Examples:
  harness store pull")]
    Pull(JsonArgs),
    /// Show the server, the ledger, and how far the copy of this machine is behind
    #[command(after_help = "\
Examples:
  harness store status
  harness store status --json | jq .ledger_version")]
    Status(JsonArgs),
    /// Bring the tables of the database to the version of this program
    #[command(after_help = "\
Examples:
  harness store migrate")]
    Migrate(JsonArgs),
    /// Replace the oldest changes in the database by a snapshot
    ///
    /// Only the owner of the tables may do it.
    #[command(after_help = "\
Examples:
  harness store compact
  harness store compact --keep 1000")]
    Compact(CompactArgs),
    /// Print the SQL that makes a role for workers and one that only reads
    ///
    /// Nothing is executed and nothing is connected. Everyone with the credentials of a worker can change the
    /// ledger, and so what runs on your machines.
    #[command(after_help = "\
Examples:
  harness store grant
  harness store grant --worker shop_worker --reader shop_reader | psql work")]
    Grant(GrantArgs),
}

#[derive(Debug, clap::Args)]
struct PushArgs {
    /// The address of the database, without a password [default: HARNESS_DATABASE_URL, or [store] in
    /// harness.toml]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The name of the ledger in the database [default: that of the repository's top directory]
    #[arg(long, value_name = "NAME")]
    ledger: Option<String>,
    /// Accept a server that may lose confirmed changes in a crash
    #[arg(long)]
    unsafe_durability: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct CompactArgs {
    /// The number of the newest changes that stay
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keep: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GrantArgs {
    /// The role of workers
    #[arg(long, value_name = "ROLE", default_value = "harness_worker")]
    worker: String,
    /// The role that only reads
    #[arg(long, value_name = "ROLE", default_value = "harness_reader")]
    reader: String,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    match args.command {
        Command::Push(args) => {
            invocation.permit(&root, Operation::Store)?;
            transfer::push(invocation, &root, &args)
        }
        Command::Pull(args) => {
            invocation.permit(&root, Operation::Store)?;
            transfer::pull(invocation, &root, args.json)
        }
        Command::Status(args) => status::show(invocation, &root, args.json),
        Command::Migrate(args) => {
            invocation.permit(&root, Operation::Store)?;
            migrate(invocation, &root, args.json)
        }
        Command::Compact(args) => {
            invocation.permit(&root, Operation::Store)?;
            compact(invocation, &root, &args)
        }
        Command::Grant(args) => grant(invocation, &root, args),
    }
}

/// Connects to the database of a root. A ledger in files is a failure.
fn connected(root: &StateRoot) -> Result<Database> {
    root.backing().open()?.ok_or_else(in_files)
}

fn in_files() -> Failure {
    Failure::error("the ledger of this project is in files, not in a database")
        .hint("`harness store push --database URL` copies it into one")
}

fn migrate(invocation: &mut Invocation, root: &StateRoot, json: bool) -> Result<ExitCode> {
    if root.backing().is_files() {
        return Err(in_files());
    }
    let migrated = Database::migrate(database::trusted_access(&invocation.env, root)?)?;
    let (from, to) = (migrated.from, migrated.to);
    if json {
        invocation.out.document(&json!({ "from": from, "to": to }))?;
    } else if from == to {
        invocation.out.line(format_args!("the schema has version {to} already"))?;
    } else {
        invocation.out.line(format_args!("the schema has version {to} now; it had {from}"))?;
    }
    Ok(ExitCode::Done)
}

fn compact(invocation: &mut Invocation, root: &StateRoot, args: &CompactArgs) -> Result<ExitCode> {
    let compacted = connected(root)?.compact(args.keep)?;
    let (replaced, version) = (compacted.replaced, compacted.version);
    if args.json {
        invocation.out.document(&json!({ "replaced": replaced, "ledger_version": version }))?;
    } else if replaced == 0 {
        invocation.out.line("no change is old enough; nothing was replaced")?;
    } else {
        let line = format!("a snapshot of version {version} replaced {replaced} changes");
        invocation.out.line(line)?;
    }
    Ok(ExitCode::Done)
}

fn grant(invocation: &mut Invocation, root: &StateRoot, args: GrantArgs) -> Result<ExitCode> {
    if root.backing().is_files() {
        return Err(in_files());
    }
    let place = DatabasePlace::of(&invocation.env, root)?;
    let grants = Grants { worker: args.worker, reader: args.reader };
    for statement in grants.statements(&place.access()) {
        invocation.out.line(format_args!("{statement};"))?;
    }
    Ok(ExitCode::Done)
}
