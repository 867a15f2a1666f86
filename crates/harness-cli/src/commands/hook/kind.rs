//! The hooks that can be called, and their properties.

use super::project;

/// The hooks that can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Stop,
    SessionStart,
    TeammateIdle,
    SubagentStop,
    SelfReflect,
    PreCompact,
    Prompt,
    Claim,
    Renew,
}

impl Hook {
    pub(super) const ALL: [Self; 9] = [
        Self::Stop,
        Self::SessionStart,
        Self::TeammateIdle,
        Self::SubagentStop,
        Self::SelfReflect,
        Self::PreCompact,
        Self::Prompt,
        Self::Claim,
        Self::Renew,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::SessionStart => "session-start",
            Self::TeammateIdle => "teammate-idle",
            Self::SubagentStop => "subagent-stop",
            Self::SelfReflect => "self-reflect",
            Self::PreCompact => "pre-compact",
            Self::Prompt => "prompt",
            Self::Claim => "claim",
            Self::Renew => "renew",
        }
    }

    /// Returns whether the supervisor of an agent that harness started decides this itself.
    pub(super) const fn is_supervisors(self) -> bool {
        match self {
            Self::Stop
            | Self::SubagentStop
            | Self::TeammateIdle
            | Self::SelfReflect
            | Self::Prompt => true,
            Self::SessionStart | Self::PreCompact | Self::Claim | Self::Renew => false,
        }
    }

    /// Returns whether a script calls it and needs an answer in any case.
    pub(super) const fn is_tool(self) -> bool {
        match self {
            Self::Claim | Self::Renew => true,
            Self::Stop
            | Self::SessionStart
            | Self::TeammateIdle
            | Self::SubagentStop
            | Self::SelfReflect
            | Self::PreCompact
            | Self::Prompt => false,
        }
    }

    /// Returns the file without which it is silent.
    pub(super) const fn marker(self) -> Option<&'static str> {
        match self {
            Self::Prompt | Self::Claim | Self::Renew => None,
            Self::SelfReflect => Some(project::REFLECT),
            Self::Stop
            | Self::SessionStart
            | Self::TeammateIdle
            | Self::SubagentStop
            | Self::PreCompact => Some(project::ACTIVE),
        }
    }
}
