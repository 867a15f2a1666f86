//! The names of keys, `table.key`: the existing ones, suggestions for wrong ones, and their
//! variables.

use serde_json::Value;

use super::schema::{Agent, Config, Price};

/// The placeholder for names that the user chooses (`agents.*`).
const ANY: &str = "*";

/// Returns a configuration in which every key is present, as a tree. It is made from the structs,
/// so that they stay the only list of keys.
pub(super) fn tree() -> Value {
    let agent = Agent { price: Some(Price::default()), ..Agent::default() };
    let agents = [(ANY.to_owned(), agent)].into();
    // Structs of plain values always serialize. If they did not, no key would be known.
    serde_json::to_value(Config { agents, ..Config::default() }).unwrap_or_default()
}

/// Returns the part of the tree under one name, including names that the user chooses.
pub(super) fn child<'a>(tree: &'a Value, name: &str) -> Option<&'a Value> {
    let named = if name == ANY { None } else { tree.get(name) };
    named.or_else(|| tree.get(ANY))
}

/// Returns the values of a tree with their full names, in its order.
pub(super) fn leaves(tree: &Value) -> Vec<(String, &Value)> {
    fn walk<'a>(prefix: &str, tree: &'a Value, found: &mut Vec<(String, &'a Value)>) {
        match tree {
            Value::Object(table) => {
                table.iter().for_each(|(name, value)| walk(&join(prefix, name), value, found))
            }
            value => found.push((prefix.to_owned(), value)),
        }
    }
    let mut found = Vec::new();
    walk("", tree, &mut found);
    found
}

pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Returns the variable that sets a key. Agents have none.
pub(super) fn variable(key: &str) -> Option<String> {
    match key {
        // This is the name in the published protocol, which programs already set.
        "telemetry.port" => Some("HARNESS_ACP_PORT".to_owned()),
        _ if key.starts_with("agents.") => None,
        _ => Some(format!("HARNESS_{}", key.replace('.', "_").to_ascii_uppercase())),
    }
}

/// Returns the known key that was probably meant. A right name in the wrong table is found too.
pub(super) fn nearest(given: &str) -> Option<String> {
    let tree = tree();
    let agent = given.strip_prefix("agents.").and_then(|rest| rest.split('.').next());
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |key: &str| {
        let by_name = strsim::jaro_winkler(&last(given), &last(key)) * 0.99;
        strsim::jaro_winkler(given, key).max(by_name)
    };
    let values = leaves(&tree).into_iter().map(|(key, _)| key);
    let tables = tree.as_object().into_iter().flatten().map(|(name, _)| name.clone());
    let keys = tables.chain(values).filter_map(|key| match (key.contains(ANY), agent) {
        (true, None) => None,
        (true, Some(name)) => Some(key.replace(ANY, name)),
        (false, _) => Some(key),
    });
    let scored = keys.map(|key| (likeness(&key), key)).filter(|(score, _)| *score > 0.8);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_what_was_meant() {
        for (given, meant) in [
            ("agnet", Some("agent")),
            ("limits.max_iteration", Some("limits.max_iterations")),
            ("max_cost", Some("limits.max_cost")),
            ("limit", Some("limits")),
            ("agents.mine.modle", Some("agents.mine.model")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(given).as_deref(), meant, "{given}");
        }
    }

    #[test]
    fn every_key_outside_agents_has_its_own_variable() {
        let tree = tree();
        let mut variables: Vec<_> =
            leaves(&tree).iter().filter_map(|(key, _)| variable(key)).collect();
        assert!(variables.contains(&"HARNESS_LIMITS_MAX_COST".to_owned()));
        assert!(variables.contains(&"HARNESS_ACP_PORT".to_owned()));
        let all = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), all);
    }
}
