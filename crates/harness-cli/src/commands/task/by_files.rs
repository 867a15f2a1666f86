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
        completion::{Clerk, ClientTree, Completion},
    },
    host::{ClaimRules, Settings},
    process::Redactor,
    shell::{Cancel, SystemShell},
    store::{FileStore, Outside, Store as _, StoreError},
    workspace::{Filters, glance},
};
use harness_core::{
    Command, Holder, Ledger, Reply, Task, TaskId,
    command::Authority,
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
        let Settings { rules, unchecked } = self.settings(&holder)?;
        let lease_seconds = invocation.lease_seconds()?;
        let request = Request { holder, authority, unchecked, lease_seconds, rules };
        let completion = Completion {
            clerk: self,
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
        Ok(Settings { rules: config.rules(root.path())?, unchecked: config.unchecked() })
    }

    /// A claim was made in the files: it keeps the rules of now. A configuration that cannot be read
    /// is reported when the task is completed.
    pub(crate) fn keep_rules(&self, root: &StateRoot, task: &Task) {
        let Ok(settings) = self.settings(root) else { return };
        let epoch = task.epoch.unwrap_or_default();
        let kept = claim_rules(&self.env, root)
            .and_then(|rules| Ok(rules.keep(&task.id, epoch, &settings)?));
        if let Err(why) = kept {
            warn(&format!("the rules of the claim of {} are not kept: {}", task.id, why.error));
        }
    }

    /// Where checks run, unless a claim says otherwise.
    pub(crate) fn worktree(&self, root: &StateRoot) -> PathBuf {
        let told = self.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let found = told.or_else(|| glance::top_level(root.path()));
        found.unwrap_or_else(|| root.path().to_owned())
    }
}

impl Clerk for ByFiles<'_> {
    type Error = Failure;

    fn standing(&self, task: &TaskId) -> impl Future<Output = Result<Standing>> + Send {
        std::future::ready(self.seen(|ledger| Standing {
            task: ledger.task(task).cloned(),
            next_epoch: ledger.next_epoch(),
            session: ledger.head().session_count,
        }))
    }

    fn may_check(&self, task: &Task) -> Result<()> {
        let command = task.check().unwrap_or_default();
        trust::require_item(self.invocation, self.root, &item(Kind::Check, command))?;
        _ = writeln!(std::io::stderr(), "checking {}: {}", task.id, visible(command));
        Ok(())
    }

    fn site(&self, claimed: Option<&Path>) -> impl Future<Output = Result<Arc<dyn Site>>> + Send {
        let found = || -> Result<Arc<dyn Site>> {
            let own = self.invocation.worktree(self.root);
            let trusted = Trust::of_user(&self.invocation.env)?.is_place_trusted(self.root)?;
            let filters = if trusted { Filters::Run } else { Filters::Off };
            let root = self.root.path();
            let tree = ClientTree::new(&own, claimed, root, filters, Arc::default());
            Ok(Arc::new(tree.map_err(NotDone::from)?))
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
