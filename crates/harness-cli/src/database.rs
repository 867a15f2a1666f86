//! The ledger of a project in a database: its address, its password, and whether this user trusts it.

pub(crate) mod settings;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use harness::{
    process::withhold,
    store::postgres::{DatabaseAccess, DatabaseError, Durability},
    workspace::glance,
};
use harness_core::{
    database::{DatabaseUrl, LedgerName, Password, UrlError, password_in},
    variables::DATABASE_URL,
};

use crate::{
    config::{self, Overrides},
    environment::Environment,
    failure::{Failure, Result},
    paint::warn,
    root::StateRoot,
    trust::{Trust, TrustedLedger},
    would_run::WouldRun,
};

/// The table of harness.toml that marks a ledger in a database.
const TABLE: &str = config::STORE;
const PASSWORD: &str = "PGPASSWORD";
const PASSWORD_FILE: &str = "PGPASSFILE";

/// Returns how the database of a root is reached, or why it may not be, with hints in lines of their own.
pub(crate) fn reach(env: &Environment, root: &Path) -> Result<DatabaseAccess, String> {
    // Neither an agent nor a check gets it.
    withhold(&[PASSWORD]);
    trusted_access(env, &StateRoot::at(root)).map_err(|failure| {
        let hints = failure.hints.iter().map(|hint| format!("\nHint: {hint}"));
        format!("{}{}", failure.error, hints.collect::<String>())
    })
}

/// A ledger in a database, without the password.
#[derive(Debug, Clone)]
pub(crate) struct DatabasePlace {
    pub(crate) url: DatabaseUrl,
    pub(crate) ledger: LedgerName,
}

impl DatabasePlace {
    /// Returns the place that the configuration of a root names.
    pub(crate) fn of(env: &Environment, root: &StateRoot) -> Result<Self> {
        let store = config::load(env, Some(root.path()), Overrides::default())?.config.store;
        let url = match env.text(DATABASE_URL)? {
            Some(text) => of_variable(text)?,
            None => {
                let missing = || {
                    let file = root.home().config();
                    Failure::config(format!(
                        "{}: [store] has no `url`, and {DATABASE_URL} is not set",
                        file.display()
                    ))
                };
                let text = store.url.ok_or_else(missing)?;
                DatabaseUrl::configured(&text).map_err(|why| Failure::config(why.to_string()))?
            }
        };
        let ledger = match store.ledger {
            Some(name) => {
                LedgerName::parse(&name).map_err(|why| Failure::config(why.to_string()))?
            }
            None => usual_name(root),
        };
        Ok(Self { url: of_user(env, url), ledger })
    }

    /// Returns the place that the arguments of a command name. Without an address, the variable has it.
    pub(crate) fn named(
        env: &Environment,
        root: &StateRoot,
        url: Option<&str>,
        ledger: Option<&str>,
    ) -> Result<Self> {
        let url = match (url, env.text(DATABASE_URL)?) {
            (Some(text), _) => of_argument(text)?,
            (None, Some(text)) => of_variable(text)?,
            (None, None) => {
                let what = "no address of a database was given";
                return Err(Failure::usage(what)
                    .hint(format!("name one after --database, or set {DATABASE_URL}")));
            }
        };
        let ledger = match ledger {
            Some(name) => LedgerName::parse(name).map_err(|why| Failure::usage(why.to_string()))?,
            None => usual_name(root),
        };
        Ok(Self { url: of_user(env, url), ledger })
    }

    /// Returns the server, the database and the ledger, without credentials. Trust is in exactly these.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}", self.access().server(), self.ledger)
    }

    /// Returns the access without a password.
    pub(crate) fn access(&self) -> DatabaseAccess {
        DatabaseAccess::new(self.url.clone(), self.ledger.clone())
    }

    /// Returns the access with the password. It may run the command of the user that prints it.
    pub(crate) fn with_password(&self, env: &Environment) -> Result<DatabaseAccess> {
        let password = password(env, &self.url)?;
        Ok(self.access().with_password(password))
    }
}

/// Returns the address in an argument. All users of the machine can see the arguments of a process.
fn of_argument(text: &str) -> Result<DatabaseUrl> {
    match DatabaseUrl::configured(text) {
        Ok(url) => Ok(url),
        Err(UrlError::PasswordInFile) => Err(Failure::usage(
            "--database has an address with a password, which others could see among the processes",
        )
        .hint(format!("set {DATABASE_URL} and leave the address out"))),
        Err(why) => Err(Failure::usage(why.to_string())),
    }
}

/// Returns the address in the variable. The failure does not contain it.
fn of_variable(text: &str) -> Result<DatabaseUrl> {
    DatabaseUrl::parse(text)
        .map_err(|why| Failure::config(format!("the variable {DATABASE_URL}: {why}")))
}

fn of_user(env: &Environment, url: DatabaseUrl) -> DatabaseUrl {
    let user = ["PGUSER", "USER", "LOGNAME"].iter().find_map(|name| env.text(name).ok().flatten());
    url.or_user(user.unwrap_or("postgres"))
}

/// Returns the name of a ledger that has none: that of the top directory of the repository.
fn usual_name(root: &StateRoot) -> LedgerName {
    let top = glance::top_level(root.path()).unwrap_or_else(|| root.path().to_owned());
    let name = top.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    LedgerName::of_directory(name)
}

/// Returns the access to the ledger of a root, if this user trusts it, and if there is one truth.
pub(crate) fn trusted_access(env: &Environment, root: &StateRoot) -> Result<DatabaseAccess> {
    let place = DatabasePlace::of(env, root)?;
    let identity = place.identity();
    let Some(trusted) = Trust::of_user(env)?.ledger(root, &identity)? else {
        let what = format!(
            "{} is not trusted to use the ledger {} in the database {}; nothing was connected",
            root.path().display(),
            place.ledger,
            place.access().server()
        );
        return Err(Failure::config(what).hint("to use it on this machine: `harness trust`"));
    };
    if fs::symlink_metadata(root.ledger()).is_ok() {
        let what = format!(
            "{} is there, but harness.toml says that the ledger is in the database {}",
            root.ledger().display(),
            place.access().server()
        );
        return Err(Failure::config(what)
            .hint("`harness store push` copies the file into the database and archives it")
            .hint("or remove [store] from harness.toml to use the file"));
    }
    Ok(place.with_password(env)?.with_durability(trusted.durability()))
}

/// Returns what `--unsafe-durability` means.
pub(crate) fn durability(accepts_loss: bool) -> Durability {
    if accepts_loss { Durability::Unsafe } else { Durability::Required }
}

/// Trusts a ledger that this user has just chosen, with the lines of harness.toml that name it.
pub(crate) fn trust_ledger(
    env: &Environment,
    root: &StateRoot,
    place: &DatabasePlace,
    unsafe_durability: bool,
) -> Result<()> {
    let trust = Trust::of_user(env)?;
    let mut made = WouldRun::settings(root).items;
    made.retain(|item| item.shown.starts_with(&format!("{TABLE}: ")));
    trust.grant(root, &made)?;
    trust.grant_ledger(root, TrustedLedger { identity: place.identity(), unsafe_durability })
}

/// Returns the password: of the variable, of PGPASSWORD, of the password file, or of the command of the
/// user; `None` if there is none, because a server may need none.
fn password(env: &Environment, url: &DatabaseUrl) -> Result<Option<Password>> {
    if let Some(password) = url.password() {
        return Ok(Some(password.clone()));
    }
    if let Some(text) = env.text(DATABASE_URL)?
        && let Some(password) = of_variable(text)?.password()
        && of_variable(text)?.host() == url.host()
    {
        return Ok(Some(password.clone()));
    }
    if let Some(password) = env.text(PASSWORD)? {
        return Ok(Some(Password::new(password)));
    }
    if let Some(password) = in_password_file(env, url) {
        return Ok(Some(password));
    }
    // The file of a project cannot set it.
    let own = config::load(env, None, Overrides::default())?.config.store.password_command;
    own.map(|command| by_command(&command)).transpose()
}

fn in_password_file(env: &Environment, url: &DatabaseUrl) -> Option<Password> {
    let usual = || env.path("HOME").map(|home| home.join(".pgpass"));
    let file: PathBuf = env.path(PASSWORD_FILE).map(Path::to_owned).or_else(usual)?;
    let found = fs::metadata(&file).ok()?;
    if found.permissions().mode() & 0o077 != 0 {
        let file = file.display();
        warn(&format!("{file} is not used, because others can read it; `chmod 600` corrects that"));
        return None;
    }
    password_in(&fs::read_to_string(&file).ok()?, url)
}

/// Runs the command of the user. Its output is the password, and its errors are shown.
fn by_command(command: &str) -> Result<Password> {
    let ran = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| Failure::error(format!("cannot run `store.password_command`: {why}")))?;
    if !ran.status.success() {
        let what = format!("`store.password_command` failed ({})", ran.status);
        return Err(Failure::config(what));
    }
    let text = String::from_utf8(ran.stdout)
        .map_err(|_| Failure::config("`store.password_command` printed no text"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    match text.is_empty() {
        true => Err(Failure::config("`store.password_command` printed nothing")),
        false => Ok(Password::new(text)),
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        use DatabaseError as E;
        let text = error.to_string();
        match error {
            E::NoLedger { .. } => Self::config(text).hint(
                "create it with `harness init --database`, or correct `ledger` in harness.toml",
            ),
            E::LedgerTaken { .. } => Self::error(text).hint(
                "another project may use it: choose another name with --ledger, or join it with \
                 `ledger` in harness.toml",
            ),
            E::Login { .. } => Self::config(text).hint(format!(
                "the password comes from {DATABASE_URL}, PGPASSWORD, ~/.pgpass or \
                 `password_command` in your own configuration"
            )),
            E::Url(_)
            | E::Tls { .. }
            | E::NoDatabase { .. }
            | E::NoRights { .. }
            | E::NoSchema { .. }
            | E::NotOurs { .. }
            | E::OlderSchema { .. }
            | E::NewerSchema { .. }
            | E::Replica { .. }
            | E::TooOld { .. }
            | E::Unsafe { .. } => Self::config(text),
            // The rest passes, or needs another look.
            _ => Self::error(text),
        }
    }
}
