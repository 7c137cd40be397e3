//! A server in this process, on a port of its own, over the store in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};
use waypost_engine::dispatcher::DispatcherWakeups;
use waypost_engine::triggers::{EndedTriggers, Firing, TriggerControl, TriggerWakeups};
use waypost_engine::{Engine, Plans};
use waypost_ports::access::{Access, Role};
use waypost_ports::blobs::MemoryBlobs;
use waypost_ports::clock::SystemClock;
use waypost_ports::memory::{MemoryStore, MemoryTasks};
use waypost_ports::mirror::NoMirror;
use waypost_ports::nudge::Alone;
use waypost_ports::secret::{Grant, NoSecrets, SecretRefused, SecretText, Secrets, WorkerGrants};
use waypost_server::access::keys;
use waypost_server::config::Config;
use waypost_server::http::listen::{Listener, serve};
use waypost_server::server::{Parts, Server};
use waypost_server::watchers::Watchers;

use super::events::Events;
use super::failing::Failing;
use super::triggered::triggers_of;
use super::{Answer, Ask, Client};

/// A workflow that ends at once.
pub(crate) const QUICK: &str = "quick";
/// A workflow that waits for the signal `go` and gives its body.
pub(crate) const PATIENT: &str = "patient";
/// The same, one at a time for each `input.key`.
pub(crate) const KEYED: &str = "keyed";
/// The same, and no more are accepted meanwhile.
pub(crate) const REJECTING: &str = "rejecting";
/// A workflow whose input must have a number `amount`.
pub(crate) const CHOOSY: &str = "choosy";

/// The value of the secret `hook`.
pub(crate) const HOOK_SECRET: &str = "hook-secret";

/// What links begin with.
pub(crate) const PUBLIC_URL: &str = "https://flows.example.com/waypost";

/// A server and its store.
pub(crate) struct House {
    pub(crate) server: Arc<Server>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) blobs: MemoryBlobs,
    /// The same, as the engine sees it.
    pub(crate) failing: Arc<Failing>,
    /// What would wake a trigger runner.
    pub(crate) trigger_wakeups: TriggerWakeups,
    /// What would wake a dispatcher.
    pub(crate) dispatcher_wakeups: DispatcherWakeups,
    pub(crate) address: SocketAddr,
}

impl House {
    /// A server as it is by default, with the workflows above.
    pub(crate) async fn open() -> Self {
        Self::with(relaxed()).await
    }

    /// A server that asks for keys.
    pub(crate) async fn locked() -> Self {
        Self::with(Config { require_keys: true, ..relaxed() }).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let house = Self::empty(config).await;
        definitions().iter().for_each(|definition| house.deploy(definition));
        house
    }

    /// A server with workflows that have a concurrency key.
    pub(crate) async fn keyed() -> Self {
        let house = Self::empty(Config::default()).await;
        house.deploy(&keyed(KEYED, "queue"));
        house.deploy(&keyed(REJECTING, "reject"));
        house
    }

    pub(crate) fn deploy(&self, definition: &Value) {
        let (source, how) =
            (definition.to_string(), waypost_server::workflows::Deploy::MakeCurrent);
        let triggers = waypost_server::workflows::DeployTriggers {
            now: self.server.engine.time().least,
            paused: false,
        };
        let deployed = self.server.workflows.deploy(source.as_bytes(), how, triggers, None);
        assert!(deployed.unwrap().created);
    }

    pub(crate) async fn empty(config: Config) -> Self {
        let mut config = Config { address: (Ipv4Addr::LOCALHOST, 0).into(), ..config };
        let listener = Listener::bind(&config).await.unwrap();
        config.address = listener.address().unwrap();
        let address = config.address;
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let failing = Arc::new(Failing::over(Arc::clone(&store)));
        let blobs = MemoryBlobs::new(Arc::new(SystemClock));
        let (plans, watchers) = (Arc::new(plans()), Arc::new(Watchers::default()));
        let engine = Engine::open(waypost_engine::Parts {
            store: Arc::clone(&failing) as Arc<_>,
            plans: Arc::clone(&plans),
            handlers: waypost_nodes::handlers(&waypost_nodes::Settings::default(), None),
            blobs: Arc::new(blobs.clone()),
            secrets: Arc::new(NoSecrets),
            instance: waypost_core::id::InstanceId(uuid::Uuid::now_v7()),
            about: waypost_ports::store::About::default(),
            tasks: Arc::new(MemoryTasks::new(Arc::new(SystemClock), [7; 32])),
            nudges: Arc::new(Alone),
            mirror: Arc::new(NoMirror),
            relay: None,
            clock: Arc::new(SystemClock),
            observer: Some(watchers.observer()),
            config: waypost_engine::config::Config {
                public_url: Some(PUBLIC_URL.to_owned()),
                ..waypost_engine::config::Config::default()
            },
        });
        let engine = Arc::new(engine.unwrap());
        let firing = Firing {
            engine: Arc::clone(&engine) as Arc<_>,
            store: Arc::clone(&failing) as Arc<_>,
            triggers: Arc::clone(&store) as Arc<_>,
            plans: Arc::clone(&plans),
        };
        let outbox = Arc::clone(&store) as Arc<_>;
        let ends = EndedTriggers { firing: firing.clone(), outbox };
        let trigger_wakeups = TriggerWakeups::default();
        let dispatcher_wakeups = DispatcherWakeups::default();
        let wakeups = trigger_wakeups.clone();
        let server = Server::new(Parts {
            engine,
            backend: Arc::clone(&store) as Arc<_>,
            blobs: Arc::new(blobs.clone()),
            plans,
            compiler: Box::new(|source| {
                waypost_lang::parse(source, &waypost_nodes::catalog()).map_err(Box::new)
            }),
            definition_schema: waypost_lang::schema(&waypost_nodes::catalog()),
            clock: Arc::new(SystemClock),
            watchers,
            webhooks: Arc::new(waypost_nodes::webhook::HttpWebhooks::new(
                waypost_nodes::Settings::default().egress,
                waypost_ports::webhook::DELIVERY_TIMEOUT,
            )),
            wakeups: dispatcher_wakeups.clone(),
            triggers: Some(TriggerControl { firing, ends, wakeups }),
            secrets: Arc::new(HookSecrets),
            config,
            limits: Vec::new(),
        });
        let server = Arc::new(server.unwrap());
        tokio::spawn(serve(Arc::clone(&server), listener));
        Self { server, store, blobs, failing, trigger_wakeups, dispatcher_wakeups, address }
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Asks on a connection of its own.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        let answer = self.connect().await.ask(ask).await;
        answer.unwrap_or_else(|error| panic!("{} {}: {error}", ask.method, ask.target))
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.ask(&Ask::get(target)).await
    }

    pub(crate) async fn post(&self, target: &str, body: &Value) -> Answer {
        self.ask(&Ask::post(target, body)).await
    }

    /// Starts an execution under an id.
    pub(crate) async fn start(&self, workflow: &str, id: &str) {
        let body = json!({ "workflow": workflow, "id": id });
        self.post("/v1/executions", &body).await.expect(201);
    }

    /// Starts an execution and waits for its end.
    pub(crate) async fn finish(&self, workflow: &str, id: &str) -> Value {
        let body = json!({ "workflow": workflow, "id": id });
        self.post("/v1/executions?wait=60s", &body).await.expect(201).json()
    }

    /// Returns when an execution has an event of this kind.
    pub(crate) async fn wait_for(&self, id: &str, kind: &str) {
        let target = format!("/v1/executions/{id}/stream");
        let mut events = Events::follow(self, &target, None).await;
        while events.next().await.expect("it ended before").kind != kind {}
    }

    /// A key that is worth something.
    pub(crate) fn key(&self, role: Role) -> String {
        let (new, text) = keys::make("test", role);
        self.store.add_key(&new).unwrap();
        self.server.keys.refresh(&*self.store).unwrap();
        text
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.server.closing.cancel();
    }
}

/// The defaults, but for tests that try every link many times.
fn relaxed() -> Config {
    Config {
        link_requests_per_second: 10_000,
        hook_failures_per_second: 10_000,
        ..Config::default()
    }
}

/// Secrets of webhook triggers: `hook` and `hook_old`; `task` is not for them.
struct HookSecrets;

impl Secrets for HookSecrets {
    fn resolve(&self, name: &str, _: &str) -> Result<Grant, SecretRefused> {
        let value = match name {
            "hook" => HOOK_SECRET,
            "hook_old" | "task" => "old-hook-secret",
            _ => return Err(SecretRefused::Unknown(name.into())),
        };
        Ok(Grant {
            name: name.into(),
            value: SecretText::new(value).unwrap(),
            hosts: [].into(),
            shell: false,
            workers: WorkerGrants::default(),
            verify: name != "task",
        })
    }
}

fn plans() -> Plans {
    Plans::new(Box::new(|canonical| {
        let compiled =
            waypost_lang::compile_canonical(canonical.as_bytes(), &waypost_nodes::catalog());
        let mut plan = compiled.map_err(|faults| faults.to_string())?;
        plan.triggers = triggers_of(&plan.workflow).into_iter().map(Arc::new).collect();
        Ok(plan)
    }))
    .checking(Box::new(|plan, input| {
        let Some(schema) = &plan.input_schema else { return Ok(()) };
        let schema = waypost_lang::InputSchema::compile(schema).unwrap();
        schema
            .check(input)
            .map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
    }))
}

/// [`PATIENT`], under a concurrency policy.
fn keyed(name: &str, policy: &str) -> Value {
    json!({ "name": name, "concurrency": { "key": "${{ input.key }}", "policy": policy }, "nodes": [
        { "id": "wait", "type": "wait-for-events", "config": { "name": "go" } },
        { "id": "done", "type": "output", "needs": ["wait"],
          "config": { "value": "${{ nodes.wait.output }}" } },
    ] })
}

fn definitions() -> [Value; 3] {
    [
        json!({ "name": QUICK, "nodes": [
            { "id": "first", "type": "noop" },
            { "id": "done", "type": "output", "needs": ["first"], "config": { "value": "${{ input }}" } },
        ] }),
        json!({ "name": PATIENT, "nodes": [
            { "id": "wait", "type": "wait-for-events", "config": { "name": "go" } },
            { "id": "done", "type": "output", "needs": ["wait"],
              "config": { "value": "${{ nodes.wait.output }}" } },
        ] }),
        json!({ "name": CHOOSY,
            "input": { "type": "object", "required": ["amount"],
                       "properties": { "amount": { "type": "number" } } },
            "nodes": [{ "id": "done", "type": "output", "config": { "value": "${{ input.amount }}" } }],
        }),
    ]
}
