//! Looks for results that landed although the ledger does not know of them, because its database has
//! forgotten changes. Nothing is claimed and nothing lands before that is done.

use harness::{
    Result,
    core::{
        Command, Ledger,
        command::{LandedResult, Settle},
    },
    workspace::shared::LANDED_BRANCH,
};

use super::Bench;

/// Reads the current ledger. If it is not settled which forgotten results have landed, that is done
/// first.
pub(super) async fn settled_ledger(bench: &Bench) -> Result<Ledger> {
    loop {
        let ledger = bench.tools.read_ledger().await?;
        let Some(of) = ledger.head().unsettled else { return Ok(ledger) };
        let landed = Settle::news(&ledger, look(bench, &ledger).await?);
        let mut unproven = Vec::new();
        for result in &landed {
            if !is_proven(bench, result).await? {
                unproven.push(result.task.clone());
            }
        }
        let Some(worker) = bench.worker.clone() else { return Ok(ledger) };
        let settle = Settle { of, worker, landed, unproven };
        bench.tools.commit(Command::Settle(settle)).await?;
    }
}

/// Returns the results on the branches on which results land. The only worker of a ledger lands
/// nothing: its results are commits in the tree in which it works.
async fn look(bench: &Bench, ledger: &Ledger) -> Result<Vec<LandedResult>> {
    let Some(place) = &bench.own else { return Ok(Vec::new()) };
    let config = &ledger.head().session_config;
    let target = config.target_branch.iter().cloned();
    let branches: Vec<String> = target.chain([LANDED_BRANCH.to_owned()]).collect();
    let kept = Settle::known_landings(ledger);
    Ok(place.repository(move |git, _| git.landed_results(&branches, &kept)).await??)
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
