//! Canaries: secrets go through the real program in every way they can, to a server that sends back
//! all it gets, in every form, and are then looked for in all that the program left behind.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::program::{Program, Ran, Running};

/// Names, values, and whether they come from a variable; the others come from files.
const CANARIES: &[(&str, &str, bool)] = &[
    ("header", "kanari+header/=%7f~", true),
    ("path", "kanari-path-9Zq", false),
    ("query", "kanari query&ü", true),
    ("body", "kanari \"body\" \\ 𝄞/\n2", false),
    ("password", "kanari:password:1234", true),
    ("variable", "kanari$variable'9", false),
    ("number", "8127364509", true),
];

const WORKFLOW: &str = r#"
name: canaries
nodes:
  - id: send
    type: api-call
    config:
      url: "http://ADDRESS/${{ secrets.path }}/echo"
      method: POST
      query: { key: "${{ secrets.query }}", n: "${{ secrets.number }}" }
      headers: { x-key: "Bearer ${{ secrets.header }}!" }
      basicAuth: { username: ada, password: "${{ secrets.password }}" }
      body: { note: "<${{ secrets.body }}>", again: ["${{ secrets.body }}"], not: "${{ input.sneaky }}" }
    variables: { received: "${{ output.body }}" }
  - id: command
    type: shell
    config:
      env: { TOKEN: "${{ secrets.variable }}", NUMBER: "${{ secrets.number }}" }
      command: |
        printf %s "$TOKEN"; printf 'x%s' "$TOKEN" | base64; printf %s "$TOKEN" | rev
        printf %s "$TOKEN" | od -An -tx1 | tr -d ' \n'; printf %s "$TOKEN" | tr a-z A-Z; env >&2
  - id: number
    type: shell
    config: { env: { NUMBER: "${{ secrets.number }}" }, command: "echo \"{\\\"n\\\": $NUMBER}\"" }
  - id: refused
    type: api-call
    config: { url: "http://ADDRESS/fail?key=${{ secrets.path }}", headers: { x-key: "${{ secrets.header }}" } }
    retry: { maxAttempts: 2, waitDuration: 1ms }
    ONERROR
  - id: exits
    type: shell
    config: { env: { TOKEN: "${{ secrets.variable }}" }, command: "echo \"$TOKEN\" >&2; exit 3" }
    onError: continue
  - id: cut
    type: shell
    config: { env: { TOKEN: "${{ secrets.variable }}" }, command: "echo \"cut: $TOKEN\"", outputBytesMax: 18 }
  - id: elsewhere
    type: api-call
    config: { url: "http://OTHER/${{ secrets.path }}" }
    onError: continue
  - id: redirected
    type: api-call
    config: { url: "http://ADDRESS/redirect/${{ secrets.path }}" }
    onError: continue
  - id: ungranted
    type: api-call
    config: { url: "http://ADDRESS/${{ secrets.foreign }}" }
    onError: { take: continue, definitionErrors: true }
  - id: asked
    type: llm
    config: { baseUrl: "http://ADDRESS/model", key: "${{ secrets.header }}", model: m, messages: [{ role: user, content: "${{ secrets.body }}" }] }
    onError: continue
  - id: done
    type: output
    needs: [send, command, number, refused, exits, cut, elsewhere, redirected, ungranted, asked]
    config:
      value: ["${{ nodes.send.output }}", "${{ nodes.command.output }}", "${{ nodes.number.output }}", "${{ nodes.refused.failure }}", "${{ nodes.exits.failure }}", "${{ nodes.cut.output }}", "${{ nodes.elsewhere.failure }}", "${{ nodes.redirected.failure }}", "${{ nodes.ungranted.failure }}", "${{ variables.received }}", "${{ nodes.asked.failure }}"]
"#;

/// Sends back what it gets, in every form.
struct Echo {
    address: String,
    received: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    /// Redirects, where it is asked to, to this address.
    fn start(other_host: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&mut stream);
                let reply = answer(&request, &other_host);
                log.lock().unwrap().push(request);
                // Whoever has read enough of a failure hangs up.
                stream.write_all(reply.as_bytes()).ok();
            }
        });
        Self { address, received }
    }

    fn received(&self) -> String {
        self.received.lock().unwrap().concat()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "half a request: {text}");
        bytes.extend(&chunk[..count]);
    }
}

fn answer(request: &str, other_host: &str) -> String {
    let target = request.split(' ').nth(1).unwrap();
    if target.starts_with("/redirect") {
        return format!(
            "HTTP/1.1 307 Go\r\nlocation: http://{other_host}{target}\r\nconnection: close\r\n\r\n"
        );
    }
    if target.starts_with("/model") {
        let body = serde_json::json!({ "error": { "message": request } });
        return format!("HTTP/1.1 401 Who\r\nconnection: close\r\n\r\n{body}");
    }
    let status = if target.starts_with("/fail") { "500 Oops" } else { "200 OK" };
    let decoded =
        STANDARD.decode(request.split("Basic ").nth(1).unwrap_or("").split("\r\n").next().unwrap());
    let password = String::from_utf8(decoded.unwrap_or_default()).unwrap();
    let escaped: String = request.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let said = format!("{request} {password}");
    let body = serde_json::json!({
        "raw": said, "base64": STANDARD.encode(&said), "base64url": URL_SAFE.encode(&said),
        "hex": hex(&said), "HEX": hex(&said).to_uppercase(), "percent": percent(&said),
        "reversed": said.chars().rev().collect::<String>(), "text": escaped,
        "json": serde_json::to_string(&said).unwrap(), said.as_str(): true,
    });
    let body =
        body.to_string().replacen("\"text\":\"", &format!("\"odd\":\"{escaped}\",\"text\":\""), 1);
    let shown: String = said.chars().filter(|char| !char.is_control()).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-echo: {shown}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The forms in which a canary is looked for.
fn forms(value: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(value).to_string();
    let mut forms = vec![
        value.to_owned(),
        value.to_ascii_uppercase(),
        value.chars().rev().collect(),
        hex(value),
        hex(value).to_uppercase(),
        percent(value),
        percent(value).to_lowercase(),
        quoted[1..quoted.len() - 1].to_owned(),
    ];
    for before in ["", "x", "xx"] {
        let text = format!("{before}{value}");
        let (from, to) = ((before.len() * 8).div_ceil(6), text.len() * 8 / 6);
        forms.push(STANDARD.encode(&text)[from..to].to_owned());
        forms.push(URL_SAFE.encode(&text)[from..to].to_owned());
    }
    forms
}

fn assert_clean(place: &str, bytes: &[u8]) {
    for (name, value, _) in CANARIES {
        for form in forms(value) {
            let found = bytes.windows(form.len()).position(|window| window == form.as_bytes());
            if let Some(at) = found {
                let around = &bytes[at.saturating_sub(60)..(at + form.len() + 60).min(bytes.len())];
                let around = String::from_utf8_lossy(around);
                panic!("{place} has {name} as {form:?}: …{around}…");
            }
        }
    }
}

fn assert_folder_clean(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += assert_folder_clean(&path);
        } else {
            assert_clean(&path.display().to_string(), &std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

struct Nest {
    program: Program,
    settings: String,
}

impl Nest {
    fn new(granted: &str) -> Self {
        let program = Program::new();
        let mut settings = String::new();
        for (name, value, from_variable) in CANARIES {
            let from = match from_variable {
                true => format!("env:CANARY_{name}"),
                false => {
                    let file = program.file(name, format!("{value}\n"));
                    format!("file:{}", file.display())
                }
            };
            settings.push_str(&format!(
                "[secrets.{name}]\nfrom = \"{from}\"\nworkflows = [\"cana*\"]\n\
                 hosts = [\"{granted}\"]\nshell = true\nworkers = [\"shell\", \"py\"]\n"
            ));
        }
        settings.push_str(
            "[secrets.foreign]\nfrom = \"env:HOME\"\nworkflows = [\"other\"]\nshell = true\n",
        );
        let settings = program.file("waypost.toml", settings).display().to_string();
        Self { program, settings }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(args);
        command.args(["--config", &self.settings, "--log", "trace"]);
        for (name, value, _) in CANARIES.iter().filter(|(_, _, from_variable)| *from_variable) {
            command.env(format!("CANARY_{name}"), value);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::from(self.command(args).output().unwrap());
        assert_clean(&format!("the output of {args:?}"), ran.out.as_bytes());
        assert_clean(&format!("the log of {args:?}"), ran.err.as_bytes());
        ran
    }
}

#[test]
fn secrets_leave_no_trace() {
    let other = Echo::start(String::new());
    let echo = Echo::start(other.address.clone());
    for (on_error, code) in [("onError: continue", 0), ("", 1)] {
        let nest = Nest::new(&echo.address);
        let workflow = WORKFLOW.replace("ADDRESS", &echo.address).replace("OTHER", &other.address);
        let workflow = nest.program.file("canaries.yaml", workflow.replace("ONERROR", on_error));
        let workflow = workflow.display().to_string();
        let sneaky = r#"{"sneaky": "${{ secrets.body }} secrets.body"}"#;
        let egress = ["--allow-egress", "127.0.0.1"];
        let run = [&["run", &workflow, "--input", sneaky][..], &egress].concat();
        let ran = nest.run(&run);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        for args in [
            &["show", "last", "-o", "json"][..],
            &["show", "last"],
            &["events", "last", "-o", "json"],
            &["events", "last"],
            &["why", "last"],
            &["list", "-o", "json"],
            &["config"],
            &["config", "-o", "json"],
        ] {
            assert_eq!(nest.run(args).code, 0, "{args:?}");
        }
        assert!(nest.run(&["config"]).out.contains("env:CANARY_header for cana* to 127.0.0.1"));
        assert_eq!(nest.run(&["check"]).code, 0);
        if code == 0 {
            check_failures(&nest.program.json(&["show", "last"])["output"]);
        }
        assert!(assert_folder_clean(&nest.program.data()) >= 2);
    }
    // They were sent, in every way, to where they may go, and nowhere else.
    let received = echo.received();
    for sent in [
        "POST /kanari-path-9Zq/echo?key=kanari+query%26%C3%BC&n=8127364509",
        "authorization: Bearer kanari+header/=%7f~\r\n",
        "x-key: Bearer kanari+header/=%7f~!",
        &format!("authorization: Basic {}", STANDARD.encode("ada:kanari:password:1234")),
        r#""<kanari \"body\" \\ 𝄞/\n2>""#,
        // What only looks like one is data.
        r#""not":"${{ secrets.body }} secrets.body""#,
    ] {
        assert!(received.contains(sent), "{sent}: {received}");
    }
    assert_eq!(other.received(), "");
}

/// The whole of a server's reply, head and body.
fn ask(address: &str, method: &str, target: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert_clean(&format!("the reply to {method} {target}"), &reply);
    String::from_utf8(reply).unwrap()
}

#[test]
fn secrets_leave_no_trace_at_a_server() {
    let other = Echo::start(String::new());
    let echo = Echo::start(other.address.clone());
    let nest = Nest::new(&echo.address);
    let workflow = WORKFLOW.replace("ADDRESS", &echo.address).replace("OTHER", &other.address);
    let log = nest.program.path().join("server.log");
    let egress = ["--allow-egress", "127.0.0.1", "--enable-shell"];
    let serve = [&["serve", "--listen", "127.0.0.1:0"][..], &egress].concat();
    let mut serve = nest.command(&serve);
    serve.stderr(std::fs::File::create(&log).unwrap());
    let server = Running::start(serve, "serves http");
    let address =
        server.seen.split_whitespace().last().unwrap().trim_start_matches("http://").to_owned();
    for (name, on_error, status) in
        [("continues", "onError: continue", "COMPLETED"), ("fails", "", "FAILED")]
    {
        let workflow = nest.program.file(name, workflow.replace("ONERROR", on_error));
        assert_eq!(nest.run(&["deploy", &workflow.display().to_string()]).code, 0);
        let start =
            format!(r#"{{"workflow": "canaries", "id": "{name}", "input": {{"sneaky": 1}}}}"#);
        let started = ask(&address, "POST", "/v1/executions?wait=60s", &start);
        assert!(started.contains(status), "{started}");
        for target in
            ["", "/nodes", "/events?limit=1000", "/output", "/why", "/stream?follow=false"]
        {
            let reply = ask(&address, "GET", &format!("/v1/executions/{name}{target}"), "");
            assert!(reply.starts_with("HTTP/1.1 200 "), "{target}: {reply}");
        }
    }
    for target in [
        "/v1/executions?consistent=true",
        "/v1/stream?after=0&follow=false",
        "/v1/definitions/canaries",
        "/v1/audit",
        "/metrics",
        "/openapi.json",
    ] {
        let reply = ask(&address, "GET", target, "");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{target}: {reply}");
    }
    server.signal("-TERM");
    assert_eq!(server.wait().0, 0);
    let log = std::fs::read(log).unwrap();
    assert!(log.len() > 1_000, "everything was logged");
    assert_clean("the server's log", &log);
    assert!(assert_folder_clean(&nest.program.data()) >= 2);
    assert!(echo.received().contains("x-key: Bearer kanari+header/=%7f~!"));
    assert_eq!(other.received(), "");
}

/// A worker in Python: what `docs/reference/workers.md` shows, and a loop that gives back what it gets.
const PYTHON_WORKER: &str = r#"
import sys, urllib.request, uuid
WORKER = str(uuid.uuid4())


def post(path, body):
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read() or b"null")


sign = {"name": "py", "handlers": ["py"], "capacity": 1, "publicKey": PUBLIC_KEY}
while True:
    for task in post(f"/v1/workers/{WORKER}/poll?wait=5s", sign)["tasks"]:
        secrets = open_secrets(task)
        digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in secrets.items()}
        of = {"worker": WORKER, **{name: task[name] for name in ("execution", "node", "attempt")}}
        path = f"/v1/tasks/{task['token']}"
        post(path + "/start", of)
        post(path + "/checkpoint", {**of, "data": secrets})
        text = ", ".join(secrets.values()).replace(chr(10), " ")
        if task["attempt"] == 1:
            failure = {"kind": "odd", "message": text, "details": secrets, "retryable": True}
            post(path + "/report", {**of, "status": "failed", "failure": failure})
        else:
            post(path + "/report", {**of, "status": "completed", "output": {"digests": digests, "said": secrets}})
"#;

const FAR_WORKFLOW: &str = r#"
name: canaries-far
nodes:
  - id: command
    type: worker
    config:
      handler: shell
      input: { env: { PLAIN: yes }, command: 'printf %s "$TOKEN" | sha256sum; echo "$PLAIN $TOKEN" >&2' }
      secrets: { TOKEN: "${{ secrets.header }}" }
  - id: python
    needs: [command]
    type: worker
    retry: { maxAttempts: 2, waitDuration: 1ms }
    config:
      handler: py
      secrets: { A: "${{ secrets.body }}", B: "${{ secrets.number }}", C: "${{ secrets.variable }}" }
  - id: ungranted
    needs: [python]
    type: worker
    config: { handler: other, secrets: { A: "${{ secrets.body }}" } }
    onError: { take: continue, definitionErrors: true }
  - id: done
    type: output
    needs: [ungranted]
    config: { value: ["${{ nodes.command.output }}", "${{ nodes.python.output }}", "${{ nodes.ungranted.failure }}"] }
"#;

/// The program of the documentation that opens secrets.
fn documented() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/workers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut blocks = blocks.filter(|block| block.contains("def open_secrets"));
    blocks.next().expect("the page shows it").to_owned()
}

fn sha256(text: &str) -> String {
    let script = "import hashlib, sys; print(hashlib.sha256(sys.argv[1].encode()).hexdigest())";
    let output = Command::new("python3").args(["-c", script, text]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn secrets_of_remote_workers_leave_no_trace() {
    let nest = Nest::new("127.0.0.1:1");
    let log = |name: &str| nest.program.path().join(name);
    let mut serve = nest.command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.stderr(std::fs::File::create(log("server.log")).unwrap());
    let server = Running::start(serve, "serves http");
    let url = server.seen.split_whitespace().last().unwrap().to_owned();
    // Its own settings have no secrets, and it serves a handler that nothing is granted to.
    let mut own = nest.program.command(&["worker", "--handler", "shell", "--enable-shell"]);
    own.args(["--server", &url, "--log", "trace"]);
    let own_log = std::fs::File::create(log("worker.log")).unwrap();
    let own = own.stdout(std::process::Stdio::null()).stderr(own_log).spawn().unwrap();
    let script = nest.program.file("worker.py", format!("{}{PYTHON_WORKER}", documented()));
    let python = |handler: &str| {
        let script = std::fs::read_to_string(&script).unwrap();
        let name = format!("{handler}.py");
        let file = nest.program.file(&name, script.replace("[\"py\"]", &format!("[{handler:?}]")));
        let log = std::fs::File::create(log(&format!("{handler}.log"))).unwrap();
        Command::new("python3").arg(file).arg(&url).stderr(log).spawn().unwrap()
    };
    let workers = [own, python("py"), python("other")].map(Ended);
    let workflow = nest.program.file("far.yaml", FAR_WORKFLOW).display().to_string();
    assert_eq!(nest.run(&["deploy", &workflow]).code, 0);
    let address = url.trim_start_matches("http://");
    let start = r#"{"workflow": "canaries-far", "id": "far"}"#;
    let ended = ask(address, "POST", "/v1/executions?wait=60s", start);
    assert!(ended.contains("COMPLETED"), "{ended}");
    let output = nest.program.json(&["show", "far"])["output"].clone();
    let value = |name: &str| CANARIES.iter().find(|(of, ..)| *of == name).unwrap().1;
    let stdout = format!("{}  -\n", sha256(value("header")));
    assert_eq!((&output[0]["stdout"], &output[0]["stderr"]), (&stdout.into(), &"yes ***\n".into()));
    for (at, name) in [("A", "body"), ("B", "number"), ("C", "variable")] {
        assert_eq!(output[1]["digests"][at], sha256(value(name)), "{name}");
        assert_eq!(output[1]["said"][at], "***", "{name}");
    }
    assert_eq!(output[2]["kind"], "secret_not_granted", "{output}");
    for target in ["", "/nodes", "/events?limit=1000", "/output", "/why"] {
        ask(address, "GET", &format!("/v1/executions/far{target}"), "");
    }
    let listed = ask(address, "GET", "/v1/workers", "");
    assert!(listed.contains(r#""takesSecrets":true"#) && !listed.contains("+secrets"), "{listed}");
    drop(workers);
    server.signal("-TERM");
    assert_eq!(server.wait().0, 0);
    for name in ["server.log", "worker.log"] {
        assert_clean(name, &std::fs::read(log(name)).unwrap());
    }
    assert!(std::fs::metadata(log("server.log")).unwrap().len() > 1_000, "everything was logged");
    assert!(assert_folder_clean(&nest.program.data()) >= 2);
}

/// A process that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn check_failures(output: &serde_json::Value) {
    assert_eq!(output[0]["status"], 200);
    assert!(output[0]["body"]["raw"].as_str().unwrap().contains("Bearer ***!"), "{output}");
    assert!(output[1]["stdout"].as_str().unwrap().starts_with("***"), "{output}");
    assert_eq!(output[2]["json"]["n"], "***");
    assert_eq!(output[3]["kind"], "http");
    assert_eq!(output[4]["details"]["stderr"], "***\n");
    assert_eq!(output[5]["stdout"], "cut: ***");
    assert_eq!(output[6]["kind"], "secret_host");
    assert_eq!(output[7]["kind"], "secret_host");
    assert_eq!(output[8]["kind"], "secret");
    let message = "secret `foreign` is not granted to workflow `canaries`";
    assert_eq!(output[8]["message"], message);
    assert!(output[10]["message"].as_str().unwrap().contains("Bearer ***"), "{output}");
}
