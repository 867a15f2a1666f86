//! A completion without a host: this process runs the check and records the result.

use std::{
    future::Future,
    os::fd::AsFd as _,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harness_core::{
    Command, Holder, Ledger, Reply, Task, TaskId,
    command::{Claimed, Note},
    machine::judge::{NotDone, Request, Standing},
};
use tokio::net::unix::pipe;

use super::{Caller, Client, ClientError};
use crate::{
    clock::{Clock as _, SystemClock},
    drive::Ports,
    error::Error,
    flows::{
        Site,
        client_tree::{ClientTree, Repositories},
        completion::{Clerk, Completion},
    },
    host::{ClaimRules, Settings},
    hub::Hub,
    process::Redactor,
    project::LedgerStore,
    protocol::{Answer, CompletedTask, TaskComplete},
    shell::{Cancel, SystemShell},
    store::{Commit, Committing, Store as _, StoreError},
    workspace::{Bring, Filters},
};

impl<C: Caller> Client<C> {
    pub(super) fn complete_by_files(&self, complete: TaskComplete) -> Result<Answer, ClientError> {
        let TaskComplete { holder, authority, work } = complete;
        let root = self.root.clone();
        let files = Arc::new(InFiles::new(self.store()?));
        let Settings { rules, unchecked, bring } = self.settings(&files, &holder)?;
        let lease_seconds = self.options.lease_seconds;
        let request = Request { holder, authority, unchecked, lease_seconds, rules, work };
        let worktree = self.worktree();
        let clerk =
            FileClerk { files: &files, yard: self.yard(&worktree), caller: &self.caller, bring };
        let completion = Completion {
            clerk: &clerk,
            ports: Ports {
                commit: Arc::clone(&files) as Arc<dyn Commit>,
                clock: Arc::new(SystemClock),
                tick: Duration::from_secs(lease_seconds.max(1)),
            },
            root: root.clone(),
            shell: Arc::new(SystemShell::default()),
            redactor: Redactor::default(),
            record: Arc::new(move |receipt| Ok(crate::store::record(&root, receipt)?)),
            hub: Hub::new("complete"),
        };
        let stop = self.caller.interrupt()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let completed = runtime.block_on(async {
            let stop = readable(&stop)?;
            completion.run(request, cancelled(&stop)).await
        });
        files.warnings().drain(..).for_each(|warning| self.caller.warn(&warning));
        Ok(Answer::Completed(CompletedTask { task_id: completed?, requested: false }))
    }

    /// Returns the rules of the claim, or the current ones.
    fn settings(&self, files: &InFiles, holder: &Holder) -> Result<Settings, ClientError> {
        let epoch = files.look(|ledger| {
            let task = ledger.task(&holder.task).filter(|task| holder.holds(task));
            task.and_then(|task| task.epoch)
        })?;
        let kept = epoch.zip(self.options.claims.as_ref());
        match kept.and_then(|(epoch, claims)| claims.of(&holder.task, epoch)) {
            Some(settings) => Ok(settings),
            None => Ok(self.caller.settings()?.of_no_claim()),
        }
    }

    /// Keeps the current rules and git's settings for a claim that was made in the files. A
    /// repeated claim keeps the earlier ones. A configuration that cannot be read is reported when
    /// the task is completed.
    pub(super) fn keep_rules(&self, claimed: &Claimed) {
        let task = &claimed.task;
        if claimed.is_retry {
            return;
        }
        if let Err(why) = self.record_settings(task) {
            let id = &task.id;
            self.caller.warn(&format!("git's settings were not recorded for {id}: {why}"));
        }
        let Some(claims) = &self.options.claims else { return };
        let Ok(settings) = self.caller.settings() else { return };
        self.compare_protected(claims, &settings);
        if let Err(why) = claims.keep(&task.id, task.epoch.unwrap_or_default(), &settings) {
            let id = &task.id;
            self.caller.warn(&format!("the rules of the claim of {id} cannot be stored: {why}"));
        }
    }
}

impl<C: Caller> Client<C> {
    /// Logs if other files are protected than at the last claim.
    fn compare_protected(&self, claims: &ClaimRules, settings: &Settings) {
        let noted = match claims.compare(&settings.rules.protected) {
            Ok(None) => return,
            Ok(Some(message)) => {
                let note = Command::Note(Note::Warning { task: None, message });
                self.apply(note).map(|_| ()).map_err(|why| why.to_string())
            }
            Err(why) => Err(format!("changes to protected files will not be noticed: {why}")),
        };
        if let Err(why) = noted {
            self.caller.warn(&why);
        }
    }

    fn record_settings(&self, task: &Task) -> Result<(), ClientError> {
        // Without a check nothing is judged, and without a commit nothing can be compared.
        if task.check().is_none() || task.started_at_commit.is_none() {
            return Ok(());
        }
        let directory = self.options.worktree.as_deref().unwrap_or(&self.root);
        let tree = self.yard(directory).tree(None, Filters::Off)?;
        tree.record_settings(task).map_err(|why| ClientError::Judge(Error::Workspace(why)))
    }

    fn yard<'a>(&'a self, worktree: &'a Path) -> Yard<'a> {
        Yard { root: &self.root, worktree, records: self.options.records.as_deref() }
    }
}

/// The place in which clients work.
struct Yard<'a> {
    root: &'a Path,
    worktree: &'a Path,
    /// The place where git's settings at claims are recorded.
    records: Option<&'a Path>,
}

impl Yard<'_> {
    fn tree(&self, claimed: Option<&Path>, filters: Filters) -> Result<ClientTree, ClientError> {
        let records = self.records.map(Path::to_owned);
        let repositories = Arc::new(Repositories::recording_in(records));
        let tree = ClientTree::new(self.worktree, claimed, self.root, filters, repositories);
        Ok(tree.map_err(NotDone::from)?)
    }
}

/// Returns the end of a pipe that hangs up when a stop is requested.
fn readable(stop: &Cancel) -> std::io::Result<pipe::Receiver> {
    let end = stop.as_fd().try_clone_to_owned()?;
    rustix::io::ioctl_fionbio(&end, true)?;
    pipe::Receiver::from_owned_fd(end)
}

async fn cancelled(stop: &pipe::Receiver) {
    if stop.readable().await.is_err() {
        std::future::pending().await
    }
}

struct FileClerk<'a, C> {
    files: &'a InFiles,
    yard: Yard<'a>,
    caller: &'a C,
    /// The files that clean checkouts get beside the commit.
    bring: Bring,
}

impl<C: Caller> FileClerk<'_, C> {
    fn look(&self, task: &TaskId) -> Result<Standing, ClientError> {
        Ok(self.files.look(|ledger| Standing::of(ledger, task))?)
    }

    fn tree(&self, claimed: Option<&Path>) -> Result<Arc<dyn Site>, ClientError> {
        let filters = if self.caller.trusts_filters()? { Filters::Run } else { Filters::Off };
        Ok(Arc::new(self.yard.tree(claimed, filters)?.bringing(self.bring.clone())))
    }
}

impl<C: Caller> Clerk for FileClerk<'_, C> {
    type Error = ClientError;

    fn standing(
        &self,
        task: &TaskId,
    ) -> impl Future<Output = Result<Standing, ClientError>> + Send {
        std::future::ready(self.look(task))
    }

    fn may_check(&self, task: &Task) -> Result<(), ClientError> {
        Ok(self.caller.may_check(task)?)
    }

    fn site(
        &self,
        claimed: Option<&Path>,
    ) -> impl Future<Output = Result<Arc<dyn Site>, ClientError>> + Send {
        std::future::ready(self.tree(claimed))
    }
}

/// Reads and decides with one store, so that the ledger is parsed once. Each command is one
/// transaction under the lock.
struct InFiles {
    store: Mutex<LedgerStore>,
    warnings: Mutex<Vec<String>>,
}

impl InFiles {
    fn new(store: LedgerStore) -> Self {
        Self { store: Mutex::new(store), warnings: Mutex::default() }
    }

    fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> Result<T, StoreError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(look(store.ledger()?))
    }

    fn warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, command: Command) -> Committing {
        let renews = matches!(command, Command::Renew(_));
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        match store.apply(SystemClock.now(), &[command]) {
            Ok(mut applied) => {
                self.warnings().append(&mut applied.warnings);
                let none = || Arc::new(StoreError::Io(std::io::Error::other("no answer")));
                applied.replies.pop().ok_or_else(none)
            }
            // The recording of the completion shows whether the claim was lost.
            Err(why) if renews => {
                self.warnings().push(format!("the lease was not renewed: {why}"));
                Ok(Ok(Reply::Noted))
            }
            Err(why) => Err(Arc::new(why)),
        }
    }
}

impl Commit for InFiles {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        Box::pin(std::future::ready(self.apply(command)))
    }
}
