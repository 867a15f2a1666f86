//! A state root, and the files that it has.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use sha2::{Digest as _, Sha256};

/// The 16 hexadecimal digits that stand for a state root in `/tmp`. `root` is canonical.
#[must_use]
pub fn root_hash(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_protocol() {
        // printf '%s' /home/me/project | sha256sum | cut -c1-16
        assert_eq!(root_hash(Path::new("/home/me/project")), "225df3094012a213");
    }
}
