//! The actions of other programs on our files. None of them is a step of harness.

use harness::store::disk::File;

use super::SimDisk;

impl SimDisk {
    /// Saves the file in place, as an editor does. Editors sync.
    pub fn edit(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.overwrite(file, bytes);
        platter.sync_names();
    }

    /// Creates or replaces a file, as another program does.
    pub fn put(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.create(file, bytes);
        platter.sync(file);
        platter.sync_names();
    }

    /// Removes the file, as another program does.
    pub fn remove(&self, file: File) {
        let platter = &mut self.state().platter;
        platter.name(file, None);
        platter.sync_names();
    }

    /// Writes a receipt under the name of its file, as another program does.
    pub fn put_receipt(&self, name: String, bytes: Vec<u8>) {
        self.state().platter.receipts.insert(name, bytes);
    }

    /// Removes all receipts and their folder, as another program does.
    pub fn remove_receipts(&self) {
        let platter = &mut self.state().platter;
        platter.receipts.clear();
        platter.receipts_gone = true;
    }

    pub fn has_receipt(&self, name: &str) -> bool {
        self.state().platter.receipts.contains_key(name)
    }

    /// Appends to the file durably, as another program does.
    pub fn add_lines(&self, file: File, bytes: &[u8]) {
        let platter = &mut self.state().platter;
        platter.append(file, bytes);
        platter.sync(file);
    }
}
