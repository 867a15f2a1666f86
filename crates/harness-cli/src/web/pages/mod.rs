//! The pages. Each is made from the view of the project, in one piece, on the server.

mod attempt;
mod chart;
mod graph;
mod landing;
mod layout;
mod log;
mod money;
mod need;
mod now;
mod parts;
pub(crate) mod report;
mod task;
mod tasks;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Query, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use self::layout::{Frame, Page};
use super::{
    answer::plain,
    maker::Made,
    reader::{Reader, Sought},
    site::{Mode, Site},
};
use crate::failure::{Failure, Result};

/// The choices in the address of a page.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Choice {
    /// Words to search for.
    #[serde(default)]
    q: String,
    /// The state of tasks.
    #[serde(default)]
    status: String,
    /// The number of the part of a long list, from 1.
    #[serde(default)]
    page: usize,
    /// The number of another attempt to compare with.
    #[serde(default)]
    from: String,
}

/// What a page needs besides the project.
#[derive(Debug, Clone)]
pub(super) struct Showing {
    base: String,
    mode: Mode,
    choice: Choice,
}

/// The inner part of a page.
pub(super) struct Inner {
    page: Page,
    title: Option<String>,
    needs: usize,
    main: Markup,
}

impl Inner {
    fn of(page: Page, needs: usize, main: Markup) -> Self {
        Self { page, title: None, needs, main }
    }

    fn titled(self, title: String) -> Self {
        Self { title: Some(title), ..self }
    }
}

macro_rules! page {
    ($make:path) => {
        get(|State(site): State<Arc<Site>>, uri: Uri, Query(choice): Query<Choice>| async move {
            show(&site, &uri, choice, $make).await
        })
    };
}

pub(super) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/", page!(now::page))
        .route("/tasks", page!(tasks::page))
        .route("/landing", page!(landing::page))
        .route("/money", page!(money::page))
        .route("/log", page!(log::page))
        .route("/report", page!(report::page))
        .route(
            "/task/{id}",
            get(|State(site): State<Arc<Site>>, uri: Uri, Path(id): Path<String>| async move {
                let make =
                    move |reader: &Reader, showing: &Showing| task::page(reader, showing, &id);
                show(&site, &uri, Choice::default(), make).await
            }),
        )
        .route("/task/{id}/{epoch}", get(one_attempt))
        .fallback(|State(site): State<Arc<Site>>, uri: Uri| async move {
            show(&site, &uri, Choice::default(), |_, _| Ok(Sought::Nothing)).await
        })
}

async fn one_attempt(
    State(site): State<Arc<Site>>,
    uri: Uri,
    Path((id, epoch)): Path<(String, String)>,
    Query(choice): Query<Choice>,
) -> Response {
    let make =
        move |reader: &Reader, showing: &Showing| attempt::page(reader, showing, &id, &epoch);
    show(&site, &uri, choice, make).await
}

async fn show(
    site: &Arc<Site>,
    uri: &Uri,
    choice: Choice,
    make: impl FnOnce(&Reader, &Showing) -> Result<Sought<Inner>> + Send + 'static,
) -> Response {
    let showing = Showing { base: site.base(), mode: site.mode, choice };
    let made = site.maker.page(uri.to_string(), move |reader| whole(reader, &showing, make)).await;
    match made {
        Ok(Made { status, text }) => {
            (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
        }
        Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{why}\n")),
    }
}

fn whole(
    reader: &Reader,
    showing: &Showing,
    make: impl FnOnce(&Reader, &Showing) -> Result<Sought<Inner>>,
) -> Made {
    let (status, inner) = match make(reader, showing) {
        Ok(Sought::Found(inner)) => (StatusCode::OK, inner),
        Ok(Sought::Nothing) => {
            let main = html! { h1 { "There is no such page" } p { a href="./" { "Go to what happens now" } } };
            (StatusCode::NOT_FOUND, Inner::of(Page::Now, 0, main))
        }
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, failed(&why)),
    };
    let frame = Frame {
        base: &showing.base,
        project: &reader.project(),
        page: inner.page,
        title: inner.title.as_deref(),
        needs: inner.needs,
        is_read_only: showing.mode == Mode::ReadOnly,
    };
    Made { status, text: frame.around(inner.main).into_string().into() }
}

fn failed(why: &Failure) -> Inner {
    let main = html! {
        h1 { "This page cannot be shown" }
        div .card .pad {
            p { (parts::shown(&why.error)) }
            @for hint in &why.hints { p .quiet { (parts::shown(hint)) } }
        }
    };
    Inner::of(Page::Now, 0, main)
}
