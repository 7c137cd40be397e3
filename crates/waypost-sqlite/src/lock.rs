//! One engine a folder: a file that is locked for as long as its holder lives, whatever way it dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_core::time::Timestamp;
use waypost_ports::store::StoreError;

/// A lock that is held; dropping it lets go.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// The holder of a lock, as its file names it.
#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    command: String,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// The process that runs the engine of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineProcess {
    /// Which one it is, for people.
    pub description: String,
    /// The URL that its server listens at, if it has one.
    pub address: Option<String>,
}

impl FolderLock {
    /// Takes the engine's lock, or returns which process has it.
    pub(crate) fn engine(
        folder: &Path,
        now: Timestamp,
        address: Option<String>,
    ) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let mut file = open(&path).map_err(|error| unusable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
        }
        let holder = Holder { pid: std::process::id(), command: command(), since: now, address };
        let text = serde_json::to_string(&holder).unwrap_or_default();
        let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(|error| unusable(&path, &error))?;
        Ok(Self { _file: file })
    }

    /// Waits for the lock of the projections' writer.
    pub(crate) fn projector(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("projections.lock");
        let file = open(&path).map_err(|error| unusable(&path, &error))?;
        file.lock().map_err(|error| unusable(&path, &error))?;
        Ok(Self { _file: file })
    }

    /// Takes the lock of the projections' writer, if it is free.
    pub(crate) fn projector_if_free(folder: &Path) -> Result<Option<Self>, StoreError> {
        if_free(&folder.join("projections.lock"))
    }

    /// Takes the engine's lock, if it is free, without writing a name into it.
    pub(crate) fn engine_if_free(folder: &Path) -> Result<Option<Self>, StoreError> {
        if_free(&folder.join("lock"))
    }
}

/// Creates a folder, if there is none.
pub(crate) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    std::fs::create_dir_all(folder).map_err(|error| {
        StoreError::Unavailable(format!("cannot create {}: {error}", folder.display()))
    })
}

fn if_free(path: &Path) -> Result<Option<FolderLock>, StoreError> {
    let file = open(path).map_err(|error| unusable(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FolderLock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(path, &error)),
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    // For its owner alone: every process that can open the file can hold the lock.
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The process that runs the engine of a folder, if one does. Opens no store and makes no file.
pub fn engine_of(folder: &Path) -> Option<EngineProcess> {
    let mut file = File::open(folder.join("lock")).ok()?;
    // Shared, so that two processes that check at once do not take each other for the engine.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn holder(file: &mut File) -> EngineProcess {
    match serde_json::from_reader(file).ok() {
        Some(Holder { pid, command, since, address }) => EngineProcess {
            description: format!("process {pid} ({command}), since {since}"),
            address,
        },
        None => EngineProcess { description: "another process".to_owned(), address: None },
    }
}

fn taken(folder: &Path, file: &mut File) -> StoreError {
    let who = holder(file).description;
    StoreError::Refused(format!("the folder {} is in use by {who}", folder.display()))
}

fn unusable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot lock {}: {error}", path.display()))
}

fn command() -> String {
    let parts = std::env::args_os().map(|part| part.to_string_lossy().into_owned());
    parts.collect::<Vec<_>>().join(" ")
}
