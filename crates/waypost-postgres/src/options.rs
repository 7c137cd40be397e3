//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use waypost_core::projection::inputs::Describe;
use waypost_ports::clock::Clock;
use waypost_ports::mirror::Mirror;
use waypost_ports::store::{LEASE, StoreError};

/// Describes definitions, for the projections.
pub type Families = Arc<dyn Describe>;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Where all tables are. Made where it is missing, if the user may.
    pub schema: String,
    /// Connections for requests of people.
    pub api_connections: usize,
    /// How long a request of people waits for one of them.
    pub api_wait: Duration,
    /// The lease that is renewed through this store.
    pub lease: Duration,
    /// Copies of parked executions, to spare their loading.
    pub mirror: Option<Arc<dyn Mirror>>,
    /// What the projections show of definitions: the families of their nodes, and their plans.
    pub families: Families,
    /// For tests: where the time comes from instead of the database.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "waypost".to_owned(),
            api_connections: 8,
            api_wait: Duration::from_secs(2),
            lease: LEASE.to_std(),
            mirror: None,
            families: Arc::new(|_: &str| None),
            clock: None,
        }
    }
}

impl Options {
    /// The name of the schema, if it is one: it becomes part of a statement.
    pub(crate) fn checked_schema(&self) -> Result<&str, StoreError> {
        let name = self.schema.as_str();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins_well = name.starts_with(|c: char| fits(c) && !c.is_ascii_digit());
        match begins_well && name.chars().all(fits) && name.len() <= 63 {
            true => Ok(name),
            false => Err(StoreError::Refused(format!(
                "{name:?} cannot be the name of a schema: use lower-case letters, digits and `_`"
            ))),
        }
    }
}
