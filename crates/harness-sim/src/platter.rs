//! The contents of a disk, and the part of them that would survive a power loss.
//!
//! The model is the strict reading of POSIX. Bytes are durable up to the last sync of their file,
//! and names are durable as of the last sync of their directory. Of everything later, any part may
//! survive: each name separately, and each file cut anywhere. Nothing durable is ever lost.

use std::collections::BTreeMap;

use harness::{home::FileStamp, store::disk::File};

use crate::random::Random;

const FILES: [File; 8] = [
    File::Ledger,
    File::Backup,
    File::Tmp,
    File::Log,
    File::Marker,
    File::Trajectory,
    File::Lock,
    File::Journal,
];

pub(crate) const fn slot(file: File) -> usize {
    match file {
        File::Ledger => 0,
        File::Backup => 1,
        File::Tmp => 2,
        File::Log => 3,
        File::Marker => 4,
        File::Trajectory => 5,
        File::Lock => 6,
        File::Journal => 7,
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Inode {
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes that are durable.
    pub(crate) synced: usize,
    changed: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Platter {
    inodes: BTreeMap<u64, Inode>,
    names: [Option<u64>; FILES.len()],
    /// The values of each name since the directory was last synced, the durable one first.
    earlier: [Vec<Option<u64>>; FILES.len()],
    pub(crate) archive: Vec<(String, Vec<u8>)>,
    pub(crate) receipts: BTreeMap<String, Vec<u8>>,
    /// `true` if the folder of the receipts was removed.
    pub(crate) receipts_gone: bool,
    tick: u64,
}

impl Platter {
    pub(crate) fn number(&self, file: File) -> Option<u64> {
        self.names[slot(file)]
    }

    /// Returns the inode of the name after the worst power loss.
    pub(crate) fn durable_number(&self, file: File) -> Option<u64> {
        self.earlier[slot(file)].first().copied().unwrap_or(self.names[slot(file)])
    }

    pub(crate) fn inode(&self, number: u64) -> Option<&Inode> {
        self.inodes.get(&number)
    }

    pub(crate) fn file(&self, file: File) -> Option<&Inode> {
        self.inodes.get(&self.number(file)?)
    }

    pub(crate) fn bytes(&self, file: File) -> &[u8] {
        self.file(file).map_or(&[], |inode| &inode.bytes)
    }

    pub(crate) fn identity(&self, file: File) -> Option<FileStamp> {
        let number = self.number(file)?;
        let inode = self.inodes.get(&number)?;
        let changed_ns = i128::from(inode.changed);
        let size = inode.bytes.len() as u64;
        Some(FileStamp { device: 1, inode: number, size, modified_ns: changed_ns, changed_ns })
    }

    pub(crate) fn name(&mut self, file: File, number: Option<u64>) {
        let before = std::mem::replace(&mut self.names[slot(file)], number);
        self.earlier[slot(file)].push(before);
    }

    /// Creates a file under this name. Nothing of it is durable.
    pub(crate) fn create(&mut self, file: File, bytes: &[u8]) {
        self.tick += 1;
        let number = self.tick;
        let inode = Inode { bytes: bytes.to_vec(), synced: 0, changed: number };
        self.inodes.insert(number, inode);
        self.name(file, Some(number));
    }

    pub(crate) fn append(&mut self, file: File, bytes: &[u8]) {
        if self.number(file).is_none() {
            self.create(file, &[]);
        }
        self.tick += 1;
        let tick = self.tick;
        if let Some(inode) = self.names[slot(file)].and_then(|n| self.inodes.get_mut(&n)) {
            inode.bytes.extend_from_slice(bytes);
            inode.changed = tick;
        }
    }

    /// Replaces the bytes of a file durably, as an editor does that saves in place.
    pub(crate) fn overwrite(&mut self, file: File, bytes: &[u8]) {
        self.tick += 1;
        let tick = self.tick;
        if let Some(inode) = self.names[slot(file)].and_then(|n| self.inodes.get_mut(&n)) {
            *inode = Inode { bytes: bytes.to_vec(), synced: bytes.len(), changed: tick };
        }
    }

    pub(crate) fn sync(&mut self, file: File) {
        if let Some(inode) = self.names[slot(file)].and_then(|n| self.inodes.get_mut(&n)) {
            inode.synced = inode.bytes.len();
        }
    }

    pub(crate) fn sync_names(&mut self) {
        for earlier in &mut self.earlier {
            earlier.clear();
        }
        let names = self.names;
        self.inodes.retain(|number, _| names.contains(&Some(*number)));
    }

    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        for (name, earlier) in self.names.iter_mut().zip(&self.earlier) {
            let chosen = random.below(earlier.len() + 1);
            *name = earlier.get(chosen).copied().unwrap_or(*name);
        }
        for inode in self.inodes.values_mut() {
            let kept = inode.synced + random.below(inode.bytes.len() - inode.synced + 1);
            if random.percent(25) {
                // The size was written, but the content was not.
                inode.bytes[kept..].fill(0);
            } else {
                inode.bytes.truncate(kept);
            }
            inode.synced = inode.bytes.len();
        }
        self.sync_names();
    }
}
