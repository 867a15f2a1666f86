//! Checks whether an agent has credentials, by the variables and files that it reads and without a
//! request. Only its server knows whether they are still valid.

use std::path::PathBuf;

use crate::environment::Environment;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// The variable or file that contains them.
    By(String),
    None {
        fix: String,
    },
    /// No login is needed. The text names the provider.
    NotNeeded(String),
    /// Nothing is known of this agent.
    Unknown,
}

struct Place {
    variables: &'static [&'static str],
    /// The variable of the folder, or the folder below the home.
    home: (&'static str, &'static str),
    files: &'static [&'static str],
    fix: &'static str,
}

fn place(name: &str) -> Option<Place> {
    Some(match name {
        "codex" => Place {
            variables: &["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
            home: ("CODEX_HOME", ".codex"),
            files: &["auth.json"],
            fix: "run `codex login`, or set CODEX_API_KEY",
        },
        "gemini" => Place {
            variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
            home: ("GEMINI_CLI_HOME", ".gemini"),
            files: &["oauth_creds.json"],
            fix: "run `gemini` once, or set GEMINI_API_KEY",
        },
        "opencode" => Place {
            variables: &["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
            home: ("", ".local/share/opencode"),
            files: &["auth.json"],
            fix: "run `opencode auth login`",
        },
        "qwen" => Place {
            variables: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
            home: ("", ".qwen"),
            files: &["oauth_creds.json"],
            fix: "run `qwen` once, or set OPENAI_API_KEY",
        },
        "copilot" => Place {
            variables: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
            home: ("COPILOT_HOME", ".copilot"),
            files: &["config.json"],
            fix: "run `copilot login`, or set COPILOT_GITHUB_TOKEN",
        },
        _ => return None,
    })
}

pub(super) fn of(env: &Environment, name: &str) -> Login {
    let Some(place) = place(name) else { return Login::Unknown };
    if let Some(variable) = place.variables.iter().find(|name| env.get(name).is_some()) {
        return Login::By((*variable).to_owned());
    }
    let (variable, folder) = place.home;
    let own = env.path(variable).map(PathBuf::from);
    let Some(home) = own.or_else(|| Some(env.path("HOME")?.join(folder))) else {
        return Login::None { fix: place.fix.to_owned() };
    };
    match place.files.iter().map(|file| home.join(file)).find(|file| file.is_file()) {
        Some(file) => Login::By(file.display().to_string()),
        None => Login::None { fix: place.fix.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_files_tell() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let none = Environment::of(&[("HOME", home)]);
        for name in ["codex", "gemini", "opencode", "qwen", "copilot"] {
            assert!(matches!(of(&none, name), Login::None { .. }), "{name}");
        }
        assert_eq!(of(&none, "mine"), Login::Unknown);
        let key = Environment::of(&[("HOME", home), ("CODEX_API_KEY", "k")]);
        assert_eq!(of(&key, "codex"), Login::By("CODEX_API_KEY".to_owned()));
        std::fs::create_dir(folder.path().join(".codex")).unwrap();
        let file = folder.path().join(".codex/auth.json");
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(of(&none, "codex"), Login::By(file.display().to_string()));
        let elsewhere = Environment::of(&[("HOME", home), ("CODEX_HOME", "/nowhere")]);
        assert!(matches!(of(&elsewhere, "codex"), Login::None { .. }));
    }
}
