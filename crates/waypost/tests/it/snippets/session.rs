//! One session: a page in a Bash of its own, in folders of its own, with a port of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::script::{How, saved, script};
use crate::tidy::{File, root};

/// A page that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where shells look for completions, on a machine that has any.
const COMPLETIONS: &str = "home/.local/share/bash-completion/completions";

/// Runs a page. Gives what each block printed by the line it begins at, or what went wrong.
pub(super) fn run(page: &File, how: How) -> Result<BTreeMap<usize, String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["bin", "backend", "work", "tmp", "saved", "printed"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::create_dir_all(folder.join(COMPLETIONS)).unwrap();
    symlink(env!("CARGO_BIN_EXE_waypost"), folder.join("bin/waypost")).unwrap();
    // Where `make build` would have put it.
    fs::create_dir_all(folder.join("work/target/release")).unwrap();
    symlink(env!("CARGO_BIN_EXE_waypost"), folder.join("work/target/release/waypost")).unwrap();
    symlink(root().join("examples"), folder.join("work/examples")).unwrap();
    let port = free_port();
    for (line, text) in saved(page, port) {
        fs::write(folder.join(format!("saved/{line}")), text).unwrap();
    }
    // Bash names the script in its complaints: it is called what the page is called.
    let file = folder.join(&page.name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, script(page, port, how)).unwrap();

    let child = bash(folder, &file, port).spawn().unwrap();
    let group = Pid::from_child(&child);
    let status = wait(child);
    let left = test_kill_process_group(group).is_ok();
    kill_process_group(group, Signal::KILL).unwrap_or_default();
    let printed = read(&folder.join("printed"));
    match status {
        Some(status) if status.success() && left => {
            Err(format!("{}: leaves something running behind", page.name))
        }
        Some(status) if status.success() => {
            Ok(printed.into_iter().map(|(line, said)| (line, said.out)).collect())
        }
        Some(status) => Err(complaint(page, &printed, &status.to_string())),
        None => Err(complaint(page, &printed, "it does not come to an end")),
    }
}

fn bash(folder: &Path, file: &Path, port: u16) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .args(["-eu", "-o", "pipefail"])
        .arg(file)
        .current_dir(folder.join("work"))
        .env_clear()
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("HOME", folder.join("home"))
        .env("TMPDIR", folder.join("tmp"))
        .env("LANG", "C.UTF-8")
        .env("SAVED", folder.join("saved"))
        .env("PRINTED", folder.join("printed"))
        .env("WAYPOST_LISTEN", format!("127.0.0.1:{port}"))
        .stdin(Stdio::null())
        // What stands before the first block prints nothing; what is left running holds no pipe.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// A port that nobody listens on. Another process could take it before the page does, but ports are
/// given out in turn, and it will be a while until this one's comes again.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn wait(mut child: Child) -> Option<ExitStatus> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait()));
    told.recv_timeout(PATIENCE).ok().map(Result::unwrap)
}

/// What a block printed.
struct Said {
    out: String,
    err: String,
}

fn read(folder: &Path) -> BTreeMap<usize, Said> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let lines = names.filter_map(|name| name.to_str()?.strip_suffix(".out")?.parse().ok());
    let text = |name: String| {
        String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned()
    };
    lines
        .map(|line: usize| {
            (line, Said { out: text(format!("{line}.out")), err: text(format!("{line}.err")) })
        })
        .collect()
}

/// What went wrong, with what the last block that was reached printed.
fn complaint(page: &File, printed: &BTreeMap<usize, Said>, status: &str) -> String {
    let mut text = match printed.keys().last() {
        Some(line) => format!("{}:{line}: a snippet failed: {status}\n", page.name),
        None => format!("{}: cannot be run: {status}\n", page.name),
    };
    if let Some((_, said)) = printed.last_key_value() {
        write!(text, "--- it printed\n{}\n--- and complained\n{}", said.out, said.err).unwrap();
    }
    text
}
