//! Definitions of other engines, converted to definitions of Waypost.
//!
//! ```text
//!   sources ─▶ read ─▶ detect ─▶ one folder per format ─▶ target ─▶ YAML ─▶ validated
//!              values            asl, conductor,            │
//!              with positions    serverless, actions        └─▶ report: exact, different, not converted
//! ```
//!
//! What has no counterpart is never dropped: it is in the report with its position, and the definition
//! has a node of kind `fail` in its place. Pure: text in, text out, bounded in time and memory.
//!
//! | to change | go to |
//! | --- | --- |
//! | which format a file has | `detect` |
//! | how one format is converted | `asl`, `conductor`, `serverless`, `actions` |
//! | expressions | `expr` builds ours; `script` reads those of JavaScript, jq and Actions; `json_path` reads JSONPath |
//! | states with transitions, also backwards, as a graph without cycles | `machine` |
//! | the written YAML | `target` |
//! | the report | `report` |

mod actions;
mod asl;
mod conductor;
mod convert;
mod detect;
mod expr;
mod json_path;
mod machine;
mod names;
mod read;
mod report;
mod script;
mod serverless;
mod target;

pub use crate::convert::{Converted, ImportError, ImportSource, Imported, import};
pub use crate::detect::ImportFormat;
pub use crate::report::{ImportFinding, ImportLevel, ImportReport};
