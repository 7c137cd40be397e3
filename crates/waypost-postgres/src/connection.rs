//! One connection: its session, its prepared statements, and its timeouts.
//!
//! A connection that failed with anything but a rejection of data, that did not answer in time, or
//! that is inside of a transaction is never used again: its state is unknown.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};
use waypost_ports::clock::Clock;

use crate::address::{Address, CONNECT_TIMEOUT};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::sent::Sent;

/// How long the server works on a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement waits for a row that another transaction has locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(8);

/// What the client allows beyond that, at most, for the round trip.
const GRACE: Duration = Duration::from_secs(2);

/// How long a transaction may be idle: then its client is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a migration may take, including the wait for another process that runs it.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The role of a connection. Roles are separate, so that no load on one can delay the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Signs of life, and nothing else.
    Renewals,
    Writers,
    /// Other calls of the engine.
    Engine,
    /// Requests of people.
    Api,
    /// Rows for readers.
    Projections,
    /// Changes of the layout.
    Migration,
    /// Nudges from others.
    Listener,
}

impl Role {
    /// Its name in `pg_stat_activity`.
    fn name(self) -> &'static str {
        match self {
            Self::Renewals => "waypost/renewals",
            Self::Writers => "waypost/writers",
            Self::Engine => "waypost/engine",
            Self::Api => "waypost/api",
            Self::Projections => "waypost/projections",
            Self::Migration => "waypost/migration",
            Self::Listener => "waypost/listener",
        }
    }

    fn timeouts(self, lease: Duration) -> Timeouts {
        let usual = Timeouts {
            connect: CONNECT_TIMEOUT,
            statement: STATEMENT_TIMEOUT,
            lock: LOCK_TIMEOUT,
            grace: GRACE,
        };
        match self {
            // A renewal times out early enough to be sent again within the lease.
            Self::Renewals => Timeouts {
                connect: usual.connect.min(lease / 5),
                statement: usual.statement.min(lease / 5),
                grace: usual.grace.min(lease / 10),
                ..usual
            },
            Self::Migration => {
                Timeouts { statement: MIGRATION_TIMEOUT, lock: MIGRATION_TIMEOUT, ..usual }
            }
            _ => usual,
        }
    }
}

struct Timeouts {
    /// For opening a connection. The caller occupies a place in a pool meanwhile.
    connect: Duration,
    statement: Duration,
    lock: Duration,
    grace: Duration,
}

/// Shared by all connections of a store.
pub(crate) struct Home {
    pub(crate) address: Address,
    pub(crate) schema: String,
    /// For tests: the sessions' time.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The lease that this process renews.
    pub(crate) lease: Duration,
    pub(crate) sent: Sent,
}

/// A connection that is ready for statements.
pub(crate) struct Connection {
    client: Client,
    driver: AbortHandle,
    /// By the address of the SQL, which is shorter than the SQL. Texts that the compiler has stored
    /// twice are prepared twice, at worst.
    prepared: HashMap<usize, Statement>,
    clock: Option<Arc<dyn Clock>>,
    sent: Arc<AtomicU64>,
    timeout: Duration,
    broken: bool,
    in_transaction: bool,
}

impl Connection {
    /// Connects and sets the session up. Must be called on the store's runtime.
    pub(crate) async fn open(home: &Home, role: Role) -> Result<Self> {
        Self::open_listening(home, role, |_| {}).await
    }

    /// As `open`, with a callback for the server's asynchronous messages.
    pub(crate) async fn open_listening(
        home: &Home,
        role: Role,
        hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<Self> {
        // The driver's own limit is about TCP alone: a server that accepts and stays silent would
        // be awaited without an end.
        let patience = role.timeouts(home.lease).connect;
        let opened = timeout(patience, Self::open_at_last(home, role, hear)).await;
        opened.unwrap_or_else(|_| {
            let (address, wait) = (home.address.describe(), patience.as_millis());
            Err(DbError::Unavailable(format!("{address}: no connection was made within {wait} ms")))
        })
    }

    async fn open_at_last(
        home: &Home,
        role: Role,
        hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<Self> {
        let timeouts = role.timeouts(home.lease);
        let unreachable = |error: tokio_postgres::Error| match DbError::from(error) {
            DbError::Unavailable(why) => {
                DbError::Unavailable(format!("{}: {why}", home.address.describe()))
            }
            other => other,
        };
        let (client, driver) =
            home.address.connect(role.name(), timeouts.connect, hear).await.map_err(unreachable)?;
        let mut connection = Self {
            client,
            driver,
            prepared: HashMap::new(),
            clock: home.clock.clone(),
            sent: home.sent.by(role),
            timeout: timeouts.statement + timeouts.grace,
            // Until it has begun.
            broken: true,
            in_transaction: false,
        };
        connection.begin_session(home, role, &timeouts).await?;
        connection.broken = false;
        Ok(connection)
    }

    async fn begin_session(&mut self, home: &Home, role: Role, timeouts: &Timeouts) -> Result<()> {
        let millis = |span: Duration| span.as_millis().to_string();
        let search_path = format!("\"{}\"", home.schema);
        // The writers' few statements use keys; a plan that joins whole tables is never right for
        // them, whatever the statistics are.
        let by_keys = matches!(role, Role::Writers | Role::Projections);
        let joins = if by_keys { "off" } else { "on" };
        let scans = if by_keys || role == Role::Engine { "off" } else { "on" };
        let settings: Params<'_> = &[
            &search_path,
            &millis(timeouts.statement),
            &millis(timeouts.lock),
            &millis(IDLE_TIMEOUT),
            &joins,
            &scans,
        ];
        self.query(sql!("session_begin"), settings).await?;
        Ok(())
    }

    /// Sets the session's time, if a test controls it.
    pub(crate) async fn tell_time(&mut self) -> Result<()> {
        if let Some(clock) = &self.clock {
            let now = clock.now().0.to_string();
            self.query(sql!("session_time"), &[&now]).await?;
        }
        Ok(())
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.timeout, self.client.query(&statement, params)).await;
        self.judge(answer)
    }

    /// Runs statements that all see one state of the database, on one way there and back.
    pub(crate) async fn read<const N: usize>(
        &mut self,
        queries: [(&'static str, Params<'_>); N],
    ) -> Result<[Vec<Row>; N]> {
        let mut statements = Vec::with_capacity(N);
        for (sql, _) in &queries {
            statements.push(self.prepare(sql).await?);
        }
        self.sent.fetch_add(N as u64 + 2, Ordering::Relaxed);
        let client = &self.client;
        let all =
            statements.iter().zip(&queries).map(|(sql, (_, params))| client.query(sql, params));
        // Sent in this order and answered in it; each waits for nothing but its own answer.
        let answers = timeout(self.timeout, async {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            let end = client.batch_execute("COMMIT");
            let (begun, rows, ended) = tokio::join!(biased; begin, try_join_all(all), end);
            begun?;
            let rows = rows?;
            ended?;
            Ok(rows)
        });
        let answers = answers.await;
        // Whatever failed, it was inside of a transaction.
        self.broken |= !matches!(answers, Ok(Ok(_)));
        let rows = self.judge(answers)?;
        rows.try_into().map_err(|_| DbError::Corrupt("an answer is missing".to_owned()))
    }

    /// Runs a statement and reads its rows.
    pub(crate) async fn query_map<T, C: FromIterator<T>>(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<C> {
        self.query(sql, params).await?.iter().map(read).collect()
    }

    /// Runs a statement and reads its first row, if there is one.
    pub(crate) async fn query_opt<T>(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        self.query(sql, params).await?.first().map(read).transpose()
    }

    /// Runs a statement that always returns a row.
    pub(crate) async fn query_one(&mut self, sql: &'static str, params: Params<'_>) -> Result<Row> {
        let row = self.query(sql, params).await?.into_iter().next();
        row.ok_or_else(|| DbError::Corrupt("a row that is always there is missing".to_owned()))
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) async fn execute(&mut self, sql: &'static str, params: Params<'_>) -> Result<u64> {
        let statement = self.prepare(sql).await?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.timeout, self.client.execute(&statement, params)).await;
        self.judge(answer)
    }

    /// Runs several statements that take nothing and give nothing.
    pub(crate) async fn run_all(&mut self, sql: &str) -> Result<()> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.timeout, self.client.batch_execute(sql)).await;
        self.judge(answer)
    }

    /// Begins a transaction, each statement of which sees everything committed before it. A
    /// statement that fails inside of it, or a missing commit, costs the connection.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.in_transaction = true;
        self.run_all("BEGIN").await
    }

    /// As [`begin`](Self::begin), with its first statement on the same way there and back.
    pub(crate) async fn begin_with(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        self.in_transaction = true;
        self.sent.fetch_add(2, Ordering::Relaxed);
        let client = &self.client;
        // Sent in this order and answered in it.
        let answers = timeout(self.timeout, async {
            let begin = client.batch_execute("BEGIN");
            let (begun, rows) = tokio::join!(biased; begin, client.query(&statement, params));
            begun?;
            rows
        });
        let answer = answers.await;
        self.judge(answer)
    }

    /// Begins a transaction whose statements all see one state of the database, and change nothing.
    pub(crate) async fn begin_snapshot(&mut self) -> Result<()> {
        self.in_transaction = true;
        self.run_all("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    pub(crate) async fn roll_back(&mut self) -> Result<()> {
        self.run_all("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Commits. Every statement since [`begin`](Self::begin) must have succeeded: the server answers
    /// the COMMIT of a failed transaction without an error.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        if self.broken {
            return Err(DbError::Unavailable("the transaction had failed".to_owned()));
        }
        self.run_all("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// May it go back to the pool?
    pub(crate) fn is_usable(&self) -> bool {
        !self.broken && !self.in_transaction && !self.client.is_closed()
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some(statement) = self.prepared.get(&sql.as_ptr().addr()) {
            return Ok(statement.clone());
        }
        let answer = timeout(self.timeout, self.client.prepare(sql)).await;
        let statement = self.judge(answer)?;
        self.prepared.insert(sql.as_ptr().addr(), statement.clone());
        Ok(statement)
    }

    fn judge<T>(
        &mut self,
        answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T> {
        let error = match answer {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => DbError::from(error),
            Err(_) => DbError::Unavailable("the database did not answer in time".to_owned()),
        };
        self.broken |= self.in_transaction || !error.is_clean();
        Err(error)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Left to itself it would stay for as long as the server owes an answer: for ever, where that is
        // what broke it.
        if self.broken {
            self.driver.abort();
        }
    }
}
