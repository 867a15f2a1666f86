//! Checks of the database of a ledger, and of the remote on which results land.

use super::finding::Finding;
use crate::{
    config::{self, Overrides},
    database::DatabasePlace,
    environment::Environment,
    failure::Result,
    root::StateRoot,
    trust::Trust,
};

pub(super) fn check(env: &Environment, root: &StateRoot) -> Vec<Finding> {
    let place = match DatabasePlace::of(env, root) {
        Ok(place) => place,
        Err(failure) => return vec![Finding::broken("database", &failure)],
    };
    let mut findings = vec![match server(root) {
        Ok(what) => Finding::ok("database", what.unwrap_or_else(|| place.identity())),
        Err(failure) => Finding::broken("database", &failure),
    }];
    if let Some(mode) = place.url.weak_sslmode() {
        findings.push(Finding::warn(
            "database",
            format!("sslmode={mode} does not prove who the server is"),
            "leave sslmode out of `url`, or write sslmode=verify-full",
        ));
    }
    findings.push(remote(env, root));
    findings
}

/// Connects, if this user trusts the ledger, and describes the server.
fn server(root: &StateRoot) -> Result<Option<String>> {
    let Some(database) = root.backing().open()? else { return Ok(None) };
    let status = database.status()?;
    let (server, version) = (status.server, status.server_version);
    Ok(Some(format!("{server}, PostgreSQL {version}, ledger {}", status.ledger)))
}

/// Names the remote that connects the clones of several machines.
fn remote(env: &Environment, root: &StateRoot) -> Finding {
    const CHECK: &str = "remote";
    let loaded = config::load(env, Some(root.path()), Overrides::default());
    let name = loaded.ok().and_then(|loaded| loaded.config.fleet.remote);
    let Some(name) = name else {
        return Finding::warn(
            CHECK,
            "results land in this repository alone, where other machines do not see them",
            "set `remote` in [fleet]",
        );
    };
    let trusted = Trust::of_user(env).and_then(|trust| trust.remote(root, &name));
    match trusted {
        Ok(Some(_)) => Finding::ok(CHECK, format!("results land on {name}")),
        Ok(None) => Finding::warn(
            CHECK,
            format!("the address of {name} is not trusted yet"),
            "`harness trust` records it",
        ),
        Err(failure) => Finding::failure(CHECK, &failure),
    }
}
