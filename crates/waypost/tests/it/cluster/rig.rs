//! A cluster of real processes, and how to talk to it.

use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use waypost_testbed::postgres::{Durability, Postgres, database_of};
use waypost_testbed::{Process, Redis, free_port};

use super::numbers::{lease, percent};

/// How long anything may take that is not itself what is tested. Reaching it is a failure.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// How many lines of each instance's log a test shows that fails.
const LOG_LINES_SHOWN: usize = 40;

/// What a cluster is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum With {
    /// PostgreSQL by itself.
    Postgres,
    /// PostgreSQL, and Redis.
    Redis,
}

impl With {
    pub(super) const BOTH: [Self; 2] = [Self::Postgres, Self::Redis];

    /// Runs a check that mostly waits with both: in parallel in the ordinary tests, one after the other in
    /// `make cluster`, where one load may saturate the machine.
    pub(super) fn both(check: impl Fn(Self) + Sync) {
        if percent() >= 100 {
            return Self::BOTH.into_iter().for_each(check);
        }
        let check = &check;
        std::thread::scope(|scope| {
            for with in Self::BOTH {
                scope.spawn(move || check(with));
            }
        });
    }
}

/// Servers, instances and a client.
pub(super) struct Cluster {
    pub(super) postgres: Postgres,
    pub(super) redis: Option<Redis>,
    pub(super) database: String,
    pub(super) instances: Vec<Instance>,
    pub(super) runtime: Runtime,
    pub(super) api: Api,
    folder: tempfile::TempDir,
    /// Where instances find the servers, where that is not where they are.
    ports: (u16, Option<u16>),
    extra: Vec<String>,
}

/// One `waypost serve`, which keeps its port over restarts.
pub(super) struct Instance {
    pub(super) process: Option<Process>,
    pub(super) port: u16,
    starts: u32,
}

/// A client of all instances.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
    ports: Vec<u16>,
}

/// What an instance answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Cluster {
    /// So many instances, ready.
    pub(super) fn start(count: usize, with: With) -> Self {
        Self::start_with(count, with, &[])
    }

    /// The same with more flags for each.
    pub(super) fn start_with(count: usize, with: With, extra: &[&str]) -> Self {
        let postgres = Postgres::start(Durability::None);
        let redis = (with == With::Redis).then(Redis::start);
        let ports = (postgres.port(), redis.as_ref().map(Redis::port));
        Self::over(postgres, redis, ports, count, extra)
    }

    /// Over servers that are there, perhaps behind proxies at these ports.
    pub(super) fn over(
        postgres: Postgres,
        redis: Option<Redis>,
        ports: (u16, Option<u16>),
        count: usize,
        extra: &[&str],
    ) -> Self {
        let url = postgres.database();
        let database = database_of(&url).to_owned();
        let free: Vec<_> = (0..count).map(|_| free_port()).collect();
        let mut cluster = Self {
            database,
            postgres,
            redis,
            instances: free
                .iter()
                .map(|port| Instance { process: None, port: *port, starts: 0 })
                .collect(),
            runtime: Runtime::new().unwrap(),
            api: Api::of(free),
            folder: tempfile::tempdir().unwrap(),
            ports,
            extra: extra.iter().map(|flag| (*flag).to_owned()).collect(),
        };
        for at in 0..count {
            cluster.spawn(at);
        }
        (0..count).for_each(|at| cluster.ready(at));
        cluster
    }

    /// A command of the program, on the cluster's database itself.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
        let url = self.postgres.url(&self.database);
        let port =
            |url: &str, from: u16, to: u16| url.replace(&format!(":{from}"), &format!(":{to}"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("WAYPOST_DATABASE_URL", port(&url, self.postgres.port(), self.ports.0));
        if let (Some(redis), Some(to)) = (&self.redis, self.ports.1) {
            command.env("WAYPOST_REDIS_URL", redis.url_through(to));
        }
        command
    }

    fn spawn(&mut self, at: usize) {
        let address = format!("127.0.0.1:{}", self.instances[at].port);
        let mut command = self.command(&["serve", "--listen", &address, "--log", "info"]);
        let lease = format!("lease={}s", lease().as_secs());
        command.args(["--allow-egress", "127.0.0.1/32", "--set", &lease]).args(&self.extra);
        let instance = &mut self.instances[at];
        instance.starts += 1;
        let log = self.folder.path().join(format!("instance-{at}-{}.log", instance.starts));
        instance.process = Some(Process::start(&command, &log));
    }

    /// Waits until an instance takes work.
    pub(super) fn ready(&mut self, at: usize) {
        let instance = &mut self.instances[at];
        instance.process.as_mut().unwrap().wait_ready(instance.port, LONG);
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self, at: usize) {
        self.instances[at].process.take().unwrap().kill();
    }

    /// What instances are started with from now on.
    pub(super) fn change_flags(&mut self, extra: &[&str]) {
        self.extra = extra.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Starts one again under the same name and port.
    pub(super) fn start_again(&mut self, at: usize) {
        self.spawn(at);
    }

    /// Starts executions of a workflow, one by one, and kills an instance after every so many, which is
    /// ready again before the next start. Returns their ids.
    pub(super) fn start_while_killing(
        &mut self,
        (count, kill_every): (usize, usize),
        workflow: &str,
        input: impl Fn(usize) -> Value,
    ) -> Vec<String> {
        let mut started = Vec::new();
        for n in 0..count {
            let api = self.api.clone();
            let key = format!("{workflow}-{n}");
            started.push(self.block_on(api.start(n, workflow, &input(n), &key)));
            if n % kill_every == kill_every / 2 {
                let at = (n / kill_every) % self.instances.len();
                self.kill(at);
                self.start_again(at);
                self.ready(at);
            }
        }
        started
    }

    /// Registers a webhook endpoint for some kinds of messages about one workflow.
    pub(super) fn add_endpoint(&self, url: &str, workflow: &str, events: &[&str]) {
        let endpoint = json!({ "url": url, "workflow": workflow, "events": events });
        let made = self.block_on(self.api.post(1, "/v1/webhook-endpoints", &endpoint));
        assert_eq!(made.status, 201, "{made:?}");
    }

    pub(super) fn process(&mut self, at: usize) -> &mut Process {
        self.instances[at].process.as_mut().unwrap()
    }

    /// Whoever was started is still there, as the same process under the same id.
    pub(super) fn all_have_lived(&mut self) {
        for at in 0..self.instances.len() {
            assert!(self.process(at).try_wait().is_none(), "instance {at} exited");
        }
        // Whoever starts announces itself under an id of its own, which stays here.
        let announced = self.sql("SELECT count(*) FROM instances");
        assert_eq!(announced, self.instances.len().to_string(), "nobody came back as another");
    }

    /// A file in the folder of the cluster.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// One value from the database.
    pub(super) fn sql(&self, sql: &str) -> String {
        let sql = format!("SET search_path = waypost; {sql}");
        self.postgres.sql(&self.database, &sql).trim().to_owned()
    }

    /// No mail is left. What came while the last frame of its addressee was under way is swept a second later.
    pub(super) fn mail_is_gone(&self) {
        let began = Instant::now();
        self.block_on(async {
            while self.sql("SELECT count(*) FROM inbox") != "0" {
                assert!(began.elapsed() < LONG, "mail stays: {}", self.sql("SELECT * FROM inbox"));
                waypost_testbed::moment().await;
            }
        });
    }

    /// `waypost check` finds nothing.
    pub(super) fn check(&self) {
        let output = self.command(&["check", "-o", "json"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{error}");
    }

    /// Runs a future to its end.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Deploys a definition.
    pub(super) fn deploy(&self, source: &str) {
        let api = self.api.clone();
        let source = source.to_owned();
        let answer = self.block_on(async move { api.deploy(0, &source).await });
        assert!(answer.status < 300, "{answer:?}");
    }
}

/// A test that fails shows how the logs of its instances end: nothing else knows what they went through.
impl Drop for Cluster {
    #[expect(clippy::print_stderr, reason = "it is shown with a test that fails")]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut logs: Vec<_> = std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        logs.sort();
        for path in logs {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("--- {}\n{}", path.display(), end.join("\n"));
        }
    }
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Api {
    /// A client of the instances at these ports.
    pub(super) fn of(ports: Vec<u16>) -> Self {
        let client = Client::builder()
            .tls_backend_preconfigured(waypost_nodes::tls::client_config())
            .no_proxy()
            .timeout(LONG)
            .build()
            .unwrap();
        Self { client, ports }
    }

    /// A client of all instances but one.
    pub(super) fn without(&self, at: usize) -> Self {
        let mut ports = self.ports.clone();
        ports.remove(at);
        Self { client: self.client.clone(), ports }
    }

    /// Asks an instance; `Err` where it does not answer.
    pub(super) async fn ask(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let body = body.filter(|body| !body.is_null()).map(|body| ("application/json", body));
        self.send(at, method, path, body).await
    }

    async fn send(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Answer, reqwest::Error> {
        let url = format!("http://127.0.0.1:{}{path}", self.ports[at % self.ports.len()]);
        let mut request = self.client.request(method, url);
        if let Some((media, body)) = body {
            request = request.header("content-type", media).body(body.to_string());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, body })
    }

    pub(super) async fn post(&self, at: usize, path: &str, body: &Value) -> Answer {
        self.ask(at, Method::POST, path, Some(body)).await.unwrap()
    }

    pub(super) async fn get(&self, at: usize, path: &str) -> Answer {
        self.ask(at, Method::GET, path, None).await.unwrap()
    }

    /// Publishes a list of events; `Err` where the instance does not answer.
    pub(super) async fn publish(
        &self,
        at: usize,
        events: &Value,
    ) -> Result<Answer, reqwest::Error> {
        let media = "application/cloudevents-batch+json";
        self.send(at, Method::POST, "/v1/events", Some((media, events))).await
    }

    pub(super) async fn deploy(&self, at: usize, source: &str) -> Answer {
        self.try_deploy(at, source).await.expect("the instance answers")
    }

    /// `None` where the instance does not answer.
    pub(super) async fn try_deploy(&self, at: usize, source: &str) -> Option<Answer> {
        let url = format!("http://127.0.0.1:{}/v1/definitions", self.ports[at]);
        let request = self.client.post(url).header("content-type", "application/yaml");
        let response = request.body(source.to_owned()).send().await.ok()?;
        let status = response.status().as_u16();
        Some(Answer { status, body: serde_json::from_str(&response.text().await.ok()?).unwrap() })
    }

    /// Starts an execution under an idempotency key, at any instance that answers, until one does.
    pub(super) async fn start(
        &self,
        at: usize,
        workflow: &str,
        input: &Value,
        key: &str,
    ) -> String {
        let began = Instant::now();
        let body = json!({ "workflow": workflow, "input": input });
        let mut turn = at;
        loop {
            let url =
                format!("http://127.0.0.1:{}/v1/executions", self.ports[turn % self.ports.len()]);
            let request = self.client.post(url).header("content-type", "application/json");
            let request = request.header("Idempotency-Key", key).body(body.to_string());
            if let Ok(response) = request.timeout(Duration::from_secs(10)).send().await
                && response.status().is_success()
                && let Ok(text) = response.text().await
            {
                let body: Value = serde_json::from_str(&text).unwrap();
                return body["id"].as_str().unwrap().to_owned();
            }
            assert!(began.elapsed() < LONG, "nobody takes {workflow}");
            turn += 1;
            waypost_testbed::moment().await;
        }
    }

    /// Asks whoever answers until an execution is where it should be.
    pub(super) async fn until(
        &self,
        id: &str,
        within: Duration,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        self.look(id, within, "0s", done).await
    }

    async fn look(
        &self,
        id: &str,
        within: Duration,
        wait: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        let (began, mut turn, mut last) = (Instant::now(), 0, Value::Null);
        loop {
            let path = format!("/v1/executions/{id}?wait={wait}");
            if let Ok(answer) = self.ask(turn, Method::GET, &path, None).await
                && answer.is_ok()
            {
                if done(&answer.body) {
                    return answer.body;
                }
                last = answer.body;
            }
            waypost_testbed::moment().await;
            assert!(began.elapsed() < within, "{id} is not there after {within:?}: {last}");
            turn += 1;
        }
    }

    /// Waits for the end of an execution.
    pub(super) async fn ended(&self, id: &str, within: Duration) -> Value {
        let ends = ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"];
        self.look(id, within, "1s", |body| ends.contains(&body["status"].as_str().unwrap_or("")))
            .await
    }

    /// The id of an instance.
    pub(super) async fn instance(&self, at: usize) -> String {
        let answer = self.get(at, "/v1/instances").await;
        let port = format!(":{}", self.ports[at]);
        let here = |instance: &&Value| {
            instance["address"].as_str().is_some_and(|address| address.ends_with(&port))
        };
        let found = answer.body["instances"].as_array().and_then(|all| all.iter().find(here));
        found.unwrap_or_else(|| panic!("{answer:?}"))["id"].as_str().unwrap().to_owned()
    }

    /// What an instance tells of itself in numbers.
    pub(super) async fn metrics(&self, at: usize) -> String {
        let answer = self.get(at, "/metrics").await;
        answer.body.as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    /// What the stream of all executions tells from its beginning, as text.
    pub(super) async fn stream(&self, at: usize, only: &str) -> String {
        let path = format!("/v1/stream?after=0&follow=false&{only}");
        let answer = self.get(at, &path).await;
        answer.body.as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    /// All events of an execution.
    pub(super) async fn all_events(&self, at: usize, id: &str) -> Vec<Value> {
        self.look_at_events(at, &format!("/v1/executions/{id}/events?limit=1000")).await
    }

    /// All events of an execution of this type.
    pub(super) async fn events(&self, at: usize, id: &str, kind: &str) -> Vec<Value> {
        self.look_at_events(at, &format!("/v1/executions/{id}/events?type={kind}&limit=1000")).await
    }

    async fn look_at_events(&self, at: usize, path: &str) -> Vec<Value> {
        let answer = self.get(at, path).await;
        answer.body["events"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone()
    }
}
