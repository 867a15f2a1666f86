//! The daemon itself: an engine that serves others.

use std::{
    future::Future,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use harness::{
    Hub, Observers, Transaction,
    clock::SystemClock,
    host::{
        Daemon, Ended, READY, Service, Surroundings,
        socket::{self, Places},
    },
    process::Redactor,
    protocol::Refused,
    store::Locking,
    workspace::Filters,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{Args, emitter::Emitter, notices::Notices};
use crate::{
    client::{claim_rules, settings_folder},
    commands::init,
    config::{self, Overrides},
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
    trust::{self, Trust},
    web,
    would_run::item,
};

/// The number of events that a reconnecting subscriber can request.
const KEPT_EVENTS: usize = 4096;

pub(super) fn serve(
    invocation: &mut Invocation,
    args: &Args,
    socket: &Path,
    worktree: &Path,
) -> Result<ExitCode> {
    let worktree = worktree.canonicalize().map_err(|why| Failure::file("use", worktree, &why))?;
    let root = StateRoot::to_serve(&invocation.env, args.root.as_deref(), &worktree)?;
    if args.detached {
        rustix::process::setsid().map_err(io::Error::from)?;
    }
    let config = invocation.config(&root, Overrides::default())?;
    let secrets = invocation.secrets(&root);
    crate::warnings::tell(secrets.clone(), warn);
    let places = Places { socket: Some(socket.to_owned()), runtime_dir: None };
    let bound = socket::bind(root.path(), &places)?;
    let wait = invocation.lock_wait()?;
    let surroundings = surroundings(&invocation.env, &root);
    let daemon = Arc::new(Daemon::new(worktree, surroundings, Arc::new(SystemClock), wait));
    let hub = Hub::keeping("daemon", KEPT_EVENTS);
    hub.start_session();
    let observers = observers(invocation, &root, &secrets, &daemon).with(Notices::new(
        &invocation.env,
        &root,
        &secrets,
        &hub,
    ));
    let engine = invocation.project(&root)?.with_secrets(secrets.clone()).engine(
        Locking::Each(wait),
        hub,
        observers,
    )?;
    let service = Service { lease_seconds: invocation.lease_seconds()?, adding: config.adding() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let idle = args.idle_seconds.map(Duration::from_secs);
    // It reads the files and asks this daemon, as a command would.
    let _web = args.web.then(|| web::beside(&invocation.env, &root)).flatten();
    let ended = runtime.block_on(async {
        let asked = asked_to_end()?;
        announce(args.detached, bound.path())?;
        engine.serve(bound, service, &daemon, idle, asked).await
    })?;
    // The engine ends when no request can reach it any more.
    drop(runtime);
    if let Err(why) = engine.end() {
        warn(&why.to_string());
    }
    match ended {
        Ended::Asked => {}
        Ended::Idle => say("no longer needed: ended"),
        Ended::Lost => say("the socket or the root was removed: ended"),
    }
    Ok(ExitCode::Done)
}

/// Returns the observers: first clients that wait for a task, then the terminal, then telemetry.
fn observers(
    invocation: &Invocation,
    root: &StateRoot,
    secrets: &Redactor,
    daemon: &Arc<Daemon>,
) -> Observers {
    let mut observers = Observers::default();
    observers.add(daemon.clone());
    observers = observers.with(|made: &Transaction<'_>| made.warnings.iter().for_each(|w| warn(w)));
    match Emitter::new(&invocation.env, root, secrets) {
        Some(emitter) => observers.with(emitter),
        None => observers,
    }
}

pub(super) fn say(text: &str) {
    _ = writeln!(io::stderr(), "{text}");
}

/// Announces that the daemon listens. The process that started it waits for this word; a person
/// sees the path.
fn announce(detached: bool, path: &Path) -> io::Result<()> {
    if detached {
        // An error means that nothing waits for the word any more.
        _ = writeln!(io::stdout(), "{}", READY);
        return Ok(());
    }
    writeln!(io::stderr(), "listening on {} (pid={})", path.display(), std::process::id())
}

/// Waits for Ctrl-C, a closed terminal or a request to end.
fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut ctrl_c = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = ctrl_c.recv() => {}
            _ = hang_up.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Returns the surroundings, which read configuration and trust at each use.
pub(crate) fn surroundings(env: &Environment, root: &StateRoot) -> Surroundings {
    let of = || (env.clone(), root.clone());
    let (settings, made) = (of(), of());
    let trust = Arc::new(Trust::of_user(env));
    let (granting, may_run) = (Arc::clone(&trust), root.clone());
    let (filtering, filters) = (trust, root.clone());
    Surroundings {
        settings: Box::new(move || {
            let (env, root) = &settings;
            let loaded = config::load(env, Some(root.path()), Overrides::default());
            let config = loaded.map_err(Refused::from)?.config;
            Ok(config.settings(root.path())?)
        }),
        may_run: Box::new(move |kind, text| {
            let trust = granting.as_ref().as_ref().map_err(Failure::clone)?;
            Ok(trust::require_silently(trust, &may_run, &item(kind, text))?)
        }),
        filters: Box::new(move || {
            let trust = filtering.as_ref().as_ref().map_err(Failure::clone);
            let trusted = trust.and_then(|trust| trust.is_place_trusted(&filters));
            if trusted.unwrap_or(false) { Filters::Run } else { Filters::Off }
        }),
        made: Box::new(move || init::made(&made.0, &made.1)),
        state_home: env.state_home().ok(),
        claims: claim_rules(env, root).ok(),
        records: settings_folder(env, root).ok(),
        warn: Box::new(warn),
    }
}
