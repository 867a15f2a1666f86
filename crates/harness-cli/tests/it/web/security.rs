//! The promises of `docs/web.md` about who may see and change a project.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{
    client::{get, post, raw},
    server::{Server, path_of},
};
use crate::environment::TestEnvironment;

fn project() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.run(["add", "Parse the file", "--validate", "true"]).success();
    env
}

/// Returns the addresses on which this machine listens on `port`.
fn listening(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let addresses = rows.filter_map(|row| {
        let mut words = row.split_whitespace();
        let (address, state) = (words.nth(1)?, words.nth(1)?);
        let (ip, at) = address.split_once(':')?;
        (state == "0A" && u16::from_str_radix(at, 16) == Ok(port)).then(|| ip.to_owned())
    });
    addresses.collect()
}

#[test]
fn it_listens_on_this_machine_only() {
    let env = project();
    let server = Server::start(&env);
    let addresses = listening(server.port);
    assert!(!addresses.is_empty());
    for address in addresses {
        let loopback = ["0100007F", "00000000000000000000000001000000"];
        assert!(loopback.contains(&address.as_str()), "{address}");
    }
}

#[test]
fn another_address_needs_a_token_file_and_warns() {
    let env = project();
    env.run(["web", "--listen", "0.0.0.0:0"]).code(2).stderr_contains("--token-file");
    let file = env.home().join("token");
    let server =
        Server::with(&env, &["--listen", "0.0.0.0:0", "--token-file", file.to_str().unwrap()]);
    assert_eq!(listening(server.port), ["00000000"]);
    assert_eq!(server.send(get("/api/status")).status, 200);
    let named = get("/api/status").host(format!("evil.example:{}", server.port));
    assert_eq!(server.send(named).status, 421);
    assert!(server.end().contains("WARN: 0.0.0.0:0 is open to others"));
}

#[test]
fn a_request_for_another_server_is_refused_before_anything_else() {
    let env = project();
    let server = Server::start(&env);
    let port = server.port;
    for host in [
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("127.0.0.1.evil.example:{port}"),
        String::new(),
    ] {
        assert_eq!(server.send(get("/api/status").host(&*host)).status, 421, "{host}");
        assert_eq!(get("/nonsense").host(&*host).send(port).status, 421, "{host}");
        assert_eq!(get(path_of(&server.url)).host(&*host).send(port).status, 421, "{host}");
    }
    let bearer = server.bearer();
    for head in [
        format!("GET /api/status HTTP/1.0\r\nAuthorization: {bearer}\r\n\r\n"),
        format!(
            "GET http://evil.example/api/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
        ),
    ] {
        let status = raw(port, head.as_bytes()).status;
        assert!([400, 421].contains(&status), "{status}: {head}");
    }
    // None of this has used the code up.
    server.enter();
    for host in [format!("localhost:{port}"), format!("[::1]:{port}")] {
        assert_eq!(server.send(get("/api/status").host(host)).status, 200);
    }
}

#[test]
fn a_link_works_once_and_gives_a_cookie_for_its_own_path() {
    let env = project();
    let server = Server::start(&env);
    let prefix = server.base.trim_matches('/');
    assert_eq!(prefix.len(), 32, "128 bits");
    assert!(server.url.starts_with(&format!("http://127.0.0.1:{}/{prefix}/enter/", server.port)));
    let early = get(path_of(&server.url)).header("Sec-Purpose", "prefetch");
    assert_eq!(early.send(server.port).status, 403);
    let first = get(path_of(&server.url)).send(server.port);
    assert_eq!(first.status, 200);
    let cookie = first.header("set-cookie").unwrap();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, format!("Path=/{prefix}/; HttpOnly; SameSite=Strict"));
    assert_eq!(value.len(), "harness=".len() + 64, "256 bits");
    assert_eq!(get(path_of(&server.url)).send(server.port).status, 401, "it was used");
    assert_eq!(server.page(value, "").status, 200);
    let second = Server::start(&env);
    assert_ne!(second.base, server.base, "each start has its own prefix");
    assert_eq!(second.page(value, "").status, 401);
}

#[test]
fn nothing_is_shown_without_a_session_or_the_token() {
    let env = project();
    let server = Server::start(&env);
    let cookie = server.enter();
    let base = &server.base;
    for path in
        ["", "tasks", "api/status", "api/events", "live", "metrics", "assets/style.css", "none"]
    {
        let response = get(format!("{base}{path}")).send(server.port);
        assert_eq!(response.status, 401, "{path}");
        assert!(!response.body.contains("Parse the file"));
        let wrong = get(format!("{base}{path}")).header("Cookie", "harness=0000");
        assert_eq!(wrong.send(server.port).status, 401, "{path}");
    }
    // The cookie belongs to the path, and other paths need the token.
    for path in ["/", "/api/status", "/metrics", "/0123456789abcdef0123456789abcdef/"] {
        assert_eq!(get(path).header("Cookie", &*cookie).send(server.port).status, 401, "{path}");
    }
    let bearer =
        |value: &str| get("/api/status").header("Authorization", value).send(server.port).status;
    assert_eq!(bearer(&server.bearer()), 200);
    assert_eq!(bearer(&format!("Bearer {}", &server.token[1..])), 401);
    assert_eq!(bearer(&format!("Bearer {}", cookie.replace("harness=", ""))), 401);
    assert_eq!(bearer(&format!("Basic {}", server.token)), 401);
    assert_eq!(server.token.len(), 64, "256 bits");
}

#[test]
fn the_token_file_is_for_the_user_only() {
    let env = project();
    let file = env.root().join("token");
    env.write("other", "keep");
    std::os::unix::fs::symlink(env.root().join("other"), &file).unwrap();
    let server = Server::with(&env, &["--token-file", "token"]);
    let found = fs::symlink_metadata(&file).unwrap();
    assert!(found.is_file(), "the link was replaced");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(env.read("token").trim_end(), server.token);
    assert_eq!(env.read("other"), "keep");
}

#[test]
fn another_link_comes_from_the_server_and_not_for_an_agent() {
    let env = project();
    env.run(["web", "--url"]).code(1).stderr_contains("no web server is running here");
    let server = Server::start(&env);
    let link = env.run(["web", "--url"]).success().raw().to_owned();
    assert_ne!(link, server.url);
    assert_eq!(get(path_of(&link)).send(server.port).status, 200);
    let json = env.run(["web", "--url", "--json"]).success().json();
    assert_eq!(json["port"], server.port);
    assert!(json.get("token").is_none());
    let job = format!("{}.1.x", harness::home::root_hash(env.root()));
    let env = env.variable("HARNESS_JOB", job);
    let refused = env.run(["web", "--url"]).code(1).stderr_contains("only a person");
    assert!(!refused.output().contains("http"));
}

#[test]
fn secrets_are_in_no_log_no_arguments_and_no_environment() {
    let env = project();
    let server = Server::start(&env);
    let cookie = server.enter();
    server.page(&cookie, "");
    server.send(post("/api/command", r#"{"command":"status"}"#).header("X-Harness", "1"));
    let proc = |name: &str| fs::read(format!("/proc/{}/{name}", server.pid())).unwrap();
    let mut places = vec![proc("cmdline"), proc("environ")];
    for file in walk(env.root()) {
        places.push(fs::read(&file).unwrap_or_default());
    }
    let secrets = [
        server.token.clone(),
        server.base.trim_matches('/').to_owned(),
        cookie.replace("harness=", ""),
        server.url.rsplit('/').next().unwrap().to_owned(),
    ];
    places.push(server.end().into_bytes());
    for (n, place) in places.iter().enumerate() {
        let text = String::from_utf8_lossy(place);
        assert!(secrets.iter().all(|secret| !text.contains(secret.as_str())), "place {n}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(walk(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

#[test]
fn a_change_needs_our_origin_our_header_and_no_other_site() {
    let env = project();
    let server = Server::start(&env);
    let (cookie, port) = (server.enter(), server.port);
    let command = || {
        post(format!("{}api/command", server.base), r#"{"command":"task_add","title":"New"}"#)
            .header("Cookie", &*cookie)
    };
    let ours = format!("http://127.0.0.1:{port}");
    let own = || command().header("X-Harness", "1");
    for (request, why) in [
        (own(), "no Origin"),
        (own().header("Origin", "http://evil.example"), "a foreign Origin"),
        (
            own().header("Origin", format!("http://127.0.0.1:{}", port.wrapping_add(1))),
            "another port",
        ),
        (own().header("Origin", "null"), "a sandboxed page"),
        (own().header("Origin", &*ours).header("Origin", "http://evil.example"), "two of them"),
        (command().header("Origin", &*ours), "no header"),
        (own().header("Origin", &*ours).header("Sec-Fetch-Site", "cross-site"), "another site"),
        (own().header("Origin", &*ours).header("Sec-Fetch-Site", "same-site"), "another port"),
    ] {
        assert_eq!(request.send(port).status, 403, "{why}");
    }
    let as_get = get(format!("{}api/command", server.base)).header("Cookie", &*cookie).send(port);
    assert_eq!(as_get.status, 405);
    let preflight = command().method("OPTIONS").header("Origin", "http://evil.example").send(port);
    assert_eq!(preflight.status, 405);
    assert!(preflight.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
    assert_eq!(env.run(["task", "list", "--json"]).json()["tasks"].as_array().unwrap().len(), 1);
    let done = own().header("Origin", &*ours).header("Sec-Fetch-Site", "same-origin").send(port);
    assert_eq!((done.status, done.json()["status"].as_str()), (200, Some("ok")), "{done:?}");
    assert!(done.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
    assert_eq!(env.run(["task", "list", "--json"]).json()["tasks"].as_array().unwrap().len(), 2);
    let program = post("/api/command", r#"{"command":"task_add","title":"More"}"#);
    assert_eq!(server.send(program.clone()).status, 403, "no header");
    let foreign = program.clone().header("X-Harness", "1").header("Origin", "http://evil.example");
    assert_eq!(server.send(foreign).status, 403);
    assert_eq!(server.send(program.header("X-Harness", "1")).status, 200);
}

#[test]
fn a_page_is_not_read_by_another_site() {
    let env = project();
    let server = Server::start(&env);
    let cookie = server.enter();
    for (site, status) in
        [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
    {
        let page = get(&*server.base).header("Cookie", &*cookie).header("Sec-Fetch-Site", site);
        assert_eq!(page.send(server.port).status, status, "{site}");
    }
}

#[test]
fn every_response_forbids_what_no_page_needs() {
    let env = project();
    let server = Server::start(&env);
    let cookie = server.enter();
    let responses = [
        server.page(&cookie, ""),
        server.page(&cookie, "assets/script.js"),
        server.page(&cookie, "none"),
        get("/").send(server.port),
        get("/").host("evil.example").send(server.port),
        server.send(get("/api/status")),
        server.send(get("/metrics")),
        server.send(post("/api/command", "{")),
    ];
    for response in responses {
        let policy = response.header("content-security-policy").unwrap();
        for rule in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'self'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert!(response.header("content-type").is_some());
    }
}
