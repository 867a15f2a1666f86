//! The layers of the configuration: built in, the user's file, the project's file, variables,
//! flags. Later ones take precedence.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Once,
};

use serde::Deserialize;
use toml::{Table, Value};

use super::{file, key, origin::Origin, schema::Config, store::DatabaseStore, text};
use harness::home::{Home, user_config};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    paint::warn,
};

/// The effective configuration, and the origin of each key that is not built in.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// Flags that set a key of the configuration, as they were typed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides(Vec<(&'static str, &'static str, String)>);

impl Overrides {
    /// Sets `key` (as `limits.max_cost`) to the value of `flag` (as `--max-cost`), if there is one.
    pub(crate) fn set(
        mut self,
        key: &'static str,
        flag: &'static str,
        given: Option<impl ToString>,
    ) -> Self {
        self.0.extend(given.map(|text| (key, flag, text.to_string())));
        self
    }
}

/// Returns the files that are read, in order, whether they exist or not.
pub(crate) fn files(env: &Environment, root: Option<&Path>) -> Vec<PathBuf> {
    let user = user_file(env);
    user.into_iter().chain(root.map(project_file)).collect()
}

fn user_file(env: &Environment) -> Option<PathBuf> {
    env.config_home().map(|home| user_config(&home))
}

fn project_file(root: &Path) -> PathBuf {
    Home::of(root).config()
}

pub(crate) fn load(env: &Environment, root: Option<&Path>, flags: Overrides) -> Result<Loaded> {
    let mut layers = Layers::default();
    if let Some(path) = user_file(env) {
        layers.file(&path, |file, line| Origin::User { file, line })?;
    }
    if let Some(path) = root.map(project_file) {
        let found = file::read_project(&path)?;
        layers.found(found, &path, |file, line| Origin::Project { file, line });
    }
    layers.variables(env)?;
    warn_of_unknown(env);
    layers.flags(flags)?;
    layers.finish()
}

/// Warns about variables that look like keys of a table but are none, once in the life of this
/// process.
fn warn_of_unknown(env: &Environment) {
    static SAID: Once = Once::new();
    let unknown = unknown_variables(env);
    if !unknown.is_empty() {
        SAID.call_once(|| unknown.iter().for_each(|text| warn(text)));
    }
}

fn unknown_variables(env: &Environment) -> Vec<String> {
    let tree = key::tree();
    let tables = tree.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
    let known: Vec<String> =
        key::leaves(&tree).iter().filter_map(|(key, _)| key::variable(key)).collect();
    // People type `HARNESS_LIMIT_` for `HARNESS_LIMITS_`.
    let prefixes: Vec<String> = tables
        .filter(|(name, _)| *name != "agents")
        .map(|(name, _)| format!("HARNESS_{}", name.trim_end_matches('s').to_ascii_uppercase()))
        .collect();
    let is_meant = |name: &str| {
        prefixes.iter().any(|prefix| {
            let rest = name.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.trim_start_matches('S').starts_with('_'))
        })
    };
    // These names of the program itself begin alike.
    const OTHERS: [&str; 1] = [harness_core::variables::TASK];
    let names = env.names().filter(|name| is_meant(name) && !known.contains(name));
    let mut unknown: Vec<String> = names.filter(|name| !OTHERS.contains(&name.as_str())).collect();
    unknown.sort();
    let nearest = |name: &str| {
        let scored = known.iter().map(|known| (strsim::jaro_winkler(known, name), known));
        scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known.clone())
    };
    let word = |name: String| match nearest(&name) {
        Some(meant) => format!("{name} names no setting; did you mean {meant}?"),
        None => format!("{name} names no setting"),
    };
    unknown.into_iter().map(word).collect()
}

#[derive(Default)]
struct Layers {
    values: Table,
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    fn file(&mut self, path: &Path, origin: impl Fn(PathBuf, usize) -> Origin) -> Result<()> {
        let found = file::read(path)?;
        self.found(found, path, origin);
        Ok(())
    }

    fn found(
        &mut self,
        found: Option<file::ConfigFile>,
        path: &Path,
        origin: impl Fn(PathBuf, usize) -> Origin,
    ) {
        if let Some(found) = found {
            overlay(&mut self.values, found.values);
            let lines = found.lines.into_iter();
            self.origins.extend(lines.map(|(key, line)| (key, origin(path.to_owned(), line))));
        }
    }

    /// Reads only variables that name a key, because many others begin with HARNESS_.
    fn variables(&mut self, env: &Environment) -> Result<()> {
        let tree = key::tree();
        for (key, _) in key::leaves(&tree) {
            let Some(name) = key::variable(&key) else { continue };
            let Some(given) = env.text(&name)? else { continue };
            let value = text::value(&key, given)
                .map_err(|problem| Failure::config(format!("the variable {name}: {problem}")))?;
            self.set(key, value, Origin::Variable(name));
        }
        Ok(())
    }

    fn flags(&mut self, flags: Overrides) -> Result<()> {
        for (key, flag, given) in flags.0 {
            let value = text::value(key, &given)
                .map_err(|problem| Failure::usage(format!("{flag}: {problem}")))?;
            self.set(key.to_owned(), value, Origin::Flag(flag.to_owned()));
        }
        Ok(())
    }

    fn set(&mut self, key: String, value: Value, origin: Origin) {
        overlay(&mut self.values, text::nest(&key, value));
        self.origins.insert(key, origin);
    }

    fn finish(self) -> Result<Loaded> {
        let Self { values, origins } = self;
        refuse_misplaced(&origins)?;
        // Each layer was checked by itself, so this fails only if two of them contradict.
        let config = Config::deserialize(Value::Table(values))
            .map_err(|why| Failure::config(text::plain_words(why.message())))?;
        match config.contradiction() {
            None => Ok(Loaded { config, origins }),
            Some((key, problem)) => {
                let place = origins.get(&key).map(|origin| format!("{origin}: "));
                let problem = format!("{}`{key}`: {problem}", place.unwrap_or_default());
                let agents = Config::BUILT_IN_AGENTS.join(", ");
                Err(Failure::config(problem).hint(format!("built-in agents: {agents}")))
            }
        }
    }
}

/// Refuses keys of `[store]` in a file to which they do not belong: an address is that of one project,
/// and a repository must not choose a command of the user.
fn refuse_misplaced(origins: &BTreeMap<String, Origin>) -> Result<()> {
    for key in DatabaseStore::OF_PROJECT {
        if let Some(place @ Origin::User { .. }) = origins.get(key) {
            let what = format!("{place}: `{key}` belongs into the harness.toml of a project");
            return Err(Failure::config(what));
        }
    }
    let key = DatabaseStore::OF_USER;
    match origins.get(key) {
        Some(place @ Origin::Project { .. }) => Err(Failure::config(format!(
            "{place}: `{key}` is read from your own configuration only"
        ))
        .hint("set it in ~/.config/harness/config.toml")),
        _ => Ok(()),
    }
}

/// Puts the values of `upper` over `lower`, table by table. A list is one value.
fn overlay(lower: &mut Table, upper: Table) {
    for (name, value) in upper {
        match (lower.get_mut(&name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(lower.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::failure::Kind;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new(user: &str, project: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join(".config/harness")).unwrap();
            fs::write(dir.path().join(".config/harness/config.toml"), user).unwrap();
            fs::write(dir.path().join("harness.toml"), project).unwrap();
            Self(dir)
        }

        fn load(&self, variables: &[(&str, &str)], flags: Overrides) -> Result<Loaded> {
            let home = [("HOME", self.0.path().to_str().unwrap())];
            load(&Environment::of(&[&home, variables].concat()), Some(self.0.path()), flags)
        }
    }

    #[test]
    fn later_layers_win_and_each_value_knows_its_layer() {
        let files = Files::new(
            "stall_limit = 1\nagent = 'codex'\n[limits]\nmax_cost = 1\n",
            "[limits]\nmax_cost = 2\nmax_tokens = 7\n[telemetry]\nport = 1\n",
        );
        let flags = Overrides::default().set("limits.max_tokens", "--max-tokens", Some(9));
        let loaded = files.load(&[("HARNESS_ACP_PORT", "2"), ("HARNESS_OTHER", "x")], flags);
        let Loaded { config, origins } = loaded.unwrap();
        assert_eq!(config.stall_limit, 1);
        assert_eq!(config.limits.max_cost, Some(2.0));
        assert_eq!(config.limits.max_tokens, Some(9));
        assert_eq!(config.limits.max_iterations, 10);
        assert_eq!(config.telemetry.port, 2);
        let layer = |key: &str| origins[key].document()["layer"].as_str().unwrap().to_owned();
        assert_eq!(layer("agent"), "user");
        assert_eq!(layer("limits.max_cost"), "project");
        assert_eq!(layer("telemetry.port"), "variable");
        assert_eq!(layer("limits.max_tokens"), "flag");
        assert!(!origins.contains_key("limits.max_iterations"));
    }

    #[test]
    fn a_variable_that_names_no_key_is_named_with_the_one_that_was_meant() {
        let env = Environment::of(&[
            ("HARNESS_LIMIT_MAX_COST", "5"),
            ("HARNESS_LIMITS_MAX_COST", "5"),
            ("HARNESS_LIMITS_MAX_TIME", "5"),
            ("HARNESS_TASK_ID", "t"),
            ("HARNESS_OTHER", "x"),
        ]);
        let said = unknown_variables(&env);
        assert_eq!(said.len(), 2, "{said:?}");
        let meant = |said: &String| said.ends_with("did you mean HARNESS_LIMITS_MAX_COST?");
        assert!(said.iter().any(meant), "{said:?}");
    }

    #[test]
    fn an_agent_is_refined_across_files() {
        let files =
            Files::new("[agents.claude]\nmodel='a'\nyolo=true", "[agents.claude]\nmodel='b'");
        let config = files.load(&[], Overrides::default()).unwrap().config;
        assert_eq!(config.agents["claude"].model.as_deref(), Some("b"));
        assert!(config.agents["claude"].yolo);
    }

    #[test]
    fn a_broken_variable_or_flag_is_named() {
        let files = Files::new("", "");
        let broken = files.load(&[("HARNESS_STALL_LIMIT", "-1")], Overrides::default());
        let failure = broken.unwrap_err();
        assert!(failure.error.starts_with("the variable HARNESS_STALL_LIMIT: "), "{failure}");
        assert_eq!(failure.kind, Kind::Config);
        let flags = Overrides::default().set("limits.max_cost", "--max-cost", Some("much"));
        let failure = files.load(&[], flags).unwrap_err();
        assert_eq!(failure.kind, Kind::Usage);
        assert!(failure.error.starts_with("--max-cost: "), "{failure}");
    }

    #[test]
    fn an_agent_that_does_not_exist_is_found_where_it_is_named() {
        let files = Files::new("", "[agents.mine]\ncommand = 'x'\nfallback = ['nobody']\n");
        let failure = files.load(&[], Overrides::default()).unwrap_err();
        let expected = "harness.toml:3: `agents.mine.fallback`: unknown agent \"nobody\"";
        assert!(failure.error.ends_with(expected), "{failure}");
        for (table, problem) in [
            (
                "[agents.mine]\nmodel = 'x'",
                ":1: `agents.mine`: it is not a built-in agent, so it needs a `kind`",
            ),
            ("[agents.'a.b']\nkind = 'acp'", ":1: `agents.a.b`: an agent's name is made of"),
        ] {
            let error = Files::new("", table).load(&[], Overrides::default()).unwrap_err().error;
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_link_in_place_of_the_projects_file_is_refused() {
        let files = Files::new("", "");
        let path = files.0.path().join("harness.toml");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let failure = files.load(&[], Overrides::default()).unwrap_err();
        assert!(failure.error.contains("harness.toml is a symbolic link"), "{failure}");
    }

    #[test]
    fn without_home_and_root_the_built_in_values_hold() {
        let loaded = load(&Environment::default(), None, Overrides::default()).unwrap();
        assert_eq!(loaded.config, Config::default());
    }
}
