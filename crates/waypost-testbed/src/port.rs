//! Ports that no other process takes between being chosen and being used.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use parking_lot::Mutex;

/// Below the range that Linux assigns to outgoing connections and to listeners on any port: a
/// server that is stopped for a while finds its port free when it starts again.
const PORTS: Range<u16> = 18_000..32_000;

/// The ports that this process has, as locks on files: other test processes try those locks.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on loopback that is free, and that no other caller gets before this process has ended.
pub fn free_port() -> u16 {
    let folder = std::env::temp_dir().join("waypost-testbed-ports");
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    let mut held = HELD.lock();
    let count = PORTS.end - PORTS.start;
    // Processes begin at different places, so that they seldom try the same ports.
    let start = u16::try_from(std::process::id() % u32::from(count)).unwrap_or(0);
    for step in 0..count {
        let port = PORTS.start + (start + step * 7) % count;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(port.to_string()))
            .expect("a file can be made in the folder for temporary files");
        if file.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            held.push(file);
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free")
}
