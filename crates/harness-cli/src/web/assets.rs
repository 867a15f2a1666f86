//! The files that pages use. They are part of the program.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::answer::plain;

pub(super) const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");
const ICON: &str = include_str!("assets/icon.svg");

/// `GET /assets/NAME`
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "style.css" => ("text/css; charset=utf-8", STYLE),
        "script.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return plain(StatusCode::NOT_FOUND, "There is no such file.\n"),
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
