//! Globs over the files of the main tree, walked part by part, so that no folder is read that cannot
//! match.

use std::{fs, io, path::Path};

use crate::workspace::{object::absent, path::RepoPath};

/// The deepest folder into which `**` descends.
const DEPTH: usize = 32;

/// Returns the paths below `top` that `pattern` matches: `*` and `?` within one part, `**` for any
/// number of folders. A path through a link does not match.
pub(super) fn matches(top: &Path, pattern: &str) -> io::Result<Vec<RepoPath>> {
    let parts: Vec<_> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let mut found = Vec::new();
    if parts.is_empty() || parts.contains(&"..") {
        return Ok(found);
    }
    walk(top, &[], &parts, DEPTH, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn walk(
    folder: &Path,
    below: &[u8],
    parts: &[&str],
    depth: usize,
    found: &mut Vec<RepoPath>,
) -> io::Result<()> {
    let Some((part, rest)) = parts.split_first().filter(|_| depth > 0) else { return Ok(()) };
    if *part == "**" {
        walk(folder, below, rest, depth, found)?;
    }
    if !part.contains(['*', '?']) {
        return visit(folder, below, part.as_bytes(), rest, depth, found);
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        use std::os::unix::ffi::OsStrExt;
        let name = entry?.file_name();
        match *part {
            "**" => visit(folder, below, name.as_bytes(), parts, depth, found)?,
            part if fits(part.as_bytes(), name.as_bytes()) => {
                visit(folder, below, name.as_bytes(), rest, depth, found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn visit(
    folder: &Path,
    below: &[u8],
    name: &[u8],
    rest: &[&str],
    depth: usize,
    found: &mut Vec<RepoPath>,
) -> io::Result<()> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    if name == b".git" {
        return Ok(());
    }
    let place = folder.join(OsStr::from_bytes(name));
    let Ok(metadata) = fs::symlink_metadata(&place) else { return Ok(()) };
    let path = if below.is_empty() { name.to_vec() } else { [below, b"/", name].concat() };
    if rest.is_empty() || (rest == ["**"] && !metadata.is_dir()) {
        found.push(RepoPath::new(&path));
        return Ok(());
    }
    if metadata.is_dir() { walk(&place, &path, rest, depth - 1, found) } else { Ok(()) }
}

/// Returns whether a name fits one part of a pattern.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        (Some((b'?', rest)), Some((_, name))) => fits(rest, name),
        (Some((wanted, rest)), Some((found, name))) => wanted == found && fits(rest, name),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_by_part_and_stay_below_the_top() {
        let top = tempfile::tempdir().unwrap();
        for file in [".env", ".env.local", "env", "a/.env", "a/b/.env", "a/x.json", ".git/.env"] {
            let file = top.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(".env"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), top.path().join("link")).unwrap();
        let of = |pattern: &str| -> Vec<String> {
            matches(top.path(), pattern).unwrap().iter().map(RepoPath::shown).collect()
        };
        assert_eq!(of(".env*"), [".env", ".env.local"]);
        assert_eq!(of("**/.env"), [".env", "a/.env", "a/b/.env"]);
        assert_eq!(of("a/*.json"), ["a/x.json"]);
        assert_eq!(of("a/?.json"), ["a/x.json"]);
        assert_eq!(of("./a"), ["a"]);
        assert_eq!(of("a/**"), ["a/.env", "a/b/.env", "a/x.json"]);
        for none in ["../x", "", "missing/*", "link/.env", ".git/.env", "*/../.env"] {
            assert!(of(none).is_empty(), "{none}");
        }
    }
}
