//! Blobs in a folder of this machine.
//!
//! ```text
//!   blobs/
//!     lock              held shared by those who store or touch a blob, alone by those who delete one
//!     uploads/<uuid>    uploads that are not complete
//!     ab/cdef…          blobs, by their digests
//! ```
//!
//! A blob's file is written under another name, synced, and renamed; then its folder is synced. So it is whole
//! or not there, whatever happens. Its modification time is when it was last put or touched.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::time::Timestamp;
use waypost_ports::blobs::format::{self, FOOTER_BYTES, Index};
use waypost_ports::blobs::{BlobError, BlobReader, BlobStat, Blobs, ListedBlob};
use waypost_ports::clock::Clock;

/// Blobs in a folder. Several processes may use it at once.
#[derive(Clone)]
pub struct FolderBlobs {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
}

impl FolderBlobs {
    /// In this folder, which is made when the first blob is put.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { folder: folder.into(), clock }
    }

    fn uploads(&self) -> PathBuf {
        self.folder.join("uploads")
    }

    fn path(&self, digest: &BlobDigest) -> PathBuf {
        let name = digest.to_string();
        let (first, rest) = name.split_at(2);
        self.folder.join(first).join(rest)
    }

    /// The lock of the folder, until it is dropped.
    fn lock(&self, operation: FlockOperation) -> Result<File, BlobError> {
        let path = self.folder.join("lock");
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(path);
        let lock = lock.map_err(unusable)?;
        flock(&lock, operation).map_err(|error| unusable(error.into()))?;
        Ok(lock)
    }

    /// Writes the content to a file that is not a blob yet.
    fn write(&self, path: &Path, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError> {
        let mut file = OpenOptions::new();
        let mut file =
            file.create_new(true).write(true).mode(0o600).open(path).map_err(unusable)?;
        let (blob, index) =
            format::encode(content, limit, |part| file.write_all(part).map_err(unusable))?;
        file.write_all(&index.encode()).map_err(unusable)?;
        file.set_modified(system_time(self.clock.now())).map_err(unusable)?;
        file.sync_all().map_err(unusable)?;
        Ok(blob)
    }

    /// Gives a file that was written its name. A damaged blob of this name is replaced.
    fn name(&self, path: &Path, digest: &BlobDigest) -> Result<(), BlobError> {
        let to = self.path(digest);
        let folder = to.parent().unwrap_or(&self.folder);
        create_folder(folder)?;
        let _lock = self.lock(FlockOperation::LockShared)?;
        fs::rename(path, &to).map_err(unusable)?;
        sync(folder)
    }

    fn open_file(&self, digest: &BlobDigest) -> Result<File, BlobError> {
        File::open(self.path(digest)).map_err(|error| of_blob(error, digest))
    }

    /// The index at the end of a blob's file, and the length of the file.
    fn read_index(file: &File, digest: &BlobDigest) -> Result<(Index, u64), BlobError> {
        let failed = |error| of_blob(error, digest);
        let length = file.metadata().map_err(failed)?.len();
        let read = |bytes: usize| {
            let mut end = vec![0; bytes];
            let start = length.checked_sub(bytes as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            file.read_exact_at(&mut end, start)?;
            Ok(end)
        };
        let footer = read(FOOTER_BYTES).map_err(failed)?;
        let bytes = Index::length(&footer).unwrap_or(FOOTER_BYTES);
        Ok((Index::decode(digest, &read(bytes).map_err(failed)?)?, length))
    }

    /// The blobs of a subfolder, in no order.
    fn list_folder(&self, first: &str) -> Result<Vec<ListedBlob>, BlobError> {
        let mut listed = Vec::new();
        for entry in entries(&self.folder.join(first))? {
            let name = format!("{first}{}", entry.file_name().to_string_lossy());
            let Ok(digest) = name.parse() else { continue };
            match entry.metadata() {
                Ok(metadata) => listed.push(ListedBlob {
                    digest,
                    stored_bytes: metadata.len(),
                    touched_at: metadata.modified().map(timestamp).map_err(unusable)?,
                }),
                // Deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(error)),
            }
        }
        Ok(listed)
    }
}

impl Blobs for FolderBlobs {
    fn put(&self, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError> {
        create_folder(&self.uploads())?;
        let path = self.uploads().join(Uuid::new_v4().simple().to_string());
        let stored = self.write(&path, content, limit).and_then(|blob| {
            self.name(&path, &blob.digest)?;
            Ok(blob)
        });
        if stored.is_err()
            && let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "could not delete a failed upload");
        }
        stored
    }

    fn open(&self, digest: &BlobDigest) -> Result<BlobReader, BlobError> {
        let file = self.open_file(digest)?;
        let (index, _) = Self::read_index(&file, digest)?;
        let named = *digest;
        let read = move |_, at: std::ops::Range<u64>| {
            let mut part = vec![0; usize::try_from(at.end - at.start).unwrap_or(0)];
            file.read_exact_at(&mut part, at.start).map_err(|error| of_blob(error, &named))?;
            Ok(part)
        };
        Ok(BlobReader::new(*digest, index, Box::new(read)))
    }

    fn stat(&self, digest: &BlobDigest) -> Result<BlobStat, BlobError> {
        let file = self.open_file(digest)?;
        let (index, stored_bytes) = Self::read_index(&file, digest)?;
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        let touched_at = timestamp(modified.map_err(unusable)?);
        let blob = BlobRef { digest: *digest, bytes: index.bytes };
        Ok(BlobStat { blob, stored_bytes, touched_at })
    }

    fn touch(&self, digest: &BlobDigest) -> Result<(), BlobError> {
        // Without the folder there is nothing to lock, and no blob.
        self.open_file(digest)?;
        let _lock = self.lock(FlockOperation::LockShared)?;
        let file = self.open_file(digest)?;
        file.set_modified(system_time(self.clock.now())).map_err(unusable)
    }

    fn list(&self, after: Option<&BlobDigest>, limit: usize) -> Result<Vec<ListedBlob>, BlobError> {
        let first = after.map_or(0, |after| after.0[0]);
        let mut listed = Vec::new();
        for first in first..=u8::MAX {
            let mut blobs = self.list_folder(&format!("{first:02x}"))?;
            blobs.retain(|blob| after.is_none_or(|after| blob.digest > *after));
            blobs.sort_unstable_by_key(|blob| blob.digest);
            listed.extend(blobs);
            if listed.len() >= limit {
                listed.truncate(limit);
                break;
            }
        }
        Ok(listed)
    }

    fn delete(&self, digest: &BlobDigest, before: Timestamp) -> Result<bool, BlobError> {
        let path = self.path(digest);
        let delete = || {
            if timestamp(fs::metadata(&path)?.modified()?) >= before {
                return Ok(false);
            }
            fs::remove_file(&path)?;
            Ok(true)
        };
        if !path.exists() {
            return Ok(false);
        }
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        match delete() {
            Err(error) if is_not_found(&error) => Ok(false),
            other => other.map_err(unusable),
        }
    }

    fn discard_uploads(&self, before: Timestamp) -> Result<u64, BlobError> {
        let mut discarded = 0;
        for entry in entries(&self.uploads())? {
            // A file that is being written is young.
            let discard = || {
                if timestamp(entry.metadata()?.modified()?) >= before {
                    return Ok(0);
                }
                fs::remove_file(entry.path())?;
                Ok(1)
            };
            discarded += match discard() {
                Err(error) if is_not_found(&error) => 0,
                other => other.map_err(unusable)?,
            };
        }
        Ok(discarded)
    }

    fn now(&self) -> Result<Timestamp, BlobError> {
        Ok(self.clock.now())
    }
}

/// The entries of a folder; none where there is no folder.
fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, BlobError> {
    match fs::read_dir(folder).and_then(Iterator::collect) {
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        other => other.map_err(unusable),
    }
}

/// Makes a folder for its owner alone, durably, with those above it that are missing.
fn create_folder(folder: &Path) -> Result<(), BlobError> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        create_folder(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other.map_err(unusable)?,
    }
    sync(above.unwrap_or(Path::new(".")))
}

fn sync(folder: &Path) -> Result<(), BlobError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unusable)
}

fn is_not_found(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// An error of a blob's file.
fn of_blob(error: io::Error, digest: &BlobDigest) -> BlobError {
    match error.kind() {
        io::ErrorKind::NotFound => BlobError::NotFound(*digest),
        io::ErrorKind::UnexpectedEof => {
            BlobError::Corrupt { digest: *digest, reason: "its file is too short".to_owned() }
        }
        _ => unusable(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made to stand alone in `map_err`")]
fn unusable(error: io::Error) -> BlobError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            BlobError::Full(error.to_string())
        }
        _ => BlobError::Unavailable(error.to_string()),
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
