//! A real browser, driven by its own protocol over two pipes: no port, no driver program.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const PROGRAM: &str = "chromium";
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with an empty profile and one page. It ends with the test.
pub(super) struct Chromium {
    child: Child,
    to: RefCell<ChildStdin>,
    from: RefCell<BufReader<ChildStdout>>,
    next: Cell<u64>,
    session: RefCell<String>,
    /// What the page wrote to its console, and rules that it broke.
    complaints: RefCell<VecDeque<String>>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts the browser. Returns `None`, loudly, if this machine has none.
    pub(super) fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// Starts a browser for which a name leads to this machine.
    pub(super) fn resolving(name: &str) -> Option<Self> {
        Self::with(&[&format!("--host-resolver-rules=MAP {name} 127.0.0.1")])
    }

    fn with(more: &[&str]) -> Option<Self> {
        let found = Command::new(PROGRAM).arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            eprintln!("NOT RUN: there is no {PROGRAM}; `cargo xtask test --browser` installs it");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ];
        // The browser reads from descriptor 3 and writes to descriptor 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", PROGRAM])
            .args(flags)
            .args(more)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = RefCell::new(child.stdin.take().unwrap());
        let from = RefCell::new(BufReader::new(child.stdout.take().unwrap()));
        let browser = Self {
            child,
            to,
            from,
            next: Cell::new(1),
            session: RefCell::default(),
            complaints: RefCell::default(),
            _profile: profile,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&self) {
        let made = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = made["targetId"].clone();
        let attached =
            self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        *self.session.borrow_mut() = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            self.call(domain, json!({}));
        }
    }

    /// Calls a method of the protocol and waits for its result.
    #[track_caller]
    fn call(&self, method: &str, params: Value) -> Value {
        let id = self.next.replace(self.next.get() + 1);
        let mut message = json!({ "id": id, "method": method, "params": params });
        let session = self.session.borrow();
        if !session.is_empty() && !method.starts_with("Target.") {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.borrow_mut().write_all(&bytes).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn receive(&self) -> Value {
        let mut bytes = Vec::new();
        self.from.borrow_mut().read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    fn note(&self, event: &Value) {
        let params = &event["params"];
        let text = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => params["exceptionDetails"].to_string(),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                params["entry"].to_string()
            }
            _ => return,
        };
        self.complaints.borrow_mut().push_back(text);
    }

    /// Returns what went wrong in the page since the last call.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.eval("0");
        self.complaints.borrow_mut().drain(..).collect()
    }

    /// Returns the value of an expression in the page. A promise is awaited.
    #[track_caller]
    pub(super) fn eval(&self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Goes to a page and waits until it is loaded.
    #[track_caller]
    pub(super) fn open(&self, url: &str) {
        self.eval("window.__old = true");
        self.call("Page.navigate", json!({ "url": url }));
        self.until("!window.__old && document.readyState === 'complete'");
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(super) fn until(&self, expression: &str) {
        let start = Instant::now();
        // The page itself waits a little, so that this does not spin.
        let looked = format!(
            "new Promise(done => setTimeout(() => {{ try {{ done(!!({expression})) }} catch {{ done(false) }} }}, 40))"
        );
        loop {
            let params =
                json!({ "expression": looked, "returnByValue": true, "awaitPromise": true });
            // A page that is being replaced cannot answer.
            let id = self.next.replace(self.next.get() + 1);
            let session = self.session.borrow().clone();
            let message = json!({ "id": id, "method": "Runtime.evaluate", "params": params, "sessionId": session });
            let mut bytes = message.to_string().into_bytes();
            bytes.push(0);
            self.to.borrow_mut().write_all(&bytes).unwrap();
            let answer = loop {
                let answer = self.receive();
                if answer["id"] == id {
                    break answer;
                }
                self.note(&answer);
            };
            if answer["result"]["result"]["value"] == true {
                return;
            }
            if start.elapsed() > PATIENCE {
                let page = self.eval("document.body.innerText");
                panic!("still not: {expression}\n{}", page.as_str().unwrap_or_default());
            }
        }
    }

    /// Sets the size of the window and the colours that the system prefers.
    pub(super) fn look(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Goes to a page whose script is not executed. Timers do not run then either.
    pub(super) fn open_without_script(&self, url: &str) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
        self.eval("window.__old = true");
        self.call("Page.navigate", json!({ "url": url }));
        while self.eval("!window.__old && document.readyState === 'complete'") != true {}
    }

    /// Keeps a picture of the whole page below `target/`.
    pub(super) fn picture(&self, name: &str) -> PathBuf {
        let params = json!({ "format": "png", "captureBeyondViewport": true, "fromSurface": true });
        let shot = self.call("Page.captureScreenshot", params);
        let bytes = decoded(shot["data"].as_str().unwrap());
        let folder = pictures();
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Types into the element that has the focus.
    pub(super) fn write(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key.
    pub(super) fn press(&self, key: &str) {
        let text = if key == "Enter" { "\r" } else { key };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            _ => 0,
        };
        let typed = if key == "Tab" { Value::Null } else { text.into() };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !typed.is_null() {
                params["text"] = typed.clone();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let script = format!("document.querySelector({selector:?}).click()");
        self.eval(&script);
    }

    pub(super) fn text(&self) -> String {
        self.eval("document.body.innerText").as_str().unwrap().to_owned()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its helpers end when the pipe does.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The folder of pictures.
fn pictures() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned());
    target.parent().unwrap_or(&target).join("web-pictures")
}

/// Decodes Base64.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let all = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        bytes.extend(&all[..four.len() - 1]);
    }
    bytes
}
