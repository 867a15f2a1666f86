//! What `harness task complete` rests on where it asks no host: this process has the check run.

use std::{
    future::Future,
    io::Write,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness::{
    Commit, Committing, Hub, Ports,
    clock::{Clock as _, SystemClock},
    flows::{
        Site,
        client_tree::{ClientTree, Repositories},
        completion::{Clerk, Completion},
    },
    host::{ClaimRules, Settings},
    process::Redactor,
    shell::{Cancel, SystemShell},
    store::{FileStore, Outside, Store as _, StoreError},
    workspace::{Bring, Filters, glance},
};
use harness_core::{
    Command, Holder, Ledger, Reply, Task, TaskId,
    command::{Authority, Claimed},
    machine::judge::{NotDone, Request, Standing},
    trust::Kind,
};
use tokio::net::unix::pipe;

use super::Invocation;
use crate::{
    config::Overrides,
    environment::Environment,
    failure::{Failure, Result},
    render::visible,
    root::StateRoot,
    store::warn,
    trust::{self, Trust},
    would_run::item,
};

/// Judges and records in the files, under the lock.
pub(super) struct ByFiles<'a> {
    invocation: &'a Invocation,
    root: &'a StateRoot,
    /// Looks and decides, so that the ledger is parsed once.
    store: Arc<Mutex<FileStore>>,
}

impl<'a> ByFiles<'a> {
    pub(super) fn new(invocation: &'a Invocation, root: &'a StateRoot) -> Result<Self> {
        let store = Arc::new(Mutex::new(invocation.store(root)?));
        Ok(Self { invocation, root, store })
    }

    fn seen<T>(&self, see: impl FnOnce(&Ledger) -> T) -> Result<T> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(see(store.ledger()?))
    }

    pub(super) fn complete(&self, holder: Holder, authority: Authority) -> Result<TaskId> {
        let (invocation, root) = (self.invocation, self.root.path().to_owned());
        let Settings { rules, unchecked, bring } = self.settings(&holder)?;
        let lease_seconds = invocation.lease_seconds()?;
        let request = Request { holder, authority, unchecked, lease_seconds, rules };
        let completion = Completion {
            clerk: &Inspection { files: self, bring },
            ports: Ports {
                commit: Arc::new(InFiles { store: Arc::clone(&self.store) }),
                clock: Arc::new(SystemClock),
                tick: Duration::from_secs(lease_seconds.max(1)),
            },
            root: root.clone(),
            shell: Arc::new(SystemShell::default()),
            redactor: Redactor::default(),
            record: Arc::new(move |receipt| Ok(harness::store::record(&root, receipt)?)),
            hub: Hub::new("complete"),
        };
        let stop = invocation.interrupt.request()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = readable(&stop)?;
            completion.run(request, cancelled(&stop)).await
        })
    }

    /// The rules of the claim, else those of now.
    fn settings(&self, holder: &Holder) -> Result<Settings> {
        let (env, root) = (&self.invocation.env, self.root);
        let epoch = self.seen(|ledger| {
            let task = ledger.task(&holder.task).filter(|task| holder.holds(task));
            task.and_then(|task| task.epoch)
        })?;
        if let Some(epoch) = epoch
            && let Some(settings) = claim_rules(env, root)?.of(&holder.task, epoch)
        {
            return Ok(settings);
        }
        self.invocation.settings(root)
    }
}

/// One completion: who asks for it, and what its clean checkouts are given.
struct Inspection<'a> {
    files: &'a ByFiles<'a>,
    bring: Bring,
}

/// The end of a pipe that hangs up when somebody asks for the stop.
fn readable(stop: &Cancel) -> std::io::Result<pipe::Receiver> {
    let end = stop.as_fd().try_clone_to_owned()?;
    rustix::io::ioctl_fionbio(&end, true)?;
    pipe::Receiver::from_owned_fd(end)
}

/// Ctrl-C ends the check with everything that it started.
async fn cancelled(stop: &pipe::Receiver) {
    if stop.readable().await.is_err() {
        std::future::pending().await
    }
}

/// Where the rules of claims are kept.
pub(crate) fn claim_rules(env: &Environment, root: &StateRoot) -> Result<ClaimRules> {
    let folder = Outside::of_root(root.path(), &env.state_home()?);
    Ok(ClaimRules::in_folder(&folder.claims()))
}

impl Invocation {
    /// How strictly work is judged, by the configuration as it stands.
    fn settings(&self, root: &StateRoot) -> Result<Settings> {
        let config = self.config(root, Overrides::default())?;
        let (rules, unchecked) = (config.rules(root.path())?, config.unchecked());
        Ok(Settings { rules, unchecked, bring: config.validation.bring() })
    }

    /// A claim was made in the files: it keeps the rules and git's settings of now. One that was
    /// asked for again keeps those that it was made with. A configuration that cannot be read is
    /// reported when the task is completed.
    pub(crate) fn keep_rules(&self, root: &StateRoot, claimed: &Claimed) {
        let task = &claimed.task;
        if claimed.is_retry {
            return;
        }
        if let Err(why) = self.record_settings(root, task) {
            let why = why.error;
            warn(&format!("git's settings were not recorded for {}: {why}", task.id));
        }
        let Ok(settings) = self.settings(root) else { return };
        let epoch = task.epoch.unwrap_or_default();
        let kept = claim_rules(&self.env, root)
            .and_then(|rules| Ok(rules.keep(&task.id, epoch, &settings)?));
        if let Err(why) = kept {
            warn(&format!("the rules of the claim of {} are not kept: {}", task.id, why.error));
        }
    }

    fn record_settings(&self, root: &StateRoot, task: &Task) -> Result<()> {
        // Without a check nothing is judged, and without a commit nothing can be compared.
        if task.check().is_none() || task.started_at_commit.is_none() {
            return Ok(());
        }
        let named = self.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let directory = named.unwrap_or_else(|| root.path().to_owned());
        let tree = self.tree(root, &directory, None, Filters::Off)?;
        Ok(tree.record_settings(task)?)
    }

    /// A work tree in which clients work.
    fn tree(
        &self,
        root: &StateRoot,
        own: &Path,
        claimed: Option<&Path>,
        filters: Filters,
    ) -> Result<ClientTree> {
        let records = settings_folder(&self.env, root)?;
        let repositories = Arc::new(Repositories::recording_in(Some(records)));
        let tree = ClientTree::new(own, claimed, root.path(), filters, repositories);
        Ok(tree.map_err(NotDone::from)?)
    }

    /// Where checks run, unless a claim says otherwise.
    pub(crate) fn worktree(&self, root: &StateRoot) -> PathBuf {
        let told = self.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let found = told.or_else(|| glance::top_level(root.path()));
        found.unwrap_or_else(|| root.path().to_owned())
    }
}

/// Where git's settings at claims are recorded.
pub(crate) fn settings_folder(env: &Environment, root: &StateRoot) -> Result<PathBuf> {
    let folder = Outside::of_root(root.path(), &env.state_home()?);
    Ok(folder.settings())
}

impl Clerk for Inspection<'_> {
    type Error = Failure;

    fn standing(&self, task: &TaskId) -> impl Future<Output = Result<Standing>> + Send {
        std::future::ready(self.files.seen(|ledger| Standing::of(ledger, task)))
    }

    fn may_check(&self, task: &Task) -> Result<()> {
        let command = task.check().unwrap_or_default();
        let ByFiles { invocation, root, .. } = self.files;
        trust::require_item(invocation, root, &item(Kind::Check, command))?;
        _ = writeln!(std::io::stderr(), "checking {}: {}", task.id, visible(command));
        Ok(())
    }

    fn site(&self, claimed: Option<&Path>) -> impl Future<Output = Result<Arc<dyn Site>>> + Send {
        let found = || -> Result<Arc<dyn Site>> {
            let ByFiles { invocation, root, .. } = self.files;
            let own = invocation.worktree(root);
            let trusted = Trust::of_user(&invocation.env)?.is_place_trusted(root)?;
            let filters = if trusted { Filters::Run } else { Filters::Off };
            let tree = invocation.tree(root, &own, claimed, filters)?;
            Ok(Arc::new(tree.bringing(self.bring.clone())))
        };
        std::future::ready(found())
    }
}

/// One transaction under the lock for each command.
struct InFiles {
    store: Arc<Mutex<FileStore>>,
}

impl InFiles {
    fn apply(&self, command: Command) -> Committing {
        let renews = matches!(command, Command::Renew(_));
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        match store.apply(SystemClock.now(), &[command]) {
            Ok(mut applied) => {
                applied.warnings.iter().for_each(|warning| warn(warning));
                let none = || Arc::new(StoreError::Io(std::io::Error::other("no answer")));
                applied.replies.pop().ok_or_else(none)
            }
            // Whether the claim was lost is reported when the completion is recorded.
            Err(why) if renews => {
                warn(&format!("the lease was not renewed: {why}"));
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
