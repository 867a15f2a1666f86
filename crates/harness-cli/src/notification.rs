//! The channels of the configuration, with their addresses and secrets, ready to be used.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use harness::{
    Hub,
    clock::SystemClock,
    host::prompts,
    notify::{Means, Notifier, NotifierTerms, Recipient, Secret, Warn},
    process::Redactor,
    store::Runs,
};

use crate::{
    config::{Config, Notify, NotifyChannel, NotifyKind, ValueSource},
    environment::Environment,
    failure::{Failure, Result},
    root::StateRoot,
};

/// The longest wait at the end of a run. What is left is sent by the next process.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(5);
/// The limit of a file with a secret.
const SECRET_BYTES: u64 = 4096;
const NTFY: &str = "https://ntfy.sh";
const TELEGRAM: &str = "https://api.telegram.org";

/// Returns the channels that can be used, and a failure for each of the others.
pub(crate) fn channels(config: &Config, env: &Environment) -> (Vec<Recipient>, Vec<Failure>) {
    let given = config.notify.as_ref().map(Notify::channels).unwrap_or_default();
    let (mut found, mut failures) = (Vec::<Recipient>::new(), Vec::new());
    for (number, channel) in given.iter().enumerate() {
        let name = channel.name.clone().unwrap_or_else(|| usual_name(given, number));
        match means(channel, env) {
            Ok(means) => found.push(Recipient {
                name,
                on: channel.on.iter().map(|event| event.0).collect(),
                quiet: channel.quiet.map(|quiet| quiet.0),
                means,
            }),
            Err(failure) => {
                let error = format!("notify: {name}: {}", failure.error);
                failures.push(Failure { error, ..failure });
            }
        }
    }
    (found, failures)
}

/// Returns the name of a channel without one: its kind, with a number if several have it.
fn usual_name(given: &[NotifyChannel], number: usize) -> String {
    let kind = given[number].kind;
    let earlier = given[..number].iter().filter(|other| other.kind == kind && other.name.is_none());
    match earlier.count() {
        0 => kind.name().to_owned(),
        before => format!("{}-{}", kind.name(), before + 1),
    }
}

fn means(channel: &NotifyChannel, env: &Environment) -> Result<Means> {
    let value = |key, source: &Option<ValueSource>| match source {
        Some(source) => read(key, source, env).map(Some),
        None => Ok(None),
    };
    let must = |key, source: &Option<ValueSource>| {
        value(key, source)?.ok_or_else(|| Failure::config(format!("it has no `{key}`")))
    };
    let url_or = |usual: &str| {
        Ok::<_, Failure>(value("url", &channel.url)?.unwrap_or_else(|| Secret::new(usual)))
    };
    let means = match channel.kind {
        NotifyKind::Command => {
            Means::Command { command: channel.command.clone().unwrap_or_default() }
        }
        NotifyKind::Webhook => Means::Webhook {
            url: must("url", &channel.url)?,
            key: value("secret", &channel.secret)?,
        },
        NotifyKind::Ntfy => Means::Ntfy {
            url: url_or(NTFY)?,
            topic: must("topic", &channel.topic)?,
            token: value("token", &channel.token)?,
        },
        NotifyKind::Slack => Means::Slack { url: must("url", &channel.url)? },
        NotifyKind::Discord => Means::Discord { url: must("url", &channel.url)? },
        NotifyKind::Telegram => Means::Telegram {
            url: url_or(TELEGRAM)?,
            token: must("token", &channel.token)?,
            chat: channel.chat.clone().unwrap_or_default(),
        },
        NotifyKind::Desktop => Means::Desktop,
    };
    let url = match &means {
        Means::Command { .. } | Means::Desktop => return Ok(means),
        Means::Webhook { url, .. }
        | Means::Ntfy { url, .. }
        | Means::Slack { url }
        | Means::Discord { url }
        | Means::Telegram { url, .. } => url.reveal(),
    };
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(Failure::config("`url` must begin with https:// or http://"));
    }
    Ok(means)
}

fn read(key: &str, source: &ValueSource, env: &Environment) -> Result<Secret> {
    let text = match source {
        ValueSource::Text(text) => text.clone(),
        ValueSource::Variable { env: name } => {
            let value = env.text(name)?.map(str::to_owned);
            let missing = || Failure::config(format!("`{key}`: the variable {name} is not set"));
            value.ok_or_else(missing)?
        }
        ValueSource::File { file } => {
            let path = path_of(file, env)
                .ok_or_else(|| Failure::config(format!("`{key}`: {file:?} is no absolute path")))?;
            small(&path)
                .map_err(|why| Failure::config(format!("`{key}`: {}: {why}", path.display())))?
        }
    };
    match text.trim() {
        "" => Err(Failure::config(format!("`{key}` is empty"))),
        trimmed => Ok(Secret::new(trimmed)),
    }
}

fn path_of(file: &str, env: &Environment) -> Option<PathBuf> {
    let path = match file.strip_prefix("~/") {
        Some(rest) => env.path("HOME")?.join(rest),
        None => PathBuf::from(file),
    };
    path.is_absolute().then_some(path)
}

fn small(path: &std::path::Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > SECRET_BYTES {
        return Err(io::Error::other(format!("it is no file of at most {SECRET_BYTES} bytes")));
    }
    fs::read_to_string(path)
}

/// Returns the name of a project for people: that of its folder.
pub(crate) fn project_name(root: &StateRoot) -> String {
    let name = root.path().file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "harness".to_owned())
}

/// The parts of a notifier that depend on the process.
pub(crate) struct Watched<'a> {
    pub(crate) root: &'a StateRoot,
    pub(crate) runs: Arc<dyn Runs>,
    pub(crate) hub: Hub,
    pub(crate) secrets: Redactor,
    pub(crate) warn: Warn,
}

/// Starts the notifier, if a channel is configured. A channel that cannot be used is reported and
/// left out.
pub(crate) fn start(
    config: &Config,
    env: &Environment,
    watched: Watched<'_>,
) -> Result<Option<Notifier>> {
    let (channels, failures) = channels(config, env);
    failures.iter().for_each(|failure| (watched.warn)(&failure.error));
    if channels.is_empty() {
        return Ok(None);
    }
    let Watched { root, runs, hub, secrets, warn } = watched;
    let terms = NotifierTerms {
        runs,
        channels,
        root: root.path().to_owned(),
        project: project_name(root),
        clock: Arc::new(SystemClock),
        secrets,
        hub,
        prompt_name: prompts::name,
        warn,
    };
    Ok(Some(Notifier::start(terms)?))
}
