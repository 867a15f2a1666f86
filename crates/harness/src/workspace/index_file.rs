//! The user's index, read without git: versions 2 and 3 with SHA-1. Other formats are left to git.

use std::{fs, io};

use super::git::Git;

/// The bytes of the file.
pub(super) struct IndexFile(Vec<u8>);

/// The parts of one entry that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry<'a> {
    pub(super) path: &'a [u8],
    pub(super) mode: u32,
    pub(super) assume_unchanged: bool,
    pub(super) skip_worktree: bool,
}

/// The mode of a submodule.
const GITLINK: u32 = 0o160_000;

impl IndexEntry<'_> {
    pub(super) fn is_submodule(&self) -> bool {
        self.mode == GITLINK
    }
}

impl IndexFile {
    /// Reads the index. It is empty if there is none.
    pub(super) fn read(git: &Git) -> io::Result<Self> {
        match fs::read(git.git_dir.join("index")) {
            Ok(bytes) => Ok(Self(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Calls `visit` with each entry in order. Returns `None` if the format is unknown; the visited
    /// entries are then invalid.
    pub(super) fn entries<'a>(&'a self, mut visit: impl FnMut(IndexEntry<'a>)) -> Option<()> {
        const STAT: usize = 40;
        const MODE: usize = 24;
        const HASH: usize = 20;
        let bytes = self.0.as_slice();
        if bytes.is_empty() {
            return Some(());
        }
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let short = |at: usize| {
            let bytes = bytes.get(at..at + 2)?;
            Some(u16::from_be_bytes(bytes.try_into().ok()?))
        };
        let version = number(4)?;
        if bytes.get(..4)? != b"DIRC" || !matches!(version, 2 | 3) {
            return None;
        }
        let mut at = 12;
        for _ in 0..number(8)? {
            let first = short(at + STAT + HASH)?;
            let extended = first & 0x4000 != 0;
            let second = if extended { short(at + STAT + HASH + 2)? } else { 0 };
            let start = at + STAT + HASH + 2 + if extended { 2 } else { 0 };
            let length = match usize::from(first & 0x0fff) {
                0x0fff => bytes.get(start..)?.iter().position(|byte| *byte == 0)?,
                known => known,
            };
            let path = bytes.get(start..start + length)?;
            if path.is_empty() || path.contains(&0) || *bytes.get(start + length)? != 0 {
                return None;
            }
            visit(IndexEntry {
                path,
                mode: number(at + MODE)?,
                assume_unchanged: first & 0x8000 != 0,
                skip_worktree: second & 0x4000 != 0,
            });
            // One to eight zeros follow, so that entries begin at multiples of eight.
            at += (start + length - at + 8) & !7;
        }
        // Extensions follow. A shared index has its entries elsewhere, and a sparse one has
        // folders.
        while bytes.len().checked_sub(HASH)? > at {
            let name = bytes.get(at..at + 4)?;
            if name == b"link" || name == b"sdir" {
                return None;
            }
            at += 8 + usize::try_from(number(at + 4)?).ok()?;
        }
        (at == bytes.len() - HASH).then_some(())
    }
}
