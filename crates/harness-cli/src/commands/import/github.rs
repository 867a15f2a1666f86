//! Asks `gh` for the open issues of a repository.
//!
//! A `gh` that knows the relations of issues lists them in one call. For an older one, the REST
//! interface is asked through `gh api`, once per issue that has relations.

use std::path::{Path, PathBuf};

use harness_core::import::{IssueRelation, IssueRelationKind, SourceText};
use serde_json::Value;

use super::program;
use crate::{
    commands::doctor::find_program,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
};

const FIELDS: &str = "number,title,body,labels,state,parent,subIssues,blockedBy";
/// A repository with more open issues is imported by label.
const ISSUES_MAX: &str = "5000";

pub(super) fn issues(
    invocation: &Invocation,
    root: &StateRoot,
    repository: &str,
    label: Option<&str>,
) -> Result<SourceText> {
    refuse_bad_name(repository)?;
    let gh = program_of(invocation)?;
    let mut arguments = vec!["issue", "list", "--repo", repository, "--state", "open"];
    arguments.extend(["--limit", ISSUES_MAX, "--json", FIELDS]);
    if let Some(label) = label {
        arguments.extend(["--label", label]);
    }
    match program::output(&gh, &arguments, root.path()) {
        Ok(text) => Ok(SourceText { path: repository.to_owned(), text, ..SourceText::default() }),
        Err(failure) if failure.error.to_ascii_lowercase().contains("unknown json field") => {
            by_rest(&gh, root.path(), repository)
        }
        Err(failure) => Err(failure),
    }
}

/// Returns the path of `gh`.
pub(super) fn program_of(invocation: &Invocation) -> Result<PathBuf> {
    find_program(&invocation.env, "gh").ok_or_else(|| {
        Failure::error("gh is not on the PATH")
            .hint("install the GitHub CLI, then run `gh auth login`")
    })
}

fn refuse_bad_name(repository: &str) -> Result<()> {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty() && !part.starts_with('-') && part.chars().all(plain)
    };
    let parts: Vec<&str> = repository.split('/').collect();
    match matches!(parts.len(), 2 | 3) && parts.iter().all(|name| part(name)) {
        true => Ok(()),
        false => Err(Failure::usage(format!("gh:{repository} is not gh:OWNER/REPO"))),
    }
}

fn by_rest(gh: &Path, directory: &Path, repository: &str) -> Result<SourceText> {
    let ask = |path: &str| {
        let whole = format!("repos/{repository}/{path}");
        program::output(gh, &["api", "--paginate", "--slurp", &whole], directory)
    };
    let text = joined(&ask("issues?state=open&per_page=100")?)?;
    let list: Vec<Value> = serde_json::from_str(&text)?;
    let mut relations = Vec::new();
    for issue in &list {
        let Some(number) = issue["number"].as_u64() else { continue };
        let count = |summary: &str, field: &str| issue[summary][field].as_u64().unwrap_or(0);
        let asked = [
            (IssueRelationKind::SubIssues, "sub_issues", count("sub_issues_summary", "total")),
            (
                IssueRelationKind::BlockedBy,
                "dependencies/blocked_by",
                count("issue_dependencies_summary", "blocked_by"),
            ),
        ];
        for (kind, path, _) in asked.into_iter().filter(|(_, _, count)| *count > 0) {
            let text = joined(&ask(&format!("issues/{number}/{path}?per_page=100"))?)?;
            relations.push(IssueRelation { issue: number, kind, text });
        }
    }
    Ok(SourceText { path: repository.to_owned(), text, relations, ..SourceText::default() })
}

/// Joins the pages of a list into one list.
fn joined(pages: &str) -> Result<String> {
    let pages: Vec<Value> = serde_json::from_str(pages)
        .map_err(|why| Failure::error(format!("the answer of `gh api` is not a list: {why}")))?;
    let items = pages.into_iter().flat_map(|page| match page {
        Value::Array(items) => items,
        other => vec![other],
    });
    Ok(serde_json::to_string(&items.collect::<Vec<_>>())?)
}
