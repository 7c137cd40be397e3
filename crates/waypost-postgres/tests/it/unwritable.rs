//! A database that takes no writes, because it is read-only or its volume is full: the error says which,
//! and the very same append goes in when it takes them again.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::process::Command;

use waypost_ports::store::{Append, ControlChange, Store, StoreError};
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::postgres::{Durability, Postgres};

use crate::support::{Database, instance, is_committed, start};

#[test]
fn append_to_a_read_only_database_fails_as_such_and_goes_in_afterwards() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hand = start(&store, one, 1).remove(0);
    let intruder = database.intruder();
    let name = intruder.text("SELECT current_database()::text");
    intruder.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    intruder.kill("%");
    let append: Append = hand.next(1).control(ControlChange::Owned).into();
    let refused = loop {
        match store.append(std::slice::from_ref(&append)) {
            // Connections that were ended are noticed at their next use.
            Err(StoreError::Unavailable(_)) => {}
            other => break other,
        }
    };
    assert!(
        matches!(&refused, Err(error @ StoreError::ReadOnly(_)) if error.is_lasting()),
        "{refused:?}"
    );
    intruder.run(&format!("ALTER DATABASE {name} RESET default_transaction_read_only"));
    let committed = loop {
        match store.append(std::slice::from_ref(&append)) {
            Ok(committed) => break committed,
            Err(error) => {
                assert!(matches!(error, StoreError::ReadOnly(_) | StoreError::Unavailable(_)))
            }
        }
    };
    assert!(is_committed(&committed[0]), "{committed:?}");
}

/// A small file system in memory; unmounted when it is dropped.
struct Volume {
    folder: PathBuf,
}

impl Volume {
    /// `None` where mounting is not allowed.
    fn mount(folder: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(&folder);
        mount.output().is_ok_and(|done| done.status.success()).then_some(Self { folder })
    }

    fn fill(&self) {
        let mut ballast = File::create(self.folder.join("ballast")).unwrap();
        for bytes in [1 << 16, 4096] {
            while ballast.write_all(&vec![7; bytes]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.folder.join("ballast")).unwrap();
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.folder).status().ok();
    }
}

#[test]
fn append_to_a_full_volume_fails_as_such_and_goes_in_when_there_is_space() {
    let server = Postgres::start(Durability::None);
    let Some(volume) = Volume::mount(server.folder().join("small"), "size=64m") else { return };
    let owner = std::fs::metadata(server.folder().join("data")).unwrap();
    chown(&volume.folder, Some(owner.uid()), Some(owner.gid())).unwrap();
    let place = volume.folder.display();
    server.sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{place}'"));
    server.sql("postgres", "CREATE DATABASE full_one TABLESPACE small");
    let store = PostgresStore::open(&server.url("full_one"), Options::default()).unwrap();
    let one = instance(&store, 1);
    let mut hand = start(&store, one, 1).remove(0);
    volume.fill();
    // Pages that the tables have already take a few frames more.
    let (refused, append) = loop {
        let append: Append = hand.next(1_000).control(ControlChange::Owned).into();
        if let Err(error) = store.append(std::slice::from_ref(&append)) {
            break (error, append);
        }
    };
    assert!(matches!(refused, StoreError::Full(_)) && refused.is_lasting(), "{refused:?}");
    volume.free();
    let committed = store.append(&[append]).unwrap();
    assert!(is_committed(&committed[0]), "{committed:?}");
}
