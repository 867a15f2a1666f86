//! `cargo xtask docs --site`: the documentation as a web site, made by mdBook.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::{
    run::{Done, root, run},
    tools,
};

const MDBOOK: tools::Tool = tools::Tool {
    name: "mdbook",
    program: "mdbook",
    version: "0.5.4",
    options: &["--no-default-features", "--features", "search"],
};
/// What the site is made of, besides the files that its pages link to.
const PAGES: [&str; 5] =
    ["README.md", "PROTOCOL.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
const FOLDERS: [&str; 3] = ["docs", "examples", "schema"];

/// Builds `target/site`, and checks that no link in it is dead.
pub(crate) fn build() -> Done {
    let mdbook = tools::find(&MDBOOK)?;
    let (source, site) = (root().join("target/site-source"), root().join("target/site"));
    stage(&source).map_err(|why| format!("{}: {why}", source.display()))?;
    run(Command::new(mdbook).arg("build").arg(root()).arg("--dest-dir").arg(&site))?;
    keep_names(&site).map_err(|why| format!("{}: {why}", site.display()))?;
    let dead = dead_links(&site).map_err(|why| format!("{}: {why}", site.display()))?;
    if !dead.is_empty() {
        return Err(format!("the site has dead links:\n  {}", dead.join("\n  ")));
    }
    eprintln!("the site is {}", site.join("index.html").display());
    Ok(())
}

/// Copies the pages in the layout of the repository, so that their links work on the site too.
fn stage(source: &Path) -> std::io::Result<()> {
    _ = fs::remove_dir_all(source);
    let mut files: BTreeSet<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
    for folder in FOLDERS {
        files.extend(below(&root().join(folder))?);
    }
    let linked: Vec<PathBuf> = files.iter().flat_map(|page| linked_files(page)).collect();
    files.extend(linked);
    for file in &files {
        let copy = source.join(file);
        fs::create_dir_all(copy.parent().unwrap_or(source))?;
        fs::copy(root().join(file), copy)?;
    }
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md"))?;
    let summary = summary.replace("](", "](docs/").replace("](docs/../", "](");
    fs::write(source.join("SUMMARY.md"), summary)
}

/// Returns the files below a folder, by their paths in the repository.
fn below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        } else if let Ok(name) = path.strip_prefix(root()) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// Returns the files of the repository that a page links to and that are no pages.
fn linked_files(page: &Path) -> Vec<PathBuf> {
    if page.extension().is_none_or(|end| end != "md") {
        return Vec::new();
    }
    let text = fs::read_to_string(root().join(page)).unwrap_or_default();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let targets = links.filter(|link| !link.contains("://") && !link.ends_with(".md"));
    let folder = root().join(page.parent().unwrap_or(Path::new("")));
    let files = targets.filter_map(|link| folder.join(link).canonicalize().ok());
    let top = root().canonicalize().unwrap_or_else(|_| root().to_owned());
    files
        .filter(|path| path.is_file())
        .filter_map(|path| Some(path.strip_prefix(&top).ok()?.to_owned()))
        .collect()
}

/// mdBook calls a README.md index.html, but does not change all links to it. So it gets both names.
fn keep_names(site: &Path) -> std::io::Result<()> {
    for folder in [site.to_owned(), site.join("examples")] {
        fs::copy(folder.join("index.html"), folder.join("README.html"))?;
    }
    Ok(())
}

/// Returns the links and images of the built site that lead to no file of it, or to no heading of
/// the page.
fn dead_links(site: &Path) -> std::io::Result<Vec<String>> {
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut folders = vec![site.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                let text = fs::read_to_string(&path)?;
                pages.insert(path, text);
            }
        }
    }
    let mut dead = Vec::new();
    // The page for missing addresses is served from anywhere.
    for (path, text) in pages.iter().filter(|(path, _)| !path.ends_with("404.html")) {
        let page = path.strip_prefix(site).unwrap_or(path).display();
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = file.split('?').next().unwrap_or_default();
            let target = match file {
                "" => path.clone(),
                file => plain(&path.parent().unwrap_or(site).join(file)),
            };
            if !target.exists() {
                dead.push(format!("{page}: {link}"));
            } else if let Some(there) = pages.get(&target).filter(|_| !anchor.is_empty())
                && !there.contains(&format!("id=\"{anchor}\""))
            {
                dead.push(format!("{page}: {link}: the page has no such heading"));
            }
        }
    }
    Ok(dead)
}

/// Returns the links and images of a page that lead to the same site.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let of =
        |name: &'static str| text.split(name).skip(1).filter_map(|rest| rest.split('"').next());
    of(" href=\"").chain(of(" src=\"")).filter(|link| !link.is_empty() && !link.contains(':'))
}

/// Returns a path without `..`, so that it can be compared.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_pages_headings_and_images_are_found() {
        let site = std::env::temp_dir().join(format!("harness-site-{}", std::process::id()));
        fs::create_dir_all(site.join("docs")).unwrap();
        let write = |name: &str, text: &str| fs::write(site.join(name), text).unwrap();
        write("index.html", r##"<h1 id="top"></h1> <a href="docs/a.html#one">, <a href="#top">"##);
        write(
            "docs/a.html",
            r#"<h2 id="one"></h2> <a href="../index.html#top">, <img src="a.png">"#,
        );
        write("docs/a.png", "");
        assert_eq!(dead_links(&site).unwrap(), Vec::<String>::new());
        write(
            "docs/b.html",
            r##"<a href="../a.html"> <a href="a.html#two"> <a href="#x"> <img src="b.png">"##,
        );
        assert_eq!(
            dead_links(&site).unwrap(),
            [
                "docs/b.html: ../a.html",
                "docs/b.html: a.html#two: the page has no such heading",
                "docs/b.html: #x: the page has no such heading",
                "docs/b.html: b.png",
            ]
        );
        write(
            "docs/b.html",
            r#"<a href="https://example.com/#x"> <a href="mailto:a@example.com">"#,
        );
        assert_eq!(dead_links(&site).unwrap(), Vec::<String>::new());
        fs::remove_dir_all(site).unwrap();
    }
}
