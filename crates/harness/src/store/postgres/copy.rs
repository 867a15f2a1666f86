//! Copies a ledger between files and a database. Both sides are compared afterwards, and what is
//! replaced is archived.

use std::path::Path;

use harness_core::{
    Timestamp,
    database::same_ledger,
    format::{self, journal},
};
use tokio_postgres::types::Type;

use super::{
    Database, DatabaseAccess, DatabaseError,
    rows::{column, get},
    seed::Seed,
};
use crate::{
    home::Home,
    store::{
        FileStore, StoreError,
        disk::File,
        file::stamp,
        journal::Made,
        log_tail,
        version::{Backup, Known},
    },
};

/// The result of [`Database::push`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The number of tasks.
    pub tasks: usize,
    /// The paths of the archived files, relative to the root.
    pub archived: Vec<String>,
}

/// The result of [`Database::pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The version that was copied, for [`Database::retire`].
    pub version: u64,
    /// The number of tasks.
    pub tasks: usize,
    /// The paths of the archived files, relative to the root.
    pub archived: Vec<String>,
    /// Warnings for a person.
    pub warnings: Vec<String>,
}

impl Database {
    /// Copies the ledger of a root, its log and its receipts into a new ledger of a database. When both
    /// sides are equal, the files are archived, so that there is one truth.
    pub fn push(
        access: DatabaseAccess,
        files: &mut FileStore,
        now: Timestamp,
    ) -> Result<(Self, Pushed), StoreError> {
        let mut warnings = Vec::new();
        let _held = files.enter(&mut warnings)?;
        let Some((bytes, _)) = files.disk.read(File::Ledger)? else {
            return Err(StoreError::NoLedger { root: files.root.clone() });
        };
        let read = format::read_owned(bytes.clone());
        let (ledger, mut document) = read.map_err(|e| StoreError::Format(e.error))?;
        crate::store::transaction::writable(&ledger)?;
        files.finish_log(ledger.head())?;
        let revision = document.revision().max(1);
        document.settle(&ledger, revision, None);
        let text = document.text();
        let log = files.disk.read(File::Log)?.map(|(bytes, _)| bytes).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).lines().map(str::to_owned).collect();
        let receipts = local_receipts(files)?;
        let database = Self::prepared(access)?;
        let tasks = ledger.len();
        database.seed(Seed { ledger, document, log, receipts })?;
        let mut store = database.store();
        if !same_ledger(&store.export()?, &text) || !same_ledger(&store.replayed()?, &text) {
            return Err(DatabaseError::CopyDiffers.into());
        }
        let archived = archive_files(files, now)?;
        Ok((database, Pushed { tasks, archived }))
    }

    /// Copies the ledger, its log and its receipts into the files of a root. Files that are there are
    /// archived. The ledger in the database stays; [`retire`](Self::retire) takes it away.
    pub fn pull(&self, files: &mut FileStore, now: Timestamp) -> Result<Pulled, StoreError> {
        let mut store = self.store();
        let text = store.export()?;
        let version = store.last_seen().map_or(0, |seen| seen.version);
        let mut warnings = Vec::new();
        let _held = files.enter(&mut warnings)?;
        let archived = archive_files(files, now)?;
        let read = format::read_owned(text.clone().into_bytes());
        let (mut ledger, document) = read.map_err(|e| StoreError::Format(e.error))?;
        let tasks = ledger.len();
        ledger.set_log_tail(Vec::new(), 0);
        files.disk.ensure_home()?;
        files.disk.make_marker()?;
        files.disk.make_receipts()?;
        for (name, line) in self.all_receipts()? {
            files.disk.keep_receipt(&name, journal::receipt_file(&line).as_bytes())?;
        }
        let lines: Vec<String> = self.log_after(0)?.into_iter().map(|(_, line)| line).collect();
        files.disk.append(File::Log, &log_tail::text(&lines))?;
        files.disk.sync(File::Log)?;
        warnings.extend(files.write(
            Known::new(ledger, document, None),
            Made::default(),
            Backup::None,
        )?);
        let written = files.disk.read(File::Ledger)?.map(|(bytes, _)| bytes).unwrap_or_default();
        if !same_ledger(&String::from_utf8_lossy(&written), &text) {
            return Err(DatabaseError::CopyDiffers.into());
        }
        Ok(Pulled { version, tasks, archived, warnings })
    }

    /// Takes the ledger out of use, if it still has this version: it gets another name, and its content
    /// stays. Returns the name, or `None` if it was changed meanwhile. Nobody can change it afterwards.
    pub fn retire(
        &self,
        version: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<String>, DatabaseError> {
        let (ledger, version, stamp) = (self.0.ledger(), version.map(column), stamp(now));
        let sql = "UPDATE harness.ledger SET name = left(name, 40) || '.' || $3, \
                   retired_at = clock_timestamp() WHERE id = $1 AND version = coalesce($2, version) RETURNING name";
        self.0.side().again(|link| {
            let by = vec![
                (&ledger as _, Type::INT8),
                (&version as _, Type::INT8),
                (&stamp as _, Type::TEXT),
            ];
            link.query(sql, by)?.first().map(|row| get(row, 0)).transpose()
        })
    }

    fn all_receipts(&self) -> Result<Vec<(String, String)>, DatabaseError> {
        let ledger = self.0.ledger();
        let sql = "SELECT name, entry FROM harness.receipt WHERE ledger = $1 ORDER BY name";
        self.0.side().again(|link| {
            let rows = link.query(sql, vec![(&ledger, Type::INT8)])?;
            rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
        })
    }
}

fn local_receipts(files: &FileStore) -> Result<journal::Receipts, StoreError> {
    let mut all = journal::Receipts::new();
    let folder = Home::of(&files.root).receipts();
    let names = match std::fs::read_dir(&folder) {
        Ok(names) => names,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(all),
        Err(why) => return Err(why.into()),
    };
    for entry in names {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".json")) else { continue };
        let line = files.disk.receipt(name)?.and_then(|bytes| journal::receipt_line(&bytes));
        all.extend(line.map(|line| (name.to_owned(), line)));
    }
    Ok(all)
}

/// Archives the ledger, its backup, its log and its journal, and removes them from their places.
fn archive_files(files: &mut FileStore, now: Timestamp) -> Result<Vec<String>, StoreError> {
    let mut archived = Vec::new();
    files.disk.ensure_home()?;
    files.known = None;
    for (file, name) in [
        (File::Log, "harness-progress"),
        (File::Journal, "journal"),
        (File::Backup, "harness-tasks.bak"),
        (File::Ledger, "harness-tasks"),
    ] {
        let found = match file {
            File::Journal if !files.disk.journals() => None,
            file => files.disk.read(file)?,
        };
        let Some((bytes, _)) = found else { continue };
        if matches!(file, File::Journal) && bytes.is_empty() {
            continue;
        }
        let name = format!("{name}.{}.old", stamp(now));
        archived.push(format!("{}/{}", Home::ARCHIVE, files.disk.archive(&name, &bytes)?));
        match file {
            File::Journal => files.disk.replace_journal(b"")?,
            file => remove(&files.root.join(file.path()))?,
        }
    }
    files.disk.sync_root()?;
    Ok(archived)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
