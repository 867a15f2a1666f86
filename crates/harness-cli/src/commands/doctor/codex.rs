//! Determines the required sign-in from Codex's own configuration. Only OpenAI itself requires a
//! login. A provider of the user may require a variable, or nothing. No secret is read.

use std::path::{Path, PathBuf};

use harness::process::Allowed;
use toml::Table;

use super::login::{self, Login};
use crate::{config::Agent, environment::Environment};

/// Providers that are built into Codex and run on the same machine.
const LOCAL: [&str; 2] = ["ollama", "lmstudio"];

pub(super) fn login(env: &Environment, agent: &Agent) -> Login {
    let usual = || login::of(env, "codex");
    let own = env.path("CODEX_HOME").map(PathBuf::from);
    let Some(home) = own.or_else(|| Some(env.path("HOME")?.join(".codex"))) else { return usual() };
    match needs(&layers(&home, &agent.args), &agent.args) {
        Needs::Login => usual(),
        Needs::Nothing { provider } => Login::NotNeeded(provider),
        Needs::Variable { name } => variable(env, agent, &name),
        Needs::Unknown => Login::Unknown,
    }
}

/// Checks that the variable exists, and that Codex receives it.
fn variable(env: &Environment, agent: &Agent, name: &str) -> Login {
    let set = format!("{name}=");
    if agent.env.iter().any(|entry| entry.starts_with(&set)) {
        return Login::By(name.to_owned());
    }
    if env.get(name).is_none() {
        let fix = format!("set {name}, which its configuration names as `env_key`");
        return Login::None { fix };
    }
    match Allowed::codex().and(agent.env.clone()).allows(name) {
        true => Login::By(name.to_owned()),
        false => {
            let fix = format!("pass {name} to it: `env = [\"{name}\"]` in [agents.codex]");
            Login::None { fix }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Needs {
    Login,
    Variable { name: String },
    Nothing { provider: String },
    Unknown,
}

/// Returns Codex's configuration files, the one with the highest precedence first.
fn layers(home: &Path, args: &[String]) -> Vec<Table> {
    let profile = value_of(args, &["-p", "--profile"]).map(|name| format!("{name}.config.toml"));
    let names = profile.into_iter().chain(["config.toml".to_owned()]);
    let texts = names.filter_map(|name| std::fs::read_to_string(home.join(name)).ok());
    texts.filter_map(|text| text.parse().ok()).collect()
}

fn needs(layers: &[Table], args: &[String]) -> Needs {
    if args.iter().any(|arg| arg == "--oss") {
        return Needs::Nothing { provider: "oss".to_owned() };
    }
    let configured = layers.iter().find_map(|table| table.get("model_provider")?.as_str());
    let provider = overridden(args).or(configured).unwrap_or("openai");
    let table = layers.iter().find_map(|table| table.get("model_providers")?.get(provider));
    let Some(table) = table else {
        return match provider {
            "openai" => Needs::Login,
            local if LOCAL.contains(&local) => Needs::Nothing { provider: local.to_owned() },
            _ => Needs::Unknown,
        };
    };
    if table.get("requires_openai_auth").and_then(toml::Value::as_bool) == Some(true) {
        return Needs::Login;
    }
    match table.get("env_key").and_then(toml::Value::as_str) {
        Some(name) => Needs::Variable { name: name.to_owned() },
        None => Needs::Nothing { provider: provider.to_owned() },
    }
}

/// Returns the value of the last `-c model_provider=NAME`.
fn overridden(args: &[String]) -> Option<&str> {
    let values = args.windows(2).filter(|pair| matches!(pair[0].as_str(), "-c" | "--config"));
    let value = values.filter_map(|pair| pair[1].strip_prefix("model_provider=")).next_back()?;
    Some(value.trim_matches(['"', '\'']))
}

fn value_of<'a>(args: &'a [String], names: &[&str]) -> Option<&'a str> {
    args.windows(2).find(|pair| names.contains(&pair[0].as_str())).map(|pair| pair[1].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "model_provider = 'mine'
        [model_providers.mine]
        base_url = 'http://127.0.0.1:1/v1'
        [model_providers.keyed]
        env_key = 'MINE_KEY'
        [model_providers.proxy]
        requires_openai_auth = true
        env_key = 'X'";

    fn words(args: &str) -> Vec<String> {
        args.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_openai_asks_for_a_login() {
        let nothing = |provider: &str| Needs::Nothing { provider: provider.to_owned() };
        for (text, args, expected) in [
            ("", "", Needs::Login),
            ("model_provider = 'openai'", "", Needs::Login),
            (OWN, "", nothing("mine")),
            (OWN, "-c model_provider=keyed", Needs::Variable { name: "MINE_KEY".to_owned() }),
            (OWN, "-c model_provider='proxy'", Needs::Login),
            (OWN, "-c model_provider=openai", Needs::Login),
            (OWN, "--oss", nothing("oss")),
            ("model_provider = 'ollama'", "", nothing("ollama")),
            ("model_provider = 'of-tomorrow'", "", Needs::Unknown),
        ] {
            let layers = [text.parse().unwrap()];
            assert_eq!(needs(&layers, &words(args)), expected, "{text} {args}");
        }
    }

    #[test]
    fn a_profile_goes_before_the_rest() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), OWN).unwrap();
        let profile = "model_provider = 'keyed'";
        std::fs::write(home.path().join("fast.config.toml"), profile).unwrap();
        let args = words("-p fast");
        let expected = Needs::Variable { name: "MINE_KEY".to_owned() };
        assert_eq!(needs(&layers(home.path(), &args), &args), expected);
    }

    #[test]
    fn a_variable_has_to_be_there_and_seen() {
        let agent = |env: &[&str]| Agent {
            env: env.iter().map(|entry| (*entry).to_owned()).collect(),
            ..Agent::default()
        };
        let with = Environment::of(&[("MINE_KEY", "k"), ("OPENAI_API_KEY", "k")]);
        let by = |name: &str| Login::By(name.to_owned());
        assert_eq!(variable(&with, &agent(&[]), "OPENAI_API_KEY"), by("OPENAI_API_KEY"));
        assert_eq!(variable(&with, &agent(&["MINE_*"]), "MINE_KEY"), by("MINE_KEY"));
        assert_eq!(variable(&Environment::of(&[]), &agent(&["A=1"]), "A"), by("A"));
        let fix = |login| match login {
            Login::None { fix } => fix,
            other => panic!("{other:?}"),
        };
        assert!(fix(variable(&with, &agent(&[]), "MINE_KEY")).contains("pass MINE_KEY to it"));
        assert!(fix(variable(&with, &agent(&[]), "OTHER")).starts_with("set OTHER"));
    }
}
