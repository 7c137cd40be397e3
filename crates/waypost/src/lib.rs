//! Waypost: a durable workflow engine in one binary.
//!
//! This crate is the edge: the command line, the settings, and the wiring that puts the language,
//! the node kinds, the store and the engine together. It is also the way to use Waypost as a
//! library: [`embed`] is all that a program needs which runs workflows in a folder of its own; see
//! `examples/embed.rs`.
//!
//! | file | owns |
//! | --- | --- |
//! | `embed` | Waypost as a library: open a folder, start, signal, pause, resume, cancel, await the end |
//! | `wiring` | which store, which kinds, which language: named here and nowhere else |
//! | `cluster_services` | services around an engine besides its store: Redis, other instances |
//! | `settings` | flag > environment > file > default |
//! | `secrets` | which secrets there are, and who may do what with them |
//! | `sources` | which streams and tables triggers may read, and for whom |
//! | `cli` | the commands, one file each |
//! | `backend` | where executions live: a folder, or a database |
//! | `target` | where commands go: to a server, or to the folder itself |
//! | `client` | talking to a server |
//! | `output` | printing, which may fail: results, errors, the log, lines that are drawn again |
//! | `progress` | the progress of an execution on a screen |
//! | `open_files` | how many connections this process may have |
//! | `worker` | `waypost worker`: runs tasks of a server or a cluster here |

pub mod backend;
pub mod cli;
mod client;
pub mod cluster_services;
pub mod embed;
mod open_files;
pub mod output;
pub mod progress;
pub mod secrets;
pub mod settings;
pub mod sources;
mod target;
pub mod wiring;
mod worker;
