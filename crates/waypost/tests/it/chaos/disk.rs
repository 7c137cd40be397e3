//! A disk that can be filled: a small file system in memory, mounted where the data is. Where that
//! is not allowed, a limit on the size of files has to do.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Large enough for a round, small enough to be filled at once.
const SIZE: &str = "size=160m";

pub(super) enum Disk {
    /// A file system of its own.
    Mounted { folder: PathBuf },
    /// The log's files may not grow.
    Limited { log: PathBuf },
}

impl Disk {
    pub(super) fn new(folder: &Path, log: &Path) -> Self {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", SIZE, "tmpfs"])
            .arg(folder)
            .status()
            .is_ok_and(|status| status.success());
        match mount {
            true => Self::Mounted { folder: folder.to_owned() },
            false => Self::Limited { log: log.to_owned() },
        }
    }

    /// From now on nothing more can be written.
    pub(super) fn fill(&self, engine: Pid) {
        match self {
            Self::Mounted { folder } => {
                let mut ballast = File::create(folder.join("ballast")).unwrap();
                // Smaller and smaller, so that not even a page is left.
                for bytes in [1 << 20, 4096] {
                    while ballast.write_all(&vec![7; bytes]).is_ok() {}
                }
            }
            Self::Limited { log } => {
                let bytes = std::fs::metadata(log).map_or(0, |wal| wal.len());
                limit(engine, Some(bytes));
            }
        }
    }

    /// There is room again.
    pub(super) fn free(&self, engine: Option<Pid>) {
        match self {
            Self::Mounted { folder } => std::fs::remove_file(folder.join("ballast")).unwrap(),
            Self::Limited { .. } => engine.into_iter().for_each(|engine| limit(engine, None)),
        }
    }

    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Mounted { .. } => "a small file system in memory",
            Self::Limited { .. } => "a limit on the size of files (mounting is not allowed here)",
        }
    }
}

fn limit(process: Pid, bytes: Option<u64>) {
    prlimit(Some(process), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Self::Mounted { folder } = self {
            // Lazily: a process that was killed may be about to let go of its files.
            drop(Command::new("umount").arg("-l").arg(folder).status());
        }
    }
}
