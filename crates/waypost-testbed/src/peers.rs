//! The peers of a process, from the kernel's table of sockets.

use std::collections::BTreeSet;
use std::path::Path;

/// The ports at the other end of a process's TCP connections.
pub fn peers(pid: u32) -> Vec<u16> {
    let process = Path::new("/proc").join(pid.to_string());
    let sockets: BTreeSet<String> = std::fs::read_dir(process.join("fd"))
        .unwrap_or_else(|error| panic!("process {pid} is gone: {error}"))
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| {
            let target = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(target.to_owned())
        })
        .collect();
    let mut ports = BTreeSet::new();
    for table in ["net/tcp", "net/tcp6"] {
        let table = std::fs::read_to_string(process.join(table)).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, _, remote, ..] = fields.as_slice() else { continue };
            let ours = fields.get(9).is_some_and(|inode| sockets.contains(*inode));
            let port = remote.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
            // A listening socket has no peer.
            ports.extend(port.filter(|port| ours && *port != 0));
        }
    }
    ports.into_iter().collect()
}
