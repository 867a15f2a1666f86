//! Looks for results that landed although the ledger does not know of them, because its database has
//! forgotten changes. Nothing is claimed and nothing lands before that is done.

use harness::{
    Result,
    core::{
        Command, CommitId, Ledger, TaskId, WorkerId,
        command::{LandedResult, Settle},
    },
    workspace::shared::{LANDED_BRANCH, SharedRepository},
};

use super::Bench;

/// Reads the current ledger. If it is not settled which forgotten results have landed, that is done
/// first.
pub(super) async fn settled_ledger(bench: &Bench) -> Result<Ledger> {
    loop {
        let ledger = bench.tools.read_ledger().await?;
        let Some(worker) = bench.worker.clone().filter(|_| ledger.head().unsettled.is_some())
        else {
            return Ok(ledger);
        };
        // Tokens that are set later belong to landings that the ledger has decided.
        let tokens = tokens(bench).await?;
        let ledger = bench.tools.read_ledger().await?;
        let Some(of) = ledger.head().unsettled else { return Ok(ledger) };
        void(bench, &ledger, tokens).await?;
        let landed = Settle::news(&ledger, look(bench, &ledger).await?);
        let mut unproven = Vec::new();
        for result in &landed {
            if !is_proven(bench, result).await? {
                unproven.push(result.task.clone());
            }
        }
        let settle = Settle { of, worker, landed, unproven };
        bench.tools.commit(Command::Settle(settle)).await?;
    }
}

async fn tokens(bench: &Bench) -> Result<Vec<(TaskId, CommitId)>> {
    let Some(place) = &bench.own else { return Ok(Vec::new()) };
    Ok(place.repository(|git, _| git.tokens()).await??)
}

/// Removes the tokens of landings that the ledger does not know, so that no forgotten claim can land
/// any more.
async fn void(bench: &Bench, ledger: &Ledger, tokens: Vec<(TaskId, CommitId)>) -> Result<()> {
    let Some(place) = &bench.own else { return Ok(()) };
    let known = Settle::known_landings(ledger);
    let unknown = tokens.into_iter().filter(|token| !known.contains(token));
    let unknown: Vec<(TaskId, CommitId)> = unknown.collect();
    let void = move |git: &dyn SharedRepository, _: &WorkerId| {
        unknown.iter().try_for_each(|(task, to)| git.void_token(task, to).map(drop))
    };
    Ok(place.repository(void).await??)
}

/// Returns the results on the branches on which results land. The only worker of a ledger lands
/// nothing: its results are commits in the tree in which it works.
async fn look(bench: &Bench, ledger: &Ledger) -> Result<Vec<LandedResult>> {
    let Some(place) = &bench.own else { return Ok(Vec::new()) };
    let target = ledger.head().session_config.target_branch.iter().cloned();
    let branches: Vec<String> = target.chain([LANDED_BRANCH.to_owned()]).collect();
    let since = Settle::since(ledger);
    Ok(place.repository(move |git, _| git.landed_results(&branches, since)).await??)
}

/// Returns whether there is a receipt of a result. It is then stored with the completion.
async fn is_proven(bench: &Bench, result: &LandedResult) -> Result<bool> {
    let tools = &bench.tools;
    let carry = || {
        let (judging, landed) = (tools.judging.clone(), result.clone());
        tools.blocking(move || judging.carry_over(&landed.task, &landed.commit, landed.epoch))
    };
    tools.hold.hold(carry).await
}
