//! The role of this process in a root, and its permissions there. A host decides by itself, by what
//! it sees of this process. This module decides for commands that work on the files.

use std::time::Duration;

use harness::{
    clock::{Clock, SystemClock},
    process::ancestry::Peer,
    protocol::Request,
    store::{Locking, Store as _, lock::Wait},
};
use harness_core::{
    Command, Flag, Holder, Refusal, TaskId,
    command::Raise,
    role::{Adding, Author, Circumstances, Lease, Operation, Role, Whose, may},
};

use crate::{
    config::Overrides, environment::Environment, failure::Result, interrupt::Interrupt,
    invocation::Invocation, log_file, root::StateRoot,
};

/// A refusal is recorded if the lock can be taken soon. The caller does not wait for it.
const RECORD_WITHIN: Duration = Duration::from_millis(500);
/// The size of the end of the log that is searched for the same refusal.
const LOG_BYTES: u64 = 256 * 1024;

/// Returns the process with this environment in relation to `root`.
pub(crate) fn peer(env: &Environment, root: &StateRoot) -> Peer {
    Peer::myself(root.path(), |name| env.get(name).map(ToOwned::to_owned))
}

impl Invocation {
    /// Returns whether a tool call started this command. Every tool call comes from an agent's
    /// session, whatever process started the server.
    pub(crate) fn is_of_a_tool(&self) -> bool {
        matches!(self.interrupt, Interrupt::Request(_))
    }

    /// Returns this process in relation to `root`.
    pub(crate) fn peer(&self, root: &StateRoot) -> Peer {
        let peer = peer(&self.env, root);
        if self.is_of_a_tool() { peer.at_most(Role::Worker) } else { peer }
    }

    /// Returns the author of changes, for the log and the mark on new tasks.
    pub(crate) fn author(&self, root: &StateRoot) -> Option<Author> {
        Some(self.peer(root).author())
    }

    /// Refuses what the role of this process does not allow.
    pub(crate) fn permit(&self, root: &StateRoot, operation: Operation) -> Result<()> {
        self.permit_where(root, operation, |_| Circumstances::default())
    }

    /// Does the same for an operation on one attempt.
    pub(crate) fn permit_holder(
        &self,
        root: &StateRoot,
        operation: Operation,
        holder: &Holder,
    ) -> Result<()> {
        self.permit_where(root, operation, |peer| {
            let own = peer.attempt.as_ref();
            let whose = match peer.role {
                Role::Agent => own.map_or(Whose::Other, |own| own.whose(holder)),
                // The rules for holders decide.
                Role::Worker | Role::Operator => Whose::Own,
            };
            Circumstances { whose, ..Circumstances::default() }
        })
    }

    /// Does the same for an operation on a task's rescue.
    pub(crate) fn permit_rescue(&self, root: &StateRoot, task: Option<&str>) -> Result<()> {
        self.permit_where(root, Operation::RestoreRescue, |peer| {
            let own = peer.attempt.as_ref().map(|attempt| attempt.task.as_str());
            let whose = if own.is_some() && own == task { Whose::Own } else { Whose::Other };
            Circumstances { whose, ..Circumstances::default() }
        })
    }

    /// Does the same for releasing a claim.
    pub(crate) fn permit_release(&self, root: &StateRoot, task: &TaskId) -> Result<()> {
        self.permit_where(root, Operation::Release, |_| {
            let ledger = self.look(root).ok();
            let claimed = ledger.as_ref().and_then(|ledger| ledger.task(task));
            let end = claimed.and_then(|task| task.lease_expires_at());
            let is_over = end.is_some_and(|end| end <= SystemClock.now());
            let lease = if is_over { Lease::Lapsed } else { Lease::Live };
            Circumstances { lease, ..Circumstances::default() }
        })
    }

    /// Does the same for adding a task.
    pub(crate) fn permit_add(&self, root: &StateRoot) -> Result<()> {
        self.permit_where(root, Operation::Add, |_| {
            let config = self.config(root, Overrides::default());
            let adding = config.map_or(Adding::Allowed, |config| config.adding());
            Circumstances { adding, ..Circumstances::default() }
        })
    }

    pub(crate) fn permit_where(
        &self,
        root: &StateRoot,
        operation: Operation,
        given: impl FnOnce(&Peer) -> Circumstances,
    ) -> Result<()> {
        let peer = self.peer(root);
        if peer.role == Role::Operator {
            return Ok(());
        }
        let refusal = match may(peer.role, operation, given(&peer)).map_err(Refusal::from) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        self.record_refusal(root, &peer, operation, &refusal);
        Err(refusal.into())
    }

    /// Records a refusal in the log and on the attempt. If it cannot be written, the operation is
    /// still refused.
    fn record_refusal(
        &self,
        root: &StateRoot,
        peer: &Peer,
        operation: Operation,
        refusal: &Refusal,
    ) {
        let request = Request::May { operation: Some(operation.name().to_owned()) };
        let asked = self.client_options(root).and_then(|mut options| {
            options.speaks_as = Some(peer.role);
            self.with_options(root, options, |client| client.ask_host(&request))
        });
        match asked {
            // The host refuses it too, and has recorded that.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => _ = self.record_in_files(root, peer, refusal),
        }
    }

    fn record_in_files(&self, root: &StateRoot, peer: &Peer, refusal: &Refusal) -> Result<()> {
        let ledger = self.look(root)?;
        let of_worker = || ledger.selection().held_by(peer.worker.as_ref()?).next().cloned();
        let task = match &peer.attempt {
            Some(attempt) => Some(attempt.task.clone()),
            None => of_worker(),
        };
        if is_recorded(root, task.as_ref(), peer.role, refusal) {
            return Ok(());
        }
        let message = format!("refused to {}: {refusal}", peer.author());
        let raise = Command::Raise(Raise { task, flag: Flag::Verb, message });
        let locking = Locking::Each(Wait::For(RECORD_WITHIN));
        let recorded = self.project(root)?.store(locking)?.apply(SystemClock.now(), &[raise]);
        Ok(recorded.map(|_| ())?)
    }
}

/// Returns whether the log already contains it, since the attempt began.
fn is_recorded(root: &StateRoot, task: Option<&TaskId>, role: Role, refusal: &Refusal) -> bool {
    let Ok(log) = log_file::last_text(root, LOG_BYTES) else { return false };
    let began = task.map(|task| format!(" Starting [{task}] "));
    let (said, why) = (format!("refused to {role} (pid="), format!("): {refusal}"));
    for line in log.lines().rev() {
        if began.as_ref().is_some_and(|began| line.contains(began)) {
            return false;
        }
        let is_about_it = task.is_none_or(|task| line.contains(&format!("[{task}]")));
        if is_about_it && line.contains(&said) && line.ends_with(&why) {
            return true;
        }
    }
    false
}
