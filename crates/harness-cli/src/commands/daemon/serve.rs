//! The daemon itself: the library's parts, put together.

use std::{
    future::Future,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use harness::{
    Hub,
    clock::SystemClock,
    host::{
        Daemon, Desk, Duty, Ended, Host, READY, Surroundings, serve_alone,
        socket::{self, Places},
        tell_facts,
    },
    protocol::Refused,
    store::{FileStore, Locking, Redacted, Writer},
    workspace::Filters,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{Args, Invocation, emitter::Emitter};
use crate::{
    client::{claim_rules, settings_folder},
    commands::init,
    config::{self, Overrides},
    environment::Environment,
    exit::ExitCode,
    failure::{Failure, Result},
    root::StateRoot,
    store::warn,
    trust::{self, Trust},
    would_run::item,
};

/// As many events as a subscriber that comes back can ask for.
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
    let emitter = Emitter::new(&invocation.env, &root, &secrets).map(Arc::new);
    let hub = Hub::keeping("daemon", KEPT_EVENTS);
    hub.start_session();
    let (wait, clock) = (invocation.lock_wait()?, Arc::new(SystemClock));
    let surroundings = surroundings(&invocation.env, &root);
    let daemon = Arc::new(Daemon::new(worktree, surroundings, clock.clone(), wait));
    let state_home = invocation.state_home();
    let store = FileStore::open_with(root.path(), Locking::Each(wait), state_home.as_deref())?;
    let store = store.hosting();
    let (heard, waiting, sent) = (hub.clone(), Arc::clone(&daemon), emitter.clone());
    let publish = Box::new(move |facts: &[_], warnings: &[String]| {
        warnings.iter().for_each(|warning| warn(warning));
        tell_facts(&heard, facts);
        waiting.heard(facts);
        if let Some(emitter) = &sent {
            emitter.tell(facts);
        }
    });
    let store = Redacted::new(store, secrets.clone());
    let writer = Arc::new(Writer::start(store, clock, publish)?);
    let host = Host {
        root: root.path().to_owned(),
        writer: Arc::clone(&writer),
        hub,
        workspace: None,
        desk: Desk::default(),
        lease_seconds: invocation.lease_seconds()?,
        duty: Duty::Daemon(Arc::clone(&daemon)),
        secrets,
        adding: config.adding(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let idle = args.idle_seconds.map(Duration::from_secs);
    let ended = runtime.block_on(async {
        let asked = asked_to_end()?;
        announce(args.detached, bound.path())?;
        serve_alone(bound, host, &daemon, idle, asked).await
    })?;
    // Ends when nobody can ask any more; what waits is written first.
    drop(runtime);
    drop(writer);
    if let Some(emitter) = emitter.and_then(Arc::into_inner) {
        emitter.close();
    }
    match ended {
        Ended::Asked => {}
        Ended::Idle => say("nobody needed it: ended"),
        Ended::Lost => say("its socket or its root was taken away: ended"),
    }
    Ok(ExitCode::Done)
}

pub(super) fn say(text: &str) {
    _ = writeln!(io::stderr(), "{text}");
}

/// Whoever started it waits for this word; a person is told where it listens.
fn announce(detached: bool, path: &Path) -> io::Result<()> {
    if detached {
        // Nobody waits any more: then nobody is told.
        _ = writeln!(io::stdout(), "{}", READY);
        return Ok(());
    }
    writeln!(io::stderr(), "listening on {} (pid={})", path.display(), std::process::id())
}

/// Ctrl-C, a closed terminal, a request to end.
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

/// Configuration and trust as they are when they are asked for.
fn surroundings(env: &Environment, root: &StateRoot) -> Surroundings {
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
