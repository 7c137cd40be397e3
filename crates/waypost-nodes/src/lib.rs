//! The built-in node kinds, one file each in `kinds/`.
//!
//! ```text
//!   kinds/<kind>.rs   its KindSpec, its compile(config) -> Behaviour, its Handler if it is an action
//!   config.rs         shared by the kinds' `compile` functions: templates, durations, faults
//!   egress.rs         where outbound calls may go; every handler that opens a connection checks it
//!   http.rs           calls: the request, its redirects, its response; shared by kinds
//!   settings.rs       an operator's settings for handlers
//!   tls.rs            the TLS settings of every client
//!   webhook.rs        messages to webhook endpoints
//! ```
//!
//! A new kind is one file in `kinds/` with a `pub(crate) static KIND: NodeKind`, and its name in
//! the list below. Nothing here decides what follows a node's end, and no handler touches a store:
//! a task comes in, an output or a failure goes out.

mod config;
pub mod egress;
mod http;
mod outcome;
mod settings;
pub mod tls;
pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::kind::{Behaviour, Catalog, ConfigFault, Kind, KindSpec};
use waypost_ports::blobs::Blobs;
use waypost_ports::handler::Handler;

use crate::config::ConfigMap;

pub use settings::{CALL_TIMEOUT, SHELL_GRACE, Settings};

/// A built-in kind.
pub(crate) struct NodeKind {
    spec: &'static KindSpec,
    compile: fn(&ConfigMap) -> Result<Behaviour, Vec<ConfigFault>>,
    /// Makes the handler of its tasks; `None` for kinds that the engine decides by itself.
    handler: Option<MakeHandler>,
}

type MakeHandler = fn(&Settings, Option<&Arc<dyn Blobs>>) -> Arc<dyn Handler>;

impl Kind for NodeKind {
    fn spec(&self) -> &'static KindSpec {
        self.spec
    }

    fn compile(&self, config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
        (self.compile)(config)
    }
}

/// Declares the modules in `kinds/` and the list of what they define, so that no kind can be in one
/// and not in the other. (`cargo fmt` does not look behind macros: `rustfmt src/kinds/*.rs` does.)
macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        mod kinds {
            $(pub(crate) mod $kind;)*
        }
        static KINDS: &[&NodeKind] = &[$(&kinds::$kind::KIND),*];
        static CATALOG: &[&dyn Kind] = &[$(&kinds::$kind::KIND),*];
    };
}

kinds! {
    manual,
    schedule,
    webhook,
    event,
    poll,
    stream,
    workflow_ended,
    condition,
    switch,
    transform,
    delay,
    wait_for_events,
    approval,
    async_operation,
    join,
    group,
    r#loop,
    map,
    workflow,
    emit,
    noop,
    fail,
    notify,
    api_call,
    llm,
    shell,
    worker,
    input,
    output,
}

/// All built-in kinds, for compiling definitions.
pub fn catalog() -> Catalog<'static> {
    Catalog(CATALOG)
}

/// The handlers of all built-in action kinds, by the name that tasks call them by.
pub fn handlers(
    settings: &Settings,
    blobs: Option<&Arc<dyn Blobs>>,
) -> BTreeMap<&'static str, Arc<dyn Handler>> {
    let handler = |kind: &&NodeKind| Some((kind.spec.name, kind.handler?(settings, blobs)));
    KINDS.iter().filter_map(handler).collect()
}
