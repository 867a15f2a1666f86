//! The pages in a real browser.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use super::{
    chromium::Chromium,
    night::{self, HOSTILE},
    server::Server,
};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, rows},
};

/// A project at work, its server, and a browser that has opened the link.
struct Stage {
    env: TestEnvironment,
    _run: Going,
    server: Server,
    browser: Chromium,
}

impl Stage {
    fn new() -> Option<Self> {
        let browser = Chromium::start()?;
        let env = night::project();
        let run = night::run(&env);
        let server = Server::start(&env);
        browser.open(&server.url);
        browser.until("location.pathname.split('/').length === 3");
        Some(Self { env, _run: run, server, browser })
    }

    fn address(&self, page: &str) -> String {
        format!("http://127.0.0.1:{}{}{page}", self.server.port, self.server.base)
    }

    fn open(&self, page: &str) {
        self.browser.open(&self.address(page));
    }
}

#[test]
fn every_page_is_shown_wide_and_narrow_in_both_colours() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    let flaky = rows(&stage.env, "SELECT epoch FROM runs WHERE task_id = 'flaky' ORDER BY epoch");
    let attempt = format!("task/flaky/{}", flaky[0]["epoch"]);
    let mut problems = Vec::new();
    for (page, name, words) in [
        ("", "now", "Which database do the tests use?"),
        ("tasks", "tasks", "What depends on what"),
        ("task/flaky", "task", "What the check printed"),
        (attempt.as_str(), "attempt", "+try 1"),
        ("landing", "landing", "In the line"),
        ("money", "money", "Attempts by worker"),
        ("log", "log", "Completed"),
        ("report", "report", "Waits for you"),
    ] {
        for (width, height) in [(1280, 900), (360, 740)] {
            for scheme in ["light", "dark"] {
                browser.look(width, height, scheme);
                stage.open(page);
                if !browser.text().contains(words) {
                    problems.push(format!("no {words:?} on {page}: {}", browser.text()));
                }
                let wide = browser.eval("document.documentElement.scrollWidth").as_u64().unwrap();
                if wide > u64::from(width) {
                    problems.push(format!("{page} is {wide} wide at {width}"));
                }
                browser.picture(&format!("{name}-{width}-{scheme}"));
            }
        }
        problems.extend(browser.complaints());
    }
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_person_answers_wakes_and_raises_the_budget_without_a_reload() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    stage.open("");
    browser.eval("window.marker = 1");
    browser.until("document.querySelector('.pulse').dataset.state === 'live'");
    // A change of the files by somebody else.
    stage.env.run(["add", "Added meanwhile", "--id", "meanwhile", "--validate", "true"]).success();
    browser.until("document.body.innerText.includes('Added meanwhile')");
    // The question.
    browser.until("document.querySelector('form.act button[value=PostgreSQL]')");
    browser.click("form.act button[value=PostgreSQL]");
    browser.until("!document.body.innerText.includes('Which database')");
    // The usage limit.
    browser.until("document.body.innerText.includes('Try again now')");
    assert_eq!(stage.env.read("answer.txt").trim(), "PostgreSQL");
    assert_eq!(browser.eval("window.marker"), 1, "it is still the same page");
    // The budget, by keyboard.
    stage.open("money");
    browser.eval("document.getElementById('max-cost').focus()");
    browser.write("9");
    browser.press("Enter");
    browser.until("document.body.innerText.includes('of $9.00')");
    let row = rows(&stage.env, "SELECT max_cost_usd FROM runs WHERE parent_run_id IS NULL");
    assert_eq!(row[0]["max_cost_usd"], 9.0);
    // The wait.
    stage.open("");
    browser.until(
        "[...document.querySelectorAll('button')].some(b => b.innerText === 'Try again now')",
    );
    browser.eval("[...document.querySelectorAll('button')].find(b => b.innerText === 'Try again now').click()");
    browser.until("[...document.querySelectorAll('#done .title')].some(t => t.innerText === 'Migrate the old files')");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn hostile_text_stays_text() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    let row = rows(&stage.env, "SELECT epoch FROM runs WHERE task_id = 'hostile'");
    let attempt = format!("task/hostile/{}", row[0]["epoch"]);
    for page in ["", "tasks", "task/hostile", attempt.as_str(), "money", "log", "report"] {
        stage.open(page);
        assert!(browser.text().contains(HOSTILE), "{page}: {}", browser.text());
        assert_eq!(browser.eval("window.pwned"), serde_json::Value::Null, "{page}");
        assert_eq!(browser.eval("document.querySelectorAll('main script, main img').length"), 0);
        assert_eq!(browser.complaints(), [""; 0], "{page}");
    }
    stage.open(&attempt);
    assert!(browser.text().contains("\\u{1b}[2J\\u{202e}txet"), "{}", browser.text());
    // The file of the report is the same, without any script.
    stage.env.run(["report", "--html", "report.html"]).success();
    browser.open(&format!("file://{}", stage.env.root().join("report.html").display()));
    assert!(browser.text().contains(HOSTILE));
    assert_eq!(browser.eval("window.pwned"), serde_json::Value::Null);
    assert_eq!(browser.eval("document.querySelectorAll('script, link, img').length"), 0);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_page_can_be_read_without_the_script() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    browser.open_without_script(&stage.address(""));
    let text = browser.text();
    assert!(text.contains("Which database") && text.contains("harness reply"), "{text}");
    let shown = "getComputedStyle(document.querySelector('form.act')).display";
    assert_eq!(browser.eval(shown), "none", "a form would do nothing");
}

#[test]
fn other_sites_can_neither_read_nor_change_nor_frame() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    let port = foreign();
    browser.open(&format!("http://127.0.0.1:{port}/"));
    // Even a page that knows the address, on another port of the same machine.
    let command = stage.address("api/command");
    let tried = browser.eval(&format!(
        "(async () => {{
            const results = [];
            const body = JSON.stringify({{ command: 'task_add', title: 'Forged' }});
            for (const mode of ['no-cors', 'cors']) {{
                try {{
                    const r = await fetch('{command}', {{ method: 'POST', mode, credentials: 'include', body,
                        headers: mode === 'cors' ? {{ 'X-Harness': '1' }} : {{}} }});
                    results.push(r.type + ' ' + r.status);
                }} catch {{ results.push('refused'); }}
            }}
            try {{
                const r = await fetch('{}', {{ credentials: 'include' }});
                results.push('read ' + (await r.text()).length);
            }} catch {{ results.push('refused'); }}
            return results.join(', ');
        }})()",
        stage.address("")
    ));
    assert_eq!(tried, "refused, refused, refused");
    let framed = browser.eval(&format!(
        "new Promise(done => {{
            const frame = document.createElement('iframe');
            frame.src = '{}';
            frame.onload = () => {{ try {{ done(frame.contentDocument ? 'readable' : 'closed') }} catch {{ done('closed') }} }};
            document.body.append(frame);
        }})",
        stage.address("")
    ));
    assert_eq!(framed, "closed");
    let tasks = stage.env.run(["task", "list", "--json"]).json();
    assert!(!tasks.to_string().contains("Forged"));
    _ = browser.complaints();
    // A name that leads to our address.
    let Some(rebound) = Chromium::resolving("evil.example") else { return };
    rebound.open(&stage.address("").replace("127.0.0.1", "evil.example"));
    assert!(rebound.text().contains("This is not the server you asked for"), "{}", rebound.text());
}

#[test]
fn rows_are_reached_by_keyboard() {
    let Some(stage) = Stage::new() else { return };
    let browser = &stage.browser;
    stage.open("tasks");
    browser.press("/");
    assert_eq!(browser.eval("document.activeElement.name"), "q");
    browser.write("nightly");
    browser.press("Enter");
    browser.until("location.search.includes('q=nightly')");
    browser.until("document.querySelectorAll('tbody tr').length === 2");
    browser.press("j");
    browser.press("j");
    browser.press("k");
    browser.press("Enter");
    browser.until("location.pathname.endsWith('/task/flaky')");
}

/// Serves an empty page on another port, as the web server of an agent would.
fn foreign() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 4096];
            _ = stream.read(&mut request);
            let page = "<!doctype html><title>other</title><body>other</body>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    port
}
