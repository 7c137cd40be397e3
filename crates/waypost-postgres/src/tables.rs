//! Tables of other programs, as sources of triggers: pages of rows, and marks on those that have fired.
//!
//! ```text
//!   safe: mark   rows without the mark, by order and key     the cursor: keys that are to be marked
//!   safe: xid    rows after a transaction and a key, of      the cursor: that transaction and key
//!                transactions that have all ended
//! ```
//!
//! Neither passes over a row whose transaction commits late. Names of tables and columns are from definitions:
//! they are quoted, and types are spelled by the database itself.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::{Client, Row};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::trigger::{RowMark, StreamCursor, StreamStart, TableName, TableSafety};
use waypost_ports::source::{
    PAGE_BYTES_MAX, STREAM_ENTRY_BYTES_MAX, STREAM_PAGE_MAX, StreamEntry, StreamFault, StreamPage,
};
use waypost_ports::store::StoreError;

use crate::address::{Address, CONNECT_TIMEOUT};
use crate::error::DbError;
use crate::queries::sql;

/// Connections to one source.
const CONNECTIONS_MAX: usize = 4;
/// How long the server works on a statement, or on a transaction that is idle.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a statement waits for a row that another transaction has locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a page may take with everything, a wait for a connection included.
const PAGE_TIMEOUT: Duration = Duration::from_secs(18);
/// Bytes of the keys that wait to be marked: they are a part of the cursor.
const MARKED_BYTES_MAX: usize = 48 * 1024;

/// The tables of one database. Cheap to clone.
#[derive(Clone)]
pub struct PostgresTables(Arc<SourceDatabase>);

/// Where the tables are, and the connections to them.
struct SourceDatabase {
    address: Address,
    places: Semaphore,
    idle: Mutex<Vec<Client>>,
}

/// A table that is read.
#[derive(Clone, Copy, Debug)]
pub struct SourceTable<'a> {
    pub table: &'a TableName,
    pub key: &'a str,
    pub safety: &'a TableSafety,
}

/// What is known of a table.
struct AboutTable {
    oid: String,
    key_type: String,
    /// Of the column with the mark, if it has one.
    mark_type: Option<String>,
}

impl PostgresTables {
    /// Checks the address. It connects with the first read.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let (address, places) = (Address::parse(url)?, Semaphore::new(CONNECTIONS_MAX));
        Ok(Self(Arc::new(SourceDatabase { address, places, idle: Mutex::default() })))
    }

    /// The next page of a table.
    pub async fn read(
        &self,
        table: SourceTable<'_>,
        cursor: StreamCursor,
        start: &StreamStart,
    ) -> Result<StreamPage, StreamFault> {
        self.within(async |client| {
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            let about = about(client, table, &cursor).await?;
            let cursor = StreamCursor { incarnation: Some(about.oid.clone()), ..cursor };
            let page = match table.safety {
                TableSafety::Mark { mark, order } => {
                    let order = order.as_deref().unwrap_or(table.key);
                    unmarked(client, table, &about, (mark, order), cursor).await?
                }
                TableSafety::Xid { column } => {
                    after(client, table, &about, column, (cursor, start)).await?
                }
            };
            client.batch_execute("COMMIT").await?;
            Ok(page)
        })
        .await
    }

    /// Marks rows that have fired.
    pub async fn mark(
        &self,
        table: SourceTable<'_>,
        cursor: &StreamCursor,
    ) -> Result<(), StreamFault> {
        let TableSafety::Mark { mark, .. } = table.safety else { return Ok(()) };
        self.within(async |client| {
            let about = about(client, table, cursor).await?;
            let sql = match mark {
                RowMark::Delete => sql!("source_delete"),
                RowMark::Column(_) => sql!("source_mark"),
            };
            let sql = names(table, &about).of(mark, &about)?.fill(sql);
            client.execute(&sql, &[&cursor.unmarked]).await?;
            Ok(())
        })
        .await
    }

    /// Lends a connection, which is used again if nothing failed.
    async fn within<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, TableError>,
    ) -> Result<T, StreamFault> {
        let database = &*self.0;
        let done = timeout(PAGE_TIMEOUT, async {
            let _place = database.places.acquire().await.map_err(|_| silent(&database.address))?;
            let idle = database.idle.lock().pop().filter(|client| !client.is_closed());
            let client = match idle {
                Some(client) => client,
                None => database.connect().await?,
            };
            let done = work(&client).await?;
            database.idle.lock().push(client);
            Ok::<_, TableError>(done)
        });
        match done.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(TableError::Fault(fault))) => Err(fault),
            Ok(Err(TableError::Database(error))) => {
                let text = format!("PostgreSQL at {}: {error}", database.address.describe());
                Err(failure(text).into())
            }
            Err(_) => Err(silent(&database.address).into()),
        }
    }
}

impl SourceDatabase {
    async fn connect(&self) -> Result<Client, TableError> {
        let connecting = self.address.connect("waypost/sources", CONNECT_TIMEOUT, |_| {});
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let (client, _) = connected.map_err(|_| silent(&self.address))??;
        let millis = |span: Duration| span.as_millis().to_string();
        let settings = [millis(STATEMENT_TIMEOUT), millis(LOCK_TIMEOUT)];
        client.query(sql!("source_session"), &[&settings[0], &settings[1]]).await?;
        Ok(client)
    }
}

/// Why a page or a mark failed. The connection is not used again.
enum TableError {
    Fault(StreamFault),
    Database(DbError),
}

impl From<tokio_postgres::Error> for TableError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<Failure> for TableError {
    fn from(failure: Failure) -> Self {
        Self::Fault(StreamFault::Failed(failure))
    }
}

fn failure(text: String) -> Failure {
    Failure::transient(kind::CONNECTION, text)
}

fn silent(address: &Address) -> Failure {
    failure(format!("PostgreSQL at {} did not answer in time", address.describe()))
}

/// Checks that the table can be read as it is to be read.
async fn about(
    client: &Client,
    SourceTable { table, key, safety }: SourceTable<'_>,
    cursor: &StreamCursor,
) -> Result<AboutTable, TableError> {
    let (other, order) = match safety {
        TableSafety::Mark { mark: RowMark::Column(column), order } => {
            (Some(column), order.as_ref())
        }
        TableSafety::Mark { mark: RowMark::Delete, order } => (None, order.as_ref()),
        TableSafety::Xid { column } => (Some(column), None),
    };
    let mut wanted: Vec<&str> = vec![key];
    wanted.extend([other, order].into_iter().flatten().map(|column| &**column));
    let (schema, name) = (&*table.schema, &*table.table);
    let rows = client.query(sql!("source_about"), &[&schema, &name, &wanted]).await?;
    let Some(first) = rows.first() else {
        return Err(failure(format!("there is no table {table}, or no right to see it")).into());
    };
    let oid: String = first.try_get(0)?;
    if first.try_get(1)? || first.try_get(2)? {
        let text = format!("{table} cannot be a source: it is a table of PostgreSQL or of Waypost");
        return Err(failure(text).into());
    }
    if cursor.incarnation.as_ref().is_some_and(|known| *known != oid) {
        let text = format!("the table {table} is another one: it was deleted and created again");
        return Err(TableError::Fault(StreamFault::WentBack(text)));
    }
    let column = |name: &str| -> Result<(String, bool), TableError> {
        for row in &rows {
            if row.try_get::<_, Option<&str>>(3)? == Some(name) {
                return Ok((row.try_get(4)?, row.try_get(5)?));
            }
        }
        Err(failure(format!("the table {table} has no column {name:?}")).into())
    };
    order.map(|order| column(order)).transpose()?;
    let (key_type, is_set) = column(key)?;
    if !is_set {
        let text = format!("the column {key:?} of {table} must be NOT NULL: it identifies a row");
        return Err(failure(text).into());
    }
    let other = other.map(|other| column(other)).transpose()?;
    if let (TableSafety::Xid { column }, Some((kind, is_set))) = (safety, &other)
        && (kind != "xid8" || !is_set)
    {
        let text = format!("the column {column:?} of {table} must be of type xid8 and NOT NULL");
        return Err(failure(text).into());
    }
    Ok(AboutTable { oid, key_type, mark_type: other.map(|(kind, _)| kind) })
}

/// What stands for the braces of a statement: quoted names, and texts of ours.
struct Names(Vec<(&'static str, String)>);

impl Names {
    /// The only place where SQL is put together.
    fn fill(&self, sql: &str) -> String {
        let mut filled = String::with_capacity(sql.len());
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            filled.push_str(before);
            let value = self.0.iter().find(|(known, _)| *known == name);
            filled.push_str(value.map_or("", |(_, value)| value));
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.0.push((name, value));
        self
    }

    /// With what a mark is.
    fn of(self, mark: &RowMark, about: &AboutTable) -> Result<Self, Failure> {
        let RowMark::Column(column) = mark else {
            return Ok(self.with("unmarked", "true".to_owned()));
        };
        let done = quoted(column);
        let kind = about.mark_type.as_deref().unwrap_or_default();
        let (unmarked, value) = match kind {
            "boolean" => ("IS NOT TRUE", "true"),
            "timestamp with time zone" | "timestamp without time zone" => ("IS NULL", "now()"),
            other => {
                return Err(failure(format!(
                    "the column {column:?} for the mark must be a boolean or a timestamp, not {other}"
                )));
            }
        };
        let unmarked = format!("t.{done} {unmarked}");
        Ok(self.with("unmarked", unmarked).with("done", done).with("value", value.to_owned()))
    }
}

fn names(SourceTable { table, key, .. }: SourceTable<'_>, about: &AboutTable) -> Names {
    let place = format!("{}.{}", quoted(&table.schema), quoted(&table.table));
    Names(vec![("table", place), ("key", quoted(key)), ("type", about.key_type.clone())])
}

/// A name in quotes, whatever it is.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

const LIMITS: (i64, i64, i64) =
    (STREAM_PAGE_MAX as i64, STREAM_ENTRY_BYTES_MAX as i64, PAGE_BYTES_MAX as i64);

async fn unmarked(
    client: &Client,
    table: SourceTable<'_>,
    about: &AboutTable,
    (mark, order): (&RowMark, &str),
    mut cursor: StreamCursor,
) -> Result<StreamPage, TableError> {
    let names = names(table, about).of(mark, about)?.with("order", quoted(order));
    let sql = names.fill(sql!("source_unmarked"));
    let (limit, entry, page) = LIMITS;
    let rows = client.query(&sql, &[&limit, &entry, &page]).await?;
    let (mut entries, _, mut more) = read_rows(&rows)?;
    let mut bytes = 0;
    let fits = entries.iter().take_while(|entry| {
        bytes += entry.key.len();
        bytes <= MARKED_BYTES_MAX
    });
    let fits = fits.count().max(1);
    more |= fits < entries.len();
    entries.truncate(fits);
    cursor.unmarked = entries.iter().map(|entry| entry.key.clone()).collect();
    Ok(StreamPage { entries, cursor, more, removed: 0 })
}

async fn after(
    client: &Client,
    table: SourceTable<'_>,
    about: &AboutTable,
    column: &str,
    (cursor, start): (StreamCursor, &StreamStart),
) -> Result<StreamPage, TableError> {
    let moment: String = client.query_one(sql!("source_moment"), &[]).await?.try_get(0)?;
    let place = match (&cursor.place, start) {
        (Some(place), _) => place.clone(),
        (None, StreamStart::Beginning) => "0".to_owned(),
        (None, StreamStart::Now | StreamStart::After(_)) => moment.clone(),
    };
    let (xid, key) = match place.split_once(' ') {
        Some((xid, key)) => (xid.to_owned(), Some(key.to_owned())),
        None => (place.clone(), None),
    };
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| failure("a place is none".to_owned()));
    // Rows up to a transaction were read only once it had ended.
    if number(&xid)? > number(&moment)? {
        let text = format!(
            "the source went back: its transactions are at {moment}, and rows of {xid} were read before"
        );
        return Err(TableError::Fault(StreamFault::WentBack(text)));
    }
    let sql = names(table, about).with("xid", quoted(column)).fill(sql!("source_after"));
    let (limit, entry, page) = LIMITS;
    let rows = client.query(&sql, &[&limit, &entry, &page, &xid, &key]).await?;
    let (entries, last, more) = read_rows(&rows)?;
    let last = last.zip(entries.last()).map(|(xid, entry)| format!("{xid} {}", entry.key));
    let cursor = StreamCursor { place: Some(last.unwrap_or(place)), from: None, ..cursor };
    Ok(StreamPage { entries, cursor, more, removed: 0 })
}

/// The entries of a page, the transaction of the last one, and whether there may be more.
fn read_rows(rows: &[Row]) -> Result<(Vec<StreamEntry>, Option<String>, bool), TableError> {
    let mut entries = Vec::with_capacity(rows.len());
    let (mut xid, mut count) = (None, 0);
    for row in rows {
        let (key, bytes): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let item = match row.try_get::<_, Option<&str>>(2)? {
            Some(text) => Json::parse(text).map_err(|error| error.to_string()),
            None => Err(format!(
                "the row has {bytes} bytes as JSON; at most {STREAM_ENTRY_BYTES_MAX} are taken"
            )),
        };
        xid = row.try_get(3)?;
        count = row.try_get::<_, i64>(4)?;
        entries.push(StreamEntry { key, item });
    }
    let found = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let more = found < count || count >= STREAM_PAGE_MAX as i64;
    Ok((entries, xid, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_stays_inside_its_quotes() {
        for (name, expected) in
            [("Orders", "\"Orders\""), ("a\"; x; --", "\"a\"\"; x; --\""), ("{key}", "\"{key}\"")]
        {
            assert_eq!(quoted(name), expected);
        }
        let names = Names(vec![("table", quoted("{key}\"")), ("key", quoted("id"))]);
        assert_eq!(names.fill("a {table}.{key} b"), "a \"{key}\"\"\".\"id\" b");
    }
}
