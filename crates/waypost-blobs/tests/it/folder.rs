//! Blobs in a folder: the promises of every place for blobs, full disks, and files that others left.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use waypost_blobs::FolderBlobs;
use waypost_core::blob::BlobDigest;
use waypost_core::time::Millis;
use waypost_ports::blobs::{BlobError, Blobs};
use waypost_ports::clock::{Clock, ManualClock, SystemClock};
use waypost_ports::conformance::blobs::BlobsBackend;
use waypost_ports::conformance::tasks::still_clock;

struct Folder {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: still_clock() }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("blobs")
    }

    fn file(&self, digest: &BlobDigest) -> PathBuf {
        let name = digest.to_string();
        self.root().join(&name[..2]).join(&name[2..])
    }
}

/// Files of a folder and below, but for its lock.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let below = entries.map(|entry| entry.unwrap().path()).flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    below.filter(|path| !path.ends_with("lock")).collect()
}

impl BlobsBackend for Folder {
    type Blobs = FolderBlobs;

    fn open(&self) -> FolderBlobs {
        FolderBlobs::new(self.root(), Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }

    fn damage(&self, digest: &BlobDigest) {
        let file = File::options().read(true).write(true).open(self.file(digest)).unwrap();
        // The parts come first, and the index of one or two parts has 60 or 96 bytes.
        let blobs = self.open();
        let index = if blobs.stat(digest).unwrap().blob.bytes > 1 << 20 { 96 } else { 60 };
        let at = file.metadata().unwrap().len() - index - 1;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }

    fn stored(&self) -> usize {
        files(&self.root()).len()
    }
}

waypost_ports::blobs_conformance_tests!(Folder::new);

#[test]
fn damaged_blob_put_again_is_whole() {
    let folder = Folder::new();
    let blobs = folder.open();
    let blob = blobs.put(&mut &b"content"[..], 100).unwrap();
    folder.damage(&blob.digest);
    assert!(blobs.get(&blob.digest, 100).is_err());
    blobs.put(&mut &b"content"[..], 100).unwrap();
    assert_eq!(blobs.get(&blob.digest, 100), Ok(b"content".to_vec()));
}

#[test]
fn shortened_and_emptied_files_are_corrupt() {
    let folder = Folder::new();
    let blobs = folder.open();
    let blob = blobs.put(&mut &b"content"[..], 100).unwrap();
    let file = File::options().write(true).open(folder.file(&blob.digest)).unwrap();
    for length in [30, 5, 0] {
        file.set_len(length).unwrap();
        for result in [blobs.get(&blob.digest, 100).map(drop), blobs.stat(&blob.digest).map(drop)] {
            assert!(matches!(result, Err(BlobError::Corrupt { .. })), "{length}: {result:?}");
        }
    }
}

#[test]
fn files_are_for_their_owner_alone() {
    let folder = Folder::new();
    let blob = folder.open().put(&mut &b"content"[..], 100).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.file(&blob.digest)), 0o600);
    assert_eq!(mode(&folder.root()), 0o700);
}

#[test]
fn old_upload_is_discarded_and_a_young_one_stays() {
    let folder = Folder::new();
    let blobs = FolderBlobs::new(folder.root(), Arc::new(SystemClock));
    blobs.put(&mut &b"content"[..], 100).unwrap();
    let hour = Duration::from_secs(3_600);
    for (name, age) in [("old", 2 * hour), ("young", Duration::ZERO)] {
        let file = File::create(folder.root().join("uploads").join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    let before = SystemClock.now().minus(Millis::from_secs(3_600));
    assert_eq!(blobs.discard_uploads(before), Ok(1));
    assert!(folder.root().join("uploads/young").exists());
    assert_eq!(folder.stored(), 2);
}

/// A small file system, until it is dropped; none without the right to mount one.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(folder.path());
        mount.output().ok()?.status.success().then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).output().unwrap();
    }
}

#[test]
fn full_disk_is_reported_and_nothing_is_left_behind() {
    let Some(disk) = SmallDisk::new() else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let root = disk.0.path().join("blobs");
    let blobs = FolderBlobs::new(&root, Arc::new(SystemClock));
    let mut noise = vec![0; 1 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    let put = blobs.put(&mut (&noise[..]).chain(&noise[..]).chain(&noise[..]), u64::MAX);
    assert!(matches!(put, Err(BlobError::Full(_))), "{put:?}");
    assert!(files(&root).is_empty());
    let blob = blobs.put(&mut &noise[..], u64::MAX).unwrap();
    assert!(blobs.get(&blob.digest, u64::MAX).unwrap() == noise);
}

#[test]
fn folder_that_cannot_be_made_is_unavailable() {
    let folder = Folder::new();
    fs::write(folder.root(), "a file where the folder should be").unwrap();
    let put = folder.open().put(&mut io::repeat(7).take(10), 100);
    assert!(matches!(put, Err(BlobError::Unavailable(_))), "{put:?}");
}
