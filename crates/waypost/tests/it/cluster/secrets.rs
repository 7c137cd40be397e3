//! Secrets of remote workers in a cluster: the instance that hands a task over is seldom its owner, and
//! the values reach neither the database nor Redis.

use std::path::Path;

use serde_json::json;
use waypost_testbed::Process;

use super::rig::{Cluster, LONG, With};

const CANARY: &str = "kanari-cluster-5Tz8";

const FLOW: &str = r#"
name: sealed
nodes:
  - id: command
    type: worker
    retry: { maxAttempts: 2, waitDuration: 1ms }
    config:
      handler: shell
      input: { command: 'echo "$TOKEN"; printf %s "$TOKEN" | wc -c; [ "$WAYPOST_ATTEMPT" = 2 ]' }
      secrets: { TOKEN: "${{ secrets.key }}" }
  - { id: done, type: output, needs: [command], config: { value: "${{ nodes.command.output.stdout }}" } }
"#;

#[test]
fn values_reach_neither_the_database_nor_redis() {
    With::both(|with| {
        let folder = tempfile::tempdir().unwrap();
        let [value, settings] = ["key", "waypost.toml"].map(|name| folder.path().join(name));
        std::fs::write(&value, CANARY).unwrap();
        let from = value.display();
        let table = format!(
            "[secrets.key]\nfrom = \"file:{from}\"\nworkflows = [\"sealed\"]\nworkers = [\"shell\"]\n"
        );
        std::fs::write(&settings, table).unwrap();
        let settings = settings.display().to_string();
        let flags = ["--config", settings.as_str()];
        let cluster = Cluster::start_with(2, with, &flags);
        if let Some(redis) = &cluster.redis {
            // From now on its file has every command that changes something.
            redis.command(&["CONFIG", "SET", "appendonly", "yes"]);
        }
        cluster.deploy(FLOW);
        let servers = cluster.instances.iter().rev();
        let servers: Vec<_> =
            servers.map(|instance| format!("http://127.0.0.1:{}", instance.port)).collect();
        let mut command = cluster.command(&["worker", "--handler", "shell", "--enable-shell"]);
        command.args(["--server", &servers.join(","), "--log", "debug"]);
        let mut worker = Process::start(&command, &cluster.file("worker.log"));
        worker.wait_for_line("takes tasks", LONG);
        let api = cluster.api.clone();
        cluster.block_on(async {
            let mut ids = Vec::new();
            for n in 0..6 {
                ids.push(api.start(n, "sealed", &json!(null), &format!("s{n}")).await);
            }
            for id in &ids {
                let ended = api.ended(id, LONG).await;
                assert_eq!(ended["status"], "COMPLETED", "{ended}");
                let output = format!("***\n{}\n", CANARY.len());
                assert_eq!(ended["output"], output, "{ended}");
            }
        });
        worker.terminate();
        worker.wait(LONG);
        cluster.sql("CHECKPOINT");
        if let Some(redis) = &cluster.redis {
            redis.command(&["SAVE"]);
            assert!(search(redis.folder(), false) > 1, "Redis has files");
        }
        assert!(search(cluster.postgres.folder(), true) > 10, "the database has files");
        assert!(search(cluster.file("").as_path(), false) > 1, "there are logs");
        cluster.check();
    });
}

/// Searches all files below a folder for the value, plain and in hexadecimal digits; counts them.
fn search(folder: &Path, gone_is_fine: bool) -> usize {
    let mut files = 0;
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += search(&path, gone_is_fine);
            continue;
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // The server deletes and renames files of its own accord, and has sockets.
            Err(_) if gone_is_fine || !path.is_file() => continue,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        for form in [CANARY.as_bytes(), hex.as_bytes()] {
            let found = bytes.windows(form.len()).any(|window| window == form);
            assert!(!found, "{} has the value", path.display());
        }
        files += 1;
    }
    files
}
