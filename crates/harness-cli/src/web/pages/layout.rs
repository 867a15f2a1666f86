//! The frame of every page: head, navigation and the state of the connection.

use maud::{DOCTYPE, Markup, html};

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Now,
    Tasks,
    Landing,
    Money,
    Log,
    Report,
}

impl Page {
    const ALL: [Self; 6] =
        [Self::Now, Self::Tasks, Self::Landing, Self::Money, Self::Log, Self::Report];

    fn name(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Tasks => "Tasks",
            Self::Landing => "Landing",
            Self::Money => "Money",
            Self::Log => "Log",
            Self::Report => "Report",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Now => "./",
            Self::Tasks => "tasks",
            Self::Landing => "landing",
            Self::Money => "money",
            Self::Log => "log",
            Self::Report => "report",
        }
    }
}

/// The parts of a page.
pub(super) struct Frame<'a> {
    /// The path of all pages, to which links are relative.
    pub(super) base: &'a str,
    /// The name of the project.
    pub(super) project: &'a str,
    pub(super) page: Page,
    /// The title, in addition to the name of the page.
    pub(super) title: Option<&'a str>,
    /// The number of matters that wait for a person.
    pub(super) needs: usize,
    pub(super) is_read_only: bool,
}

impl Frame<'_> {
    pub(super) fn around(&self, main: Markup) -> Markup {
        let Self { base, project, page, .. } = self;
        let title = self.title.unwrap_or(page.name());
        let waiting = if self.needs > 0 { format!("({}) ", self.needs) } else { String::new() };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (waiting) (title) " · " (project) }
                    base href=(base);
                    link rel="icon" href="assets/icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="assets/style.css";
                    script src="assets/script.js" defer {}
                }
                body {
                    a .skip href="#main" { "Skip to the content" }
                    header .top {
                        div {
                            a .brand href="./" {
                                img src="assets/icon.svg" alt="" width="22" height="22";
                                span { (project) }
                            }
                            nav #nav aria-label="Pages" data-live="part" { (self.links()) }
                            @if self.is_read_only { span .chip { "read only" } }
                            span .pulse data-state="still" role="status" { "not live" }
                        }
                    }
                    p .notice role="status" hidden {}
                    main #main tabindex="-1" { (main) }
                }
            }
        }
    }

    fn links(&self) -> Markup {
        html! {
            @for page in Page::ALL {
                @let current = (page == self.page).then_some("page");
                a href=(page.path()) aria-current=[current] {
                    (page.name())
                    @if page == Page::Now && self.needs > 0 {
                        span .count title="matters that wait for you" { (self.needs) }
                    }
                }
            }
        }
    }
}
