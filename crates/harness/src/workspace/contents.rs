//! The files that harness itself reads in a state root, by content. Git sees neither ignored files
//! nor those in our own folder.

use std::{collections::BTreeMap, io, path::Path};

use harness_core::trust::Source;
use sha2::{Digest, Sha256};

use crate::{home::folder::Folder, prompts::TEMPLATES};

/// Larger files all count as the same content.
const BYTES_MAX: u64 = 1024 * 1024;

/// Returns digests of the settings, the init script and the prompts, by their paths from `root`. An
/// object that cannot be read, or is not a file, has a fixed content.
pub fn own_contents(root: &Path) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    if let Ok(folder) = Folder::open(root) {
        for path in [Source::Settings, Source::InitScript].into_iter().filter_map(Source::path) {
            contents.extend(digest(&folder, path).map(|digest| (path.to_owned(), digest)));
        }
    }
    let prompts = Source::Prompts.path().unwrap_or_default();
    match Folder::find(&root.join(prompts)) {
        Ok(Some(folder)) => {
            // Prompts of agents at work lie there too.
            for name in TEMPLATES {
                let found = digest(&folder, name);
                contents.extend(found.map(|digest| (format!("{prompts}/{name}"), digest)));
            }
        }
        Ok(None) => {}
        Err(why) => drop(contents.insert(prompts.to_owned(), why.to_string())),
    }
    contents
}

fn digest(folder: &Folder, name: &str) -> Option<String> {
    match folder.read_small(name, BYTES_MAX) {
        Ok(None) => None,
        Ok(Some(bytes)) => {
            let digest = Sha256::digest(&bytes);
            Some(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => None,
        Err(why) => Some(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn contents_are_distinguished() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        assert!(own_contents(&path).is_empty());
        fs::create_dir_all(path.join(".harness/prompts")).unwrap();
        fs::write(path.join(".harness/prompts/task.md"), "be good").unwrap();
        fs::write(path.join(".harness/prompts/1234.md"), "the prompt of an agent").unwrap();
        fs::write(path.join("harness.toml"), "").unwrap();
        let before = own_contents(&path);
        let names: Vec<_> = before.keys().map(String::as_str).collect();
        assert_eq!(names, [".harness/prompts/task.md", "harness.toml"]);
        fs::write(path.join(".harness/prompts/task.md"), "be bad").unwrap();
        let after = own_contents(&path);
        assert_ne!(before[".harness/prompts/task.md"], after[".harness/prompts/task.md"]);
        assert_eq!(before["harness.toml"], after["harness.toml"]);
    }
}
