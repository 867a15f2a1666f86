//! A way to reach a person.

use std::fmt;

use harness_core::{
    Timestamp,
    notify::{Notice, QuietHours, Topic},
};

/// A way to reach a person, with the events that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The name, which is unique in a project.
    pub name: String,
    /// The events.
    pub on: Vec<Topic>,
    /// The part of the day in which it sends nothing.
    pub quiet: Option<QuietHours>,
    /// The way in which it sends.
    pub means: Means,
}

/// The way in which a channel sends. All kinds but a command and the desktop need the feature `http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// A command line, which gets the message as JSON on standard input.
    Command {
        /// The command line.
        command: String,
    },
    /// A POST as Standard Webhooks describe it.
    Webhook {
        /// The address.
        url: Secret,
        /// The key of the signature, `whsec_…` or any text; `None` for no signature.
        key: Option<Secret>,
    },
    /// A topic of an ntfy server.
    Ntfy {
        /// The address of the server.
        url: Secret,
        /// The topic. Everybody who knows it can read it.
        topic: Secret,
        /// The access token.
        token: Option<Secret>,
    },
    /// An incoming webhook of Slack.
    Slack {
        /// The address, which is a secret.
        url: Secret,
    },
    /// A webhook of Discord.
    Discord {
        /// The address, which is a secret.
        url: Secret,
    },
    /// A bot of Telegram.
    Telegram {
        /// The address of the API.
        url: Secret,
        /// The token of the bot.
        token: Secret,
        /// The chat.
        chat: String,
    },
    /// `notify-send`.
    Desktop,
}

impl Means {
    /// Returns the word that settings use.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Webhook { .. } => "webhook",
            Self::Ntfy { .. } => "ntfy",
            Self::Slack { .. } => "slack",
            Self::Discord { .. } => "discord",
            Self::Telegram { .. } => "telegram",
            Self::Desktop => "desktop",
        }
    }
}

impl Recipient {
    /// Returns whether this message is for the channel.
    pub fn wants(&self, notice: &Notice) -> bool {
        notice.concerns(&self.on)
    }

    /// Returns whether the channel may send at this time.
    pub(super) fn is_awake(&self, now: Timestamp) -> bool {
        self.quiet.is_none_or(|quiet| quiet.minutes_left(minute_of_day(now)).is_none())
    }
}

/// Returns the minute of the day in the zone of this machine.
fn minute_of_day(now: Timestamp) -> u32 {
    let time = jiff::Timestamp::from_second(now.seconds()).unwrap_or_default();
    let local = time.to_zoned(jiff::tz::TimeZone::system());
    u32::from(local.hour().unsigned_abs()) * 60 + u32::from(local.minute().unsigned_abs())
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
