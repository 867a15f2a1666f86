//! `cargo xtask test --real-agents`: the agents from their own packages, against a scripted model.

use std::{path::Path, process::Command};

use crate::run::{Done, answers, cargo, root, run};

/// The versions that the adapters are known to support.
const PACKAGES: [(&str, &str); 4] = [
    ("claude", "@anthropic-ai/claude-code@2.1.325"),
    ("codex", "@openai/codex@0.166.0"),
    ("codex-acp", "@agentclientprotocol/codex-acp@2.6.0"),
    ("qwen", "@qwen-code/qwen-code@0.24.4"),
];

/// The client that drives `harness acp`. It has no program of its own.
const ACP_CLIENT: (&str, &str, &str) = ("acp-sdk", "@agentclientprotocol/sdk", "2.4.0");

/// Installs missing agents below `target`, and runs the tests that need them. The user's own agents
/// are not used: every test has a home of its own, an invalid key and a model on loopback. Only the
/// installation needs the network.
pub(crate) fn test() -> Done {
    let folder = root().join("target/real-agents");
    for (name, package) in PACKAGES {
        install(&folder.join(name), name, package)?;
    }
    let (name, package, version) = ACP_CLIENT;
    install_library(&folder.join(name), package, version)?;
    eprintln!("the agents are in {}", folder.display());
    let tests = ["test", "--package", "harness-supervisor-cli", "--test", "real", "--"];
    run(cargo().env("HARNESS_REAL_AGENTS", &folder).args(tests).args([
        "--ignored",
        "--test-threads",
        "2",
    ]))
}

fn install(folder: &Path, name: &str, package: &str) -> Done {
    let program = folder.join("node_modules/.bin").join(name);
    let version = package.rsplit('@').next().unwrap_or_default();
    // Some of them write there even when they only report their version.
    let home = folder.join("home");
    std::fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
    if is_version(&program, version, &home) {
        eprintln!("{package} is installed already");
        return Ok(());
    }
    by_npm(folder, &home, package)?;
    match is_version(&program, version, &home) {
        true => Ok(()),
        false => Err(format!("{package} was installed, but {} does not work", program.display())),
    }
}

fn install_library(folder: &Path, package: &str, version: &str) -> Done {
    let home = folder.join("home");
    std::fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
    let about = folder.join("node_modules").join(package).join("package.json");
    let is_there = || {
        let text = std::fs::read_to_string(&about).unwrap_or_default();
        text.contains(&format!("\"version\": \"{version}\""))
    };
    if !is_there() {
        by_npm(folder, &home, &format!("{package}@{version}"))?;
    }
    if is_there() { Ok(()) } else { Err(format!("{package} is not in {}", folder.display())) }
}

fn by_npm(folder: &Path, home: &Path, package: &str) -> Done {
    if !answers(Command::new("npm").arg("--version")) {
        return Err(format!("npm is needed to install {package}, and it cannot be run"));
    }
    eprintln!("{package} is installed into {} by npm", folder.display());
    let mut npm = Command::new("npm");
    // The user's registry or proxy is used, and nothing else in the home.
    if let Some(home) = std::env::home_dir() {
        npm.env("NPM_CONFIG_USERCONFIG", home.join(".npmrc"));
    }
    let options = ["--no-audit", "--no-fund", "--no-save", "--no-update-notifier", "--prefix", "."];
    run(npm.current_dir(folder).env("HOME", home).arg("install").args(options).arg(package))
}

fn is_version(program: &Path, version: &str, home: &Path) -> bool {
    let said = Command::new(program).arg("--version").env("HOME", home).output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(version))
}
