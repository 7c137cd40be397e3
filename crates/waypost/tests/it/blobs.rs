//! Blobs with the real program: in a folder, in a bucket, in a database, through a server; and their check.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use waypost_core::blob::BlobDigest;
use waypost_testbed::Bucket;
use waypost_testbed::postgres::Postgres;

use crate::program::{Program, Ran, Running};

/// Content that does not compress, of several parts.
fn noise() -> Vec<u8> {
    let mut noise = vec![0; (9 << 20) + 7];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    noise
}

/// Puts content through standard input, reads it back from standard output, and asks about it.
fn put_get_stat(command: impl Fn(&[&str]) -> Command) -> BlobDigest {
    let content = noise();
    let mut put = command(&["blob", "put"]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(&content).unwrap();
    let put = Ran::from(put.wait_with_output().unwrap());
    let digest = BlobDigest::of(&content);
    assert_eq!((put.code, put.out), (0, format!("{digest}\n")), "{}", put.err);
    let digest_text = digest.to_string();
    let got = command(&["blob", "get", &digest_text]).output().unwrap();
    assert!(got.status.success() && got.stdout == content);
    let stat = command(&["blob", "stat", &digest_text, "-o", "json"]).output().unwrap();
    let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert_eq!(stat["bytes"], content.len());
    digest
}

fn file(program: &Program, digest: &BlobDigest) -> std::path::PathBuf {
    let name = digest.to_string();
    program.data().join("blobs").join(&name[..2]).join(&name[2..])
}

#[test]
fn blob_is_put_and_read_in_the_data_folder() {
    let program = Program::new();
    let digest = put_get_stat(|args| program.command(args));
    assert!(file(&program, &digest).exists());
    let source = program.file("source", "from a file");
    let to = program.path().join("copy");
    let digest = program.run(&["blob", "put", source.to_str().unwrap()]).out;
    let got = program.run(&["blob", "get", digest.trim(), "--to", to.to_str().unwrap()]);
    assert_eq!((got.code, got.out.as_str()), (0, ""));
    assert_eq!(std::fs::read(to).unwrap(), b"from a file");
}

#[test]
fn blob_that_cannot_be_read_leaves_no_file() {
    let program = Program::new();
    let to = program.path().join("copy");
    let unknown = BlobDigest::of(b"unknown").to_string();
    let got = program.run(&["blob", "get", &unknown, "--to", to.to_str().unwrap()]);
    assert_eq!(got.code, 1);
    assert!(got.err.contains(&format!("there is no blob {unknown}")), "{}", got.err);
    assert!(!to.exists());
    assert_eq!(program.run(&["blob", "get", "nonsense"]).code, 2);
}

#[test]
fn blob_is_put_and_read_through_a_server() {
    let program = Program::new();
    let server = Running::start(program.command(&["serve", "--listen", "127.0.0.1:0"]), "http://");
    let digest = put_get_stat(|args| program.command(args));
    assert!(file(&program, &digest).exists());
    let unknown = BlobDigest::of(b"unknown").to_string();
    let got = program.run(&["blob", "get", &unknown]);
    assert!(got.code != 0 && got.err.contains("there is no blob"), "{}", got.err);
    server.kill();
}

/// Bytes of memory that a process has had at most.
#[cfg(target_os = "linux")]
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn server_holds_no_blob_in_memory() {
    let program = Program::new();
    let server = Running::start(program.command(&["serve", "--listen", "127.0.0.1:0"]), "http://");
    let before = peak_memory(server.pid());
    let content = noise().repeat(24);
    let bytes = content.len() as u64;
    let source = program.file("large", &content);
    let digest = program.run(&["blob", "put", source.to_str().unwrap()]).out.trim().to_owned();
    assert_eq!(digest, BlobDigest::of(&content).to_string());
    drop(content);
    let to = program.path().join("copy");
    let got = program.run(&["blob", "get", &digest, "--to", to.to_str().unwrap()]);
    assert_eq!(got.code, 0, "{}", got.err);
    assert_eq!(std::fs::metadata(to).unwrap().len(), bytes);
    let grown = peak_memory(server.pid()) - before;
    assert!(grown < bytes / 4, "{grown} bytes more for a blob of {bytes}");
    server.kill();
}

#[test]
fn blob_is_put_and_read_in_a_bucket() {
    let program = Program::new();
    let bucket = Bucket::start();
    put_get_stat(|args| {
        let mut command = program.command(args);
        command
            .env("WAYPOST_BLOBS", "s3://bucket/some/prefix")
            .env("WAYPOST_BLOBS_ENDPOINT", bucket.url())
            .env("AWS_ACCESS_KEY_ID", "id")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    });
    assert!(bucket.keys().iter().all(|key| key.starts_with("some/prefix/")));
    assert_eq!((bucket.keys().len(), bucket.open_uploads()), (2, 0));
}

#[test]
fn blob_is_put_and_read_in_the_database_of_a_cluster() {
    let program = Program::new();
    let url = Postgres::shared().database();
    put_get_stat(|args| {
        let mut command = program.command(args);
        command.env("WAYPOST_DATABASE_URL", &url);
        command
    });
    assert!(!program.data().join("blobs").exists());
}

#[test]
fn check_reports_named_blobs_that_are_damaged_or_missing() {
    let program = Program::new();
    let put = |name: &str| -> BlobDigest {
        let source = program.file(name, name);
        program.run(&["blob", "put", source.to_str().unwrap()]).out.trim().parse().unwrap()
    };
    let (whole, damaged, missing) = (put("whole"), put("damaged"), put("missing"));
    put("unnamed");
    let log = Connection::open(program.data().join("log.db")).unwrap();
    for digest in [whole, damaged, missing] {
        let insert = "INSERT INTO blob_refs (digest, execution) VALUES (?1, 7)";
        log.execute(insert, [digest.0.as_slice()]).unwrap();
    }
    drop(log);
    let report = program.json(&["check", "--blobs"]);
    assert_eq!((&report["blobs"], &report["well"]), (&3.into(), &true.into()), "{report}");
    std::fs::write(file(&program, &damaged), "something else").unwrap();
    std::fs::remove_file(file(&program, &missing)).unwrap();
    let ran = program.run(&["check", "--blobs"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for (digest, fate) in [(damaged, "is damaged"), (missing, "there is no blob")] {
        let line = ran.out.lines().find(|line| line.contains(&digest.to_string()));
        assert!(line.is_some_and(|line| line.contains(fate)), "{}", ran.out);
    }
    assert!(ran.out.contains("blobs.stored") && !ran.out.contains(&whole.to_string()));
    assert!(program.json(&["check"])["well"].as_bool().unwrap(), "blobs are not read by default");
}
