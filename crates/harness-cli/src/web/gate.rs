//! The decision whether a request is answered, before anything else looks at it.

use axum::http::{HeaderMap, Method, Uri, header};

use super::{
    access::{Access, COOKIE},
    address::Names,
};

/// A header that a page of another site cannot send without asking us first, which we never permit.
pub(super) const OWN_HEADER: &str = "x-harness";
const FETCH_SITE: &str = "sec-fetch-site";
const PURPOSE: &str = "sec-purpose";

/// What a request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Passed {
    /// It wants to exchange a code for a session.
    Enter { code: String },
    /// It is answered. The path has no prefix.
    Inside { path: String },
}

/// The reason why a request is refused. The texts name nothing that a stranger could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The name in `Host` is not ours.
    Host,
    /// There is no session and no token.
    Stranger,
    /// The browser says that a page of another site sent it.
    OtherSite,
    /// A change without our `Origin`.
    Origin,
    /// A change without our header.
    NoHeader,
    /// The browser only wants to have it early.
    Prefetch,
    /// The method is neither for reading nor `POST`.
    Method,
}

/// The head of a request.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
}

impl<'a> Head<'a> {
    /// Returns the value of a header that must not be there twice.
    fn only(&self, name: impl header::AsHeaderName) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        values.next().is_none().then(|| value.to_str().ok())?
    }

    fn has(&self, name: impl header::AsHeaderName) -> bool {
        self.headers.contains_key(name)
    }

    fn bearer(&self) -> Option<&'a str> {
        let (scheme, token) = self.only(header::AUTHORIZATION)?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// Returns all cookies of our name.
    fn cookies(&self) -> impl Iterator<Item = &'a str> {
        let lines =
            self.headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value)
    }
}

/// Decides about a request. The order of the rules is part of the promise: the name of the server
/// comes before everything else.
pub(super) fn judge(head: Head<'_>, names: &Names, access: &Access) -> Result<Passed, Refusal> {
    let host = own_host(head, names).ok_or(Refusal::Host)?;
    let is_change = match *head.method {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => return Err(Refusal::Method),
    };
    let path = head.uri.path();
    let below = below_prefix(path, access);
    if let Some(code) = below.and_then(|path| path.strip_prefix("/enter/")).filter(|_| !is_change) {
        // Fetching a link early must not use the code up.
        if head.has(PURPOSE) || *head.method == Method::HEAD {
            return Err(Refusal::Prefetch);
        }
        return Ok(Passed::Enter { code: code.to_owned() });
    }
    let is_program = head.bearer().is_some_and(|token| access.is_token(token));
    let is_browser = below.is_some() && head.cookies().any(|session| access.has_session(session));
    if !is_program && !is_browser {
        return Err(Refusal::Stranger);
    }
    // Another port of this machine is `same-site`. It may be the agent's own web server.
    let from_elsewhere = |site: &str| !matches!(site, "same-origin" | "none");
    if head.has(FETCH_SITE) && head.only(FETCH_SITE).is_none_or(from_elsewhere) {
        return Err(Refusal::OtherSite);
    }
    let origin_is_ours = match head.has(header::ORIGIN) {
        true => head.only(header::ORIGIN).is_some_and(|origin| names.is_own_origin(origin, host)),
        // Only a browser sends it, and only a program has the token.
        false => is_program || !is_change,
    };
    if !origin_is_ours {
        return Err(Refusal::Origin);
    }
    if is_change && !head.has(OWN_HEADER) {
        return Err(Refusal::NoHeader);
    }
    match below {
        Some(path) => Ok(Passed::Inside { path: path.to_owned() }),
        None if path.starts_with("/api/") || path == "/metrics" => {
            Ok(Passed::Inside { path: path.to_owned() })
        }
        None => Err(Refusal::Stranger),
    }
}

/// Returns the value of `Host`, if it is one of ours. A request that names another server in its
/// first line is not for us either.
fn own_host<'a>(head: Head<'a>, names: &Names) -> Option<&'a str> {
    let host = head.only(header::HOST).filter(|host| names.is_ours(host))?;
    let named = head.uri.authority().map(|authority| authority.as_str());
    named.is_none_or(|named| named == host).then_some(host)
}

/// Returns the part of a path after the prefix.
fn below_prefix<'a>(path: &'a str, access: &Access) -> Option<&'a str> {
    let prefix = access.prefix();
    let given = path.get(1..=prefix.len())?;
    let rest = &path[1 + prefix.len()..];
    let is_same: bool = subtle::ConstantTimeEq::ct_eq(given.as_bytes(), prefix.as_bytes()).into();
    (is_same && (rest.is_empty() || rest.starts_with('/'))).then_some(if rest.is_empty() {
        "/"
    } else {
        rest
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Instant;

    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    struct Stage {
        access: Access,
        names: Names,
        session: String,
    }

    impl Stage {
        fn new() -> Self {
            let access = Access::new().unwrap();
            let code = access.issue_code(Instant::now()).unwrap();
            let session = access.redeem(&code, Instant::now()).unwrap().unwrap();
            let names = Names::of(&["127.0.0.1:8080".parse().unwrap()]);
            Self { access, names, session }
        }

        fn judge(
            &self,
            method: &Method,
            path: &str,
            headers: &[(&str, &str)],
        ) -> Result<Passed, Refusal> {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                map.append(name, HeaderValue::from_str(value).unwrap());
            }
            let uri: Uri = path.parse().unwrap();
            judge(Head { method, uri: &uri, headers: &map }, &self.names, &self.access)
        }
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8080");

    #[test]
    fn the_name_of_the_server_is_checked_before_everything_else() {
        let stage = Stage::new();
        let bearer = format!("Bearer {}", stage.access.token());
        let code = stage.access.issue_code(Instant::now()).unwrap();
        let enter = format!("/{}/enter/{code}", stage.access.prefix());
        for headers in [
            vec![("host", "evil.example:8080"), ("authorization", &*bearer)],
            vec![("authorization", &*bearer)],
            vec![HOST, ("host", "evil.example:8080"), ("authorization", &*bearer)],
        ] {
            assert_eq!(stage.judge(&Method::GET, "/api/status", &headers), Err(Refusal::Host));
            assert_eq!(
                stage.judge(&Method::GET, &enter, &headers[..1.min(headers.len())]).is_ok(),
                headers[0] == HOST
            );
        }
        let absolute = "http://evil.example:8080/api/status";
        let headers = [HOST, ("authorization", &bearer)];
        assert_eq!(stage.judge(&Method::GET, absolute, &headers), Err(Refusal::Host));
    }

    #[test]
    fn a_browser_needs_the_prefix_and_the_session() {
        let stage = Stage::new();
        let cookie = format!("theme=dark; harness={}", stage.session);
        let page = format!("/{}/tasks", stage.access.prefix());
        let inside = Ok(Passed::Inside { path: "/tasks".into() });
        assert_eq!(stage.judge(&Method::GET, &page, &[HOST, ("cookie", &cookie)]), inside);
        assert_eq!(stage.judge(&Method::GET, &page, &[HOST]), Err(Refusal::Stranger));
        let wrong = format!("harness={}", stage.access.token());
        assert_eq!(
            stage.judge(&Method::GET, &page, &[HOST, ("cookie", &wrong)]),
            Err(Refusal::Stranger)
        );
        for path in
            ["/tasks", "/api/status", "/metrics", "/", "/00000000000000000000000000000000/tasks"]
        {
            let judged = stage.judge(&Method::GET, path, &[HOST, ("cookie", &cookie)]);
            assert_eq!(judged, Err(Refusal::Stranger), "{path}");
        }
    }

    #[test]
    fn a_change_needs_our_origin_and_our_header() {
        let stage = Stage::new();
        let cookie = format!("harness={}", stage.session);
        let path = format!("/{}/api/command", stage.access.prefix());
        let (cookie, own) = (("cookie", &*cookie), ("x-harness", "1"));
        let ours = ("origin", "http://127.0.0.1:8080");
        let site = |value| ("sec-fetch-site", value);
        let inside = Ok(Passed::Inside { path: "/api/command".into() });
        for (headers, expected) in [
            (vec![HOST, cookie, ours, own], inside.clone()),
            (vec![HOST, cookie, ours, own, site("same-origin")], inside.clone()),
            (vec![HOST, cookie, own], Err(Refusal::Origin)),
            (vec![HOST, cookie, ours], Err(Refusal::NoHeader)),
            (vec![HOST, cookie, own, ("origin", "http://127.0.0.1:3000")], Err(Refusal::Origin)),
            (vec![HOST, cookie, own, ("origin", "null")], Err(Refusal::Origin)),
            (vec![HOST, cookie, own, ours, ours], Err(Refusal::Origin)),
            (vec![HOST, cookie, ours, own, site("same-site")], Err(Refusal::OtherSite)),
            (vec![HOST, cookie, ours, own, site("cross-site")], Err(Refusal::OtherSite)),
        ] {
            assert_eq!(stage.judge(&Method::POST, &path, &headers), expected, "{headers:?}");
        }
        assert_eq!(stage.judge(&Method::PUT, &path, &[HOST, cookie]), Err(Refusal::Method));
        assert_eq!(stage.judge(&Method::OPTIONS, &path, &[HOST, cookie]), Err(Refusal::Method));
    }

    #[test]
    fn a_program_needs_the_token_and_no_origin() {
        let stage = Stage::new();
        let bearer = format!("Bearer {}", stage.access.token());
        let (bearer, own) = (("authorization", &*bearer), ("x-harness", "1"));
        let inside = Ok(Passed::Inside { path: "/api/command".into() });
        let judge = |headers: &[(&str, &str)]| stage.judge(&Method::POST, "/api/command", headers);
        assert_eq!(judge(&[HOST, bearer, own]), inside);
        assert_eq!(judge(&[HOST, bearer]), Err(Refusal::NoHeader));
        assert_eq!(
            judge(&[HOST, bearer, own, ("origin", "http://evil.example")]),
            Err(Refusal::Origin)
        );
        assert_eq!(judge(&[HOST, own, ("authorization", "Bearer 00")]), Err(Refusal::Stranger));
        assert_eq!(
            judge(&[HOST, own, ("authorization", &stage.access.token())]),
            Err(Refusal::Stranger)
        );
    }

    #[test]
    fn a_code_is_not_used_up_by_a_browser_that_fetches_early() {
        let stage = Stage::new();
        let enter = format!("/{}/enter/abc", stage.access.prefix());
        let passed = Ok(Passed::Enter { code: "abc".into() });
        assert_eq!(stage.judge(&Method::GET, &enter, &[HOST]), passed);
        assert_eq!(
            stage.judge(&Method::GET, &enter, &[HOST, ("sec-fetch-site", "cross-site")]),
            passed
        );
        let early = [HOST, ("sec-purpose", "prefetch;prerender")];
        assert_eq!(stage.judge(&Method::GET, &enter, &early), Err(Refusal::Prefetch));
        assert_eq!(stage.judge(&Method::HEAD, &enter, &[HOST]), Err(Refusal::Prefetch));
        assert_eq!(stage.judge(&Method::POST, &enter, &[HOST]), Err(Refusal::Stranger));
    }
}
