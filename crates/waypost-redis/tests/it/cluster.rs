//! The same through a Redis Cluster: every script keeps to one slot.

use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use waypost_core::id::{ExecutionId, Token};
use waypost_core::time::Timestamp;
use waypost_ports::mirror::{Context, Mirror};
use waypost_ports::nudge::{Alone, Nudge, Nudges};
use waypost_ports::relay::{Relay, Relayed};
use waypost_ports::tasks::Tasks;
use waypost_redis::{Redis, RedisConfig, RedisMirror, RedisNudges, RedisRelay, RedisTasks};
use waypost_testbed::{Process, free_port};

use crate::relay::mail;
use crate::support::{
    Beneath, NONE, alive, connect, eventually, instance, offer, offer_id, patient, sign, worker,
};

/// Three servers that share the slots.
struct Cluster {
    _servers: Vec<Process>,
    _folder: TempDir,
    ports: Vec<u16>,
}

impl Cluster {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let start = |port: &u16| {
            let mut command = Command::new("redis-server");
            command.current_dir(folder.path()).arg("--port").arg(port.to_string());
            command.args(["--bind", "127.0.0.1", "--save", "", "--cluster-enabled", "yes"]);
            // Otherwise ten thousand above the port, where others are.
            command.arg("--cluster-port").arg(free_port().to_string());
            command.arg("--cluster-config-file").arg(format!("nodes-{port}.conf"));
            Process::start(&command, &folder.path().join(format!("{port}.log")))
        };
        let servers = ports.iter().map(start).collect();
        eventually("all servers answer", || {
            ports.iter().all(|port| cli(*port, &["PING"]) == "PONG")
        });
        let mut create = vec!["--cluster", "create"];
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        create.extend(addresses.iter().map(String::as_str));
        create.push("--cluster-yes");
        eventually("they are a cluster", || {
            cli(ports[0], &["CLUSTER", "INFO"]).contains("cluster_state:ok")
                || Command::new("redis-cli")
                    .args(&create)
                    .output()
                    .is_ok_and(|out| out.status.success())
        });
        eventually("all of them know", || {
            let known = |port: &u16| cli(*port, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
            ports.iter().all(known)
        });
        Self { _servers: servers, _folder: folder, ports }
    }

    fn connect(&self) -> Redis {
        let ports: Vec<String> =
            self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let url = format!("redis+cluster://{}", ports[..2].join(","));
        connect(&RedisConfig { limits: patient(), ..RedisConfig::new(url) })
    }
}

fn cli(port: u16, words: &[&str]) -> String {
    let port = port.to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn everything_works_in_a_cluster() {
    let cluster = Cluster::start();
    let (one, two) = (cluster.connect(), cluster.connect());
    let store = Arc::new(Beneath::default());
    let a = RedisTasks::new(&one, store.clone(), instance(1));
    let b = RedisTasks::new(&two, store.clone(), instance(2));

    let handlers: Vec<Arc<str>> = (0..40).map(|number| format!("h{number}").into()).collect();
    let offers: Vec<_> = handlers.iter().zip(1..).map(|(h, attempt)| offer(h, attempt)).collect();
    a.offer(&offers).unwrap();
    assert_eq!(store.waiting(), NONE, "no script was refused");
    a.withdraw(&[offer_id(40)]).unwrap();
    let mut taken = b.take(&handlers, 100).unwrap();
    taken.sort_by_key(|offer| offer.id.attempt);
    assert_eq!(taken, offers[..39]);
    b.acknowledge();
    assert_eq!(a.depths().unwrap(), []);
    let keys: Vec<usize> =
        cluster.ports.iter().map(|port| cli(*port, &["DBSIZE"]).parse().unwrap()).collect();
    assert!(keys.iter().all(|count| *count > 3), "spread over all servers: {keys:?}");

    a.record_presence(&sign(1)).unwrap();
    b.cancel(&[(worker(1), Token(4))]).unwrap();
    assert_eq!(a.record_presence(&sign(1)).unwrap(), [Token(4)]);
    assert_eq!(alive(&b, &[worker(1), worker(2)]), [worker(1)]);
    a.sweep();

    assert_eq!(one.counters().outages.get() + two.counters().outages.get(), 0);
}

#[test]
fn mail_nudges_and_copies_work_in_a_cluster() {
    let cluster = Cluster::start();
    let (one, two) = (cluster.connect(), cluster.connect());
    let relay = RedisRelay::new(&one, instance(1));
    let owner = RedisRelay::new(&two, instance(2));
    owner.listen(instance(2), Arc::new(|_, answer| answer.committed()));
    eventually("mail is answered", || {
        relay.send(instance(2), mail(1)).unwrap() == Relayed::Committed
    });

    let (received, hear) = std::sync::mpsc::channel();
    let nudges = RedisNudges::new(&two, Arc::new(Alone), instance(2));
    nudges.listen(instance(2), Arc::new(move |nudge| drop(received.send(nudge))));
    let sender = RedisNudges::new(&one, Arc::new(Alone), instance(1));
    eventually("a nudge is received", || {
        sender.send(Nudge::Offered("h".into()));
        hear.try_iter().any(|nudge| nudge == Nudge::Offered("h".into()))
    });

    let mirror = RedisMirror::new(&one);
    let keys: Vec<ExecutionId> =
        (0..20).map(|number| ExecutionId(format!("exe_{number}").into())).collect();
    let context = |key: &ExecutionId| Context {
        execution: key.clone(),
        workflow: "w".into(),
        started_at: Timestamp(0),
        current_nodes: Vec::new(),
        path: Vec::new(),
        seq: 1,
        outputs: Vec::new(),
        variables: Vec::new(),
        state: key.as_str().as_bytes().to_vec(),
    };
    mirror.keep(keys.iter().map(context).collect());
    mirror.owned(instance(1), &keys);
    let expected: Vec<_> = keys.iter().map(|key| Some(key.as_str().as_bytes().to_vec())).collect();
    eventually("all are kept", || RedisMirror::new(&two).contexts(&keys) == expected);
}
