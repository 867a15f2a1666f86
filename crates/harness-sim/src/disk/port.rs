//! The simulated implementation of the port [`Disk`].

use std::io;

use harness::{
    home::FileStamp,
    store::disk::{Disk, File},
};

use super::{Quirk, SimDisk, gone, mangled};

impl Disk for SimDisk {
    fn identity(&self, file: File) -> io::Result<Option<FileStamp>> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        let identity = state.platter.identity(file);
        Ok(match state.quirk {
            Quirk::StaleIdentity => identity.map(|i| FileStamp {
                inode: 1,
                size: 0,
                modified_ns: 0,
                changed_ns: 0,
                ..i
            }),
            _ => identity,
        })
    }

    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>> {
        let Some(identity) = self.identity(file)? else { return Ok(None) };
        Ok(Some((self.bytes(file), identity)))
    }

    fn size(&self, file: File) -> io::Result<u64> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        Ok(state.platter.bytes(file).len() as u64)
    }

    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>> {
        let size = self.size(file)?;
        let from = usize::try_from(offset.min(size)).unwrap_or(usize::MAX);
        Ok(self.bytes(file)[from..].to_vec())
    }

    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
        let size = self.size(file)?;
        self.read_from(file, size.saturating_sub(max_bytes))
    }

    fn write_tmp(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut state = self.state();
        let bytes = mangled(state.quirk, &pieces.concat());
        state.act(|p| p.name(File::Tmp, None))?;
        let turn = state.turn()?;
        let part = state.part(&turn, &bytes);
        state.platter.create(File::Tmp, part);
        state.done(turn)?;
        let quirk = state.quirk;
        let synced = state.act(|p| {
            if quirk != Quirk::TmpUnsynced {
                p.sync(File::Tmp);
            }
        });
        if synced.is_err() && state.crashed.is_none() {
            state.platter.name(File::Tmp, None);
        }
        synced
    }

    fn keep_backup(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.quirk == Quirk::NoBackup {
            return Ok(());
        }
        state.act(|p| p.name(File::Backup, None))?;
        state.act(|p| p.name(File::Backup, p.number(File::Ledger)))
    }

    fn publish(&self) -> io::Result<()> {
        let mut state = self.state();
        let quirk = state.quirk;
        if quirk == Quirk::PublishInPlace {
            let turn = state.turn()?;
            let bytes = state.platter.bytes(File::Tmp).to_vec();
            let part = state.part(&turn, &bytes);
            match state.platter.number(File::Ledger) {
                Some(_) => state.platter.overwrite(File::Ledger, part),
                None => state.platter.create(File::Ledger, part),
            }
            return state.done(turn);
        }
        state.act(|p| {
            p.name(File::Ledger, p.number(File::Tmp));
            p.name(File::Tmp, None);
        })
    }

    fn sync_root(&self) -> io::Result<()> {
        let mut state = self.state();
        let quirk = state.quirk;
        state.act(|p| {
            if quirk != Quirk::RootUnsynced {
                p.sync_names();
            }
        })
    }

    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let turn = state.turn()?;
        let part = state.part(&turn, bytes);
        state.platter.append(file, part);
        state.done(turn)
    }

    fn sync(&self, file: File) -> io::Result<()> {
        let mut state = self.state();
        if state.platter.number(file).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let quirk = state.quirk;
        state.act(|p| {
            if quirk != Quirk::LogUnsynced {
                p.sync(file);
            }
        })
    }

    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        let mut state = self.state();
        let turn = state.turn()?;
        let number = state.platter.archive.len();
        let name = format!("{name}-{number}");
        if state.happens(&turn) {
            state.platter.archive.push((name.clone(), bytes.to_vec()));
        }
        state.done(turn)?;
        Ok(name)
    }

    fn make_marker(&self) -> io::Result<()> {
        self.state().act(|p| {
            if p.number(File::Marker).is_none() {
                p.create(File::Marker, &[]);
            }
        })
    }

    fn ensure_home(&self) -> io::Result<()> {
        // Creating an existing directory is not a step.
        if self.state().crashed.is_some() { Err(gone()) } else { Ok(()) }
    }

    fn has_receipts(&self) -> io::Result<bool> {
        let state = self.state();
        if state.crashed.is_some() { Err(gone()) } else { Ok(!state.platter.receipts_gone) }
    }

    fn make_receipts(&self) -> io::Result<()> {
        self.ensure_home()?;
        self.state().platter.receipts_gone = false;
        Ok(())
    }

    fn journals(&self) -> bool {
        true
    }

    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        // The file is written aside, so a process that dies here has changed nothing.
        state.act(|_| {})?;
        state.act(|p| p.create(File::Journal, bytes))
    }

    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        let turn = state.turn()?;
        state.done(turn)?;
        Ok(state.platter.receipts.get(name).cloned())
    }

    fn keep_receipt(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.state().act(move |p| _ = p.receipts.insert(name, bytes))
    }
}
