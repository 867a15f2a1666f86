//! Checks that exported type names are unique in the two libraries, so that one name has one
//! meaning.

use std::{collections::BTreeMap, fs, path::Path};

use crate::run::{Done, root};

const CRATES: [&str; 2] = ["harness", "harness_core"];
const KINDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Reads the lists of items that `cargo doc` has just generated.
pub(crate) fn unique() -> Done {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), Into::into);
    let mut pages = Vec::new();
    for name in CRATES {
        let page = Path::new(&target).join("doc").join(name).join("all.html");
        let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        pages.push((name, text));
    }
    let found = clashes(&pages);
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("exported types share a name:\n  {}", found.join("\n  ")))
}

/// Returns the clashes. `pages` are crates with their `all.html`, whose entries are `<a
/// href="path/kind.Name.html">`.
fn clashes(pages: &[(&str, String)]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (krate, page) in pages {
        for link in page.split("<a href=\"").skip(1) {
            let Some(path) = link.split("\">").next() else { continue };
            let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
            let mut parts = file.split('.');
            let (Some(kind), Some(name), Some("html")) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if KINDS.contains(&kind) {
                places.entry(name).or_default().push(format!("{krate}/{folder}"));
            }
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_two_places_is_a_clash_and_functions_do_not_count() {
        let one = r#"<li><a href="store/struct.Writer.html">store::Writer</a></li>
            <li><a href="fn.run.html">run</a></li><li><a href="struct.Run.html">Run</a></li>"#;
        let two = r#"<li><a href="fn.run.html">run</a></li>
            <li><a href="hub/enum.Writer.html">hub::Writer</a></li>"#;
        let pages = [("a", one.to_owned()), ("b", two.to_owned())];
        assert_eq!(clashes(&pages), ["Writer: a/store, b/hub"]);
    }
}
