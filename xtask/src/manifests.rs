//! Checks that a package has everything for its publication, so that a release does not fail on it.
//!
//! `cargo package` checks the rest, but takes minutes and a network; this takes neither.

/// Keys that every published package has, in its own manifest or through the workspace.
const KEYS: [&str; 8] = [
    "version",
    "edition",
    "rust-version",
    "license",
    "description",
    "readme",
    "keywords",
    "categories",
];
/// Names of the product that belong to other projects on crates.io.
const TAKEN: [&str; 3] = ["harness", "harness-core", "harness-cli"];
const WORKSPACE: &str = "Cargo.toml";

/// Complains about the manifests among `files`, which are the tracked files with their text.
pub(crate) fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let manifests = files.iter().filter(|(name, _)| name.ends_with("Cargo.toml"));
    let (of_workspace, of_packages): (Vec<_>, Vec<_>) =
        manifests.partition(|(name, _)| name == WORKSPACE);
    let mut unpublished = Vec::new();
    for (name, text) in &of_packages {
        let package = section(text, "[package]");
        if value(&package, "publish") == Some("false") {
            unpublished.push(name.trim_end_matches("/Cargo.toml"));
            continue;
        }
        for key in KEYS {
            if !package.iter().any(|line| is_key(line, key)) {
                found.push(format!("{name}: [package] has no `{key}`"));
            }
        }
        if let Some(taken) =
            value(&package, "name").filter(|n| TAKEN.contains(&n.trim_matches('"')))
        {
            found.push(format!("{name}: {taken} belongs to another project on crates.io"));
        }
    }
    for (name, text) in of_workspace {
        let version = value(&section(text, "[workspace.package]"), "version").unwrap_or("\"\"");
        for line in section(text, "[workspace.dependencies]") {
            let Some((_, path)) = line.split_once("path = \"") else { continue };
            let path = path.split('"').next().unwrap_or_default();
            let has_version = line.contains(&format!("version = {version}"));
            if !has_version && !unpublished.contains(&path) {
                found.push(format!("{name}: the dependency on {path} needs `version = {version}`"));
            }
            if line.contains("version = ") && unpublished.contains(&path) {
                found.push(format!("{name}: {path} is not published, so it has no version here"));
            }
        }
    }
    found
}

/// Returns the lines between a heading and the next one.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let after = text.lines().skip_while(|line| *line != heading).skip(1);
    after.take_while(|line| !line.starts_with('[')).collect()
}

fn is_key(line: &str, key: &str) -> bool {
    line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '=', '.']))
}

fn value<'a>(lines: &[&'a str], key: &str) -> Option<&'a str> {
    let line = lines.iter().find(|line| is_key(line, key))?;
    line.split_once('=').map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "[package]\nname = \"ours\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        description = \"It works\"\nreadme = \"README.md\"\nkeywords.workspace = true\n\
        categories.workspace = true\n\n[dependencies]\n";
    const ROOT: &str = "[workspace.package]\nversion = \"0.2.0\"\n\n[workspace.dependencies]\n\
        ours = { path = \"crates/ours\", version = \"0.2.0\" }\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(n, t)| ((*n).into(), (*t).into())).collect();
        complaints(&files)
    }

    #[test]
    fn a_complete_manifest_passes() {
        let none = found(&[("Cargo.toml", ROOT), ("crates/ours/Cargo.toml", COMPLETE)]);
        assert_eq!(none, Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_named() {
        let bare = COMPLETE.replace("readme = \"README.md\"\n", "");
        let root = ROOT.replace(", version = \"0.2.0\"", ", version = \"0.1.0\"");
        let named = COMPLETE.replace("\"ours\"", "\"harness\"");
        let sim = "[package]\nname = \"sim\"\npublish = false\n";
        let pinned = ROOT.replace("crates/ours", "crates/sim");
        let cases: [(&[(&str, &str)], &str); 4] = [
            (&[("crates/ours/Cargo.toml", &bare)], "[package] has no `readme`"),
            (&[("Cargo.toml", &root)], "needs `version = \"0.2.0\"`"),
            (&[("crates/ours/Cargo.toml", &named)], "belongs to another project"),
            (&[("Cargo.toml", &pinned), ("crates/sim/Cargo.toml", sim)], "is not published"),
        ];
        for (files, what) in cases {
            let found = found(files);
            assert!(found.len() == 1 && found[0].contains(what), "{found:?} has no {what}");
        }
    }
}
