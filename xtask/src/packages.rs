//! Packages: `cargo xtask package npm BINARY PLATFORM FOLDER` makes those of npm, and
//! `cargo xtask test --packages` makes and installs each kind that this machine can, from the binary
//! of the debug build.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    docs,
    run::{Done, cargo, root, run},
    tools,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENSE: &str = env!("CARGO_PKG_LICENSE");
const ABOUT: &str = "Keeps coding agents working until the work is verifiably done";
/// The name was free in the registry when it was chosen.
const NPM: &str = "harness-supervisor";
const PLATFORMS: [&str; 4] = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"];
/// The crates that are published, each after those that it needs.
const CRATES: [&str; 3] =
    ["harness-supervisor-core", "harness-supervisor", "harness-supervisor-cli"];
const DEB: tools::Tool =
    tools::Tool { name: "cargo-deb", program: "cargo-deb", version: "3.8.0", options: &[] };

pub(crate) fn package(arguments: &[&str]) -> Done {
    match arguments {
        ["npm", binary, platform, folder] => {
            npm(Path::new(binary), platform, Path::new(folder)).map(drop)
        }
        ["extras"] => extras(&docs::program()),
        _ => Err("usage: cargo xtask package npm BINARY PLATFORM FOLDER | extras".into()),
    }
}

/// Makes every package, installs it in a folder of its own with an empty home, and runs it.
pub(crate) fn test() -> Done {
    run(cargo().args(["build", "--package", "harness-supervisor-cli"]))?;
    let work = root().join("target/packages");
    _ = fs::remove_dir_all(&work);
    made(&work)?;
    of_npm(&work)?;
    of_debian(&work)?;
    of_clone(&work)?;
    of_crates(&work)?;
    eprintln!(
        "the packages of npm, Debian and Cargo can be installed, and the programs in them work"
    );
    Ok(())
}

fn made(folder: &Path) -> Done {
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Done {
    path.parent().map_or(Ok(()), made)?;
    fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Checks that an installed program starts in an empty home, reports this version, and installs its
/// completions and manual pages there.
fn works(program: &Path, home: &Path) -> Done {
    made(home)?;
    let version = said(program, home, &["--version"])?;
    if version.trim() != format!("harness {VERSION}") {
        return Err(format!("{} reports the version {version:?}", program.display()));
    }
    for (arguments, file) in INSTALLS {
        said(program, home, arguments)?;
        if !home.join(file).is_file() {
            return Err(format!("`harness {}` wrote no ~/{file}", arguments.join(" ")));
        }
    }
    Ok(())
}

/// What an installed program can add to a home, and a file that is there afterwards.
const INSTALLS: [(&[&str], &str); 4] = [
    (&["completions", "bash", "--install"], ".local/share/bash-completion/completions/harness"),
    (&["completions", "zsh", "--install"], ".local/share/zsh/site-functions/_harness"),
    (&["completions", "fish", "--install"], ".config/fish/completions/harness.fish"),
    (&["man", "--install"], ".local/share/man/man1/harness.1"),
];

/// Returns what a program prints that has nothing but a home.
fn said(program: &Path, home: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    let ran = command.args(arguments).env("HOME", home).output();
    let ran = ran.map_err(|why| format!("{}: {why}", program.display()))?;
    if !ran.status.success() {
        let why = String::from_utf8_lossy(&ran.stderr).into_owned();
        return Err(format!("{} {} failed: {why}", program.display(), arguments.join(" ")));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Writes the package of one platform, with its binary, and the one that people install.
fn npm(binary: &Path, platform: &str, folder: &Path) -> Result<[PathBuf; 2], String> {
    if !PLATFORMS.contains(&platform) {
        return Err(format!("{platform:?} is none of {}", PLATFORMS.join(", ")));
    }
    let common = |name: &str| json!({ "name": name, "version": VERSION, "description": ABOUT, "license": LICENSE });
    let with = |mut document: Value, more: Value| {
        if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
            document.extend(more);
        }
        document
    };
    let text = |document: &Value| format!("{document:#}\n");
    let (os, cpu) = platform.split_once('-').unwrap_or_default();
    let of_platform = folder.join(format!("{NPM}-{platform}"));
    let name = format!("{NPM}-{platform}");
    let only_here = json!({ "os": [os], "cpu": [cpu], "files": ["bin/harness"] });
    write(&of_platform.join("package.json"), text(&with(common(&name), only_here)))?;
    write(&of_platform.join("README.md"), format!("The binary of {NPM} for {platform}.\n"))?;
    let copy = of_platform.join("bin/harness");
    copy.parent().map_or(Ok(()), made)?;
    fs::copy(binary, &copy).map_err(|why| format!("{}: {why}", binary.display()))?;

    let main = folder.join(NPM);
    let others: serde_json::Map<String, Value> =
        PLATFORMS.iter().map(|name| (format!("{NPM}-{name}"), json!(VERSION))).collect();
    let entry = json!({
        "keywords": ["agent", "claude", "codex", "automation"],
        "bin": { "harness": "bin/harness.js" },
        "files": ["bin/harness.js"],
        "engines": { "node": ">=18" },
        "optionalDependencies": others,
    });
    write(&main.join("package.json"), text(&with(common(NPM), entry)))?;
    for (from, to) in [("harness.js", "bin/harness.js"), ("README.md", "README.md")] {
        let from = root().join("packaging/npm").join(from);
        let text = fs::read(&from).map_err(|why| format!("{}: {why}", from.display()))?;
        write(&main.join(to), text)?;
    }
    Ok([of_platform, main])
}

/// Packs the two packages and installs them from their archives.
fn of_npm(work: &Path) -> Done {
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, cpu) => return Err(format!("there is no npm package for {os} on {cpu}")),
    };
    let folder = work.join("npm");
    let packages = npm(&docs::program(), platform, &folder)?;
    let home = work.join("npm-home");
    made(&home)?;
    let quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--offline"];
    for package in &packages {
        run(Command::new("npm")
            .arg("pack")
            .args(quiet)
            .current_dir(&folder)
            .arg(package)
            .env("HOME", &home))?;
    }
    let archive = |name: &str| folder.join(format!("{name}-{VERSION}.tgz"));
    let prefix = work.join("npm-prefix");
    // The packages of other platforms are in no registry yet, so npm does not look for any.
    let install = ["install", "--global", "--omit=optional", "--ignore-scripts"];
    run(Command::new("npm")
        .args(install)
        .args(quiet)
        .arg("--prefix")
        .arg(&prefix)
        .args([archive(&format!("{NPM}-{platform}")), archive(NPM)])
        .env("HOME", &home))?;
    works(&prefix.join("bin/harness"), &home)
}

/// Writes what packages contain besides the program: manual pages and completions.
fn extras(harness: &Path) -> Done {
    let folder = root().join("target/package-extras");
    _ = fs::remove_dir_all(&folder);
    run(Command::new(harness).args(["man", "--dir"]).arg(folder.join("man")))?;
    for (shell, name) in [("bash", "harness"), ("zsh", "_harness"), ("fish", "harness.fish")] {
        let said = Command::new(harness).args(["completions", shell]).output();
        let said = said.map_err(|why| why.to_string())?;
        write(&folder.join("completions").join(name), said.stdout)?;
    }
    Ok(())
}

/// Makes a Debian package and installs it below a folder, without being root.
fn of_debian(work: &Path) -> Done {
    extras(&docs::program())?;
    let deb = tools::find(&DEB)?;
    let package = work.join("harness.deb");
    run(Command::new(deb)
        .current_dir(root())
        .args(["--package", "harness-supervisor-cli", "--no-build", "--fast", "--profile", "dev"])
        .arg("--output")
        .arg(&package))?;
    let scratch = work.join("debian");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        made(&scratch.join(folder))?;
    }
    write(&scratch.join("var/lib/dpkg/status"), "")?;
    let mut with_root = OsString::from("--root=");
    with_root.push(&scratch);
    // The scratch folder has no git, and its files belong to the user who runs this.
    run(Command::new("dpkg")
        .arg(with_root)
        .args(["--force-not-root", "--force-depends", "--force-bad-path", "--log=/dev/null", "-i"])
        .arg(&package))?;
    for file in ["usr/share/man/man1/harness.1.gz", "usr/share/bash-completion/completions/harness"]
    {
        if !scratch.join(file).exists() {
            return Err(format!("the Debian package has no {file}"));
        }
    }
    works(&scratch.join("usr/bin/harness"), &work.join("debian-home"))
}

/// Installs the program from the sources, as somebody with a clone would.
fn of_clone(work: &Path) -> Done {
    let prefix = work.join("clone-prefix");
    run(cargo()
        .args(["install", "--debug", "--locked", "--path", "crates/harness-cli", "--root"])
        .arg(&prefix)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", root().join("target")))?;
    works(&prefix.join("bin/harness"), &work.join("clone-home"))
}

/// Packs the three crates, unpacks them elsewhere, and installs the program from there, as a user
/// of the registry would.
fn of_crates(work: &Path) -> Done {
    // Below the workspace, cargo would take them for members of it.
    let folder = std::env::temp_dir().join(format!("harness-crates-{}", std::process::id()));
    made(&folder)?;
    let installed = of_crates_in(&folder, work);
    _ = fs::remove_dir_all(&folder);
    installed
}

fn of_crates_in(folder: &Path, work: &Path) -> Done {
    let mut install = cargo();
    for package in CRATES {
        let packed = work.join("packed");
        run(cargo()
            .args([
                "package",
                "--package",
                package,
                "--no-verify",
                "--allow-dirty",
                "--exclude-lockfile",
            ])
            .arg("--target-dir")
            .arg(&packed))?;
        let archive = packed.join("package").join(format!("{package}-{VERSION}.crate"));
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder))?;
        let unpacked = folder.join(format!("{package}-{VERSION}"));
        if package != "harness-supervisor-cli" {
            let place = unpacked.display();
            install.args(["--config", &format!("patch.crates-io.{package}.path='{place}'")]);
        }
    }
    let prefix = work.join("cargo-prefix");
    run(install
        .args(["install", "--debug", "--path"])
        .arg(folder.join(format!("harness-supervisor-cli-{VERSION}")))
        .arg("--root")
        .arg(&prefix)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", root().join("target")))?;
    works(&prefix.join("bin/harness"), &work.join("cargo-home"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        fs::read_to_string(root().join(path)).unwrap()
    }

    /// cargo-binstall looks for the archives where the workflow of a release puts them.
    #[test]
    fn the_archives_have_the_names_that_cargo_binstall_looks_for() {
        let manifest = text("crates/harness-cli/Cargo.toml");
        let field = |name: &str| {
            let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = ")));
            line.unwrap().split('"').nth(1).unwrap().to_owned()
        };
        let folder = "harness-{ version }-{ target }";
        let address = format!("{{ repo }}/releases/download/v{{ version }}/{folder}.tar.gz");
        assert_eq!(field("pkg-url"), address);
        assert_eq!(field("bin-dir"), format!("{folder}/{{ bin }}{{ binary-ext }}"));
        assert_eq!(field("pkg-fmt"), "tgz");
        let workflow = text(".github/workflows/release.yml");
        for line in [
            "version=${GITHUB_REF_NAME#v}",
            "folder=harness-$version-${{ matrix.target }}",
            r#"tar -czf "$folder.tar.gz" "$folder""#,
            "tags: [\"v*\"]",
        ] {
            assert!(workflow.contains(line), "{line}");
        }
    }

    #[test]
    fn the_workflow_makes_a_package_of_npm_for_each_platform() {
        let workflow = text(".github/workflows/release.yml");
        for platform in PLATFORMS {
            assert!(workflow.contains(&format!("npm: {platform} }}")), "{platform}");
        }
    }
}
