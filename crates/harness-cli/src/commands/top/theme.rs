//! The styles of the terminal view, by meaning. Sixteen colours are enough, and without colours the
//! markers, bold and reversed text carry the meaning.

use ratatui::style::{Color, Modifier, Style};

/// Whether the terminal gets colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Coloured,
    Plain,
}

impl Theme {
    fn of(self, colour: Color) -> Style {
        match self {
            Self::Coloured => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    /// What a person has to act on.
    pub(super) fn urgent(self) -> Style {
        self.of(Color::Magenta).add_modifier(Modifier::BOLD)
    }

    pub(super) fn good(self) -> Style {
        self.of(Color::Green)
    }

    pub(super) fn bad(self) -> Style {
        self.of(Color::Red)
    }

    pub(super) fn warm(self) -> Style {
        self.of(Color::Yellow)
    }

    /// Commands and keys.
    pub(super) fn key(self) -> Style {
        self.of(Color::Cyan)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row of the pane that the keys go to.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The selected row of the other pane.
    pub(super) fn marked(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }
}
