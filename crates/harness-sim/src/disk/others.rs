//! What other programs do to the files of ours. None of it is a step of the harness.

use harness::store::disk::File;

use super::SimDisk;

impl SimDisk {
    /// Somebody else saves the file, in place. Editors sync.
    pub fn edit(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.overwrite(file, bytes);
        platter.sync_names();
    }

    /// Somebody else puts a file there, in place of whatever was there.
    pub fn put(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.create(file, bytes);
        platter.sync(file);
        platter.sync_names();
    }

    /// Somebody else removes the file.
    pub fn remove(&self, file: File) {
        let platter = &mut self.state().platter;
        platter.name(file, None);
        platter.sync_names();
    }

    /// Somebody else writes a receipt, by the name of its file.
    pub fn put_receipt(&self, name: String, bytes: Vec<u8>) {
        self.state().platter.receipts.insert(name, bytes);
    }

    /// Somebody else removes all receipts, and their folder.
    pub fn remove_receipts(&self) {
        let platter = &mut self.state().platter;
        platter.receipts.clear();
        platter.receipts_gone = true;
    }

    pub fn has_receipt(&self, name: &str) -> bool {
        self.state().platter.receipts.contains_key(name)
    }

    /// Somebody else adds to the file, durably.
    pub fn add_lines(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.append(file, bytes);
        platter.sync(file);
    }
}
