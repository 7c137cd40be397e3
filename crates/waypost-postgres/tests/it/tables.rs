//! Tables as sources of triggers, on a real server: late commits, marks, names, and what is refused.

use tokio::runtime::Runtime;
use waypost_core::trigger::{RowMark, StreamCursor, StreamStart, TableName, TableSafety};
use waypost_ports::source::{STREAM_PAGE_MAX, StreamFault, StreamPage};
use waypost_postgres::{PostgresTables, SourceTable};

use crate::support::Database;

/// A table that is followed from its beginning.
struct Followed {
    runtime: Runtime,
    tables: PostgresTables,
    table: TableName,
    key: &'static str,
    safety: TableSafety,
    cursor: StreamCursor,
}

fn by_xid() -> TableSafety {
    TableSafety::Xid { column: "written".into() }
}

fn by_mark(column: &str) -> TableSafety {
    TableSafety::Mark { mark: RowMark::Column(column.into()), order: None }
}

impl Followed {
    fn new(database: &Database, table: &str, safety: TableSafety) -> Self {
        Self {
            runtime: Runtime::new().unwrap(),
            tables: PostgresTables::new(&database.url).unwrap(),
            table: TableName::parse(table).unwrap(),
            key: "id",
            safety,
            cursor: StreamCursor::default(),
        }
    }

    fn table(&self) -> SourceTable<'_> {
        SourceTable { table: &self.table, key: self.key, safety: &self.safety }
    }

    fn try_read(&self) -> Result<StreamPage, StreamFault> {
        let read = self.tables.read(self.table(), self.cursor.clone(), &StreamStart::Beginning);
        self.runtime.block_on(read)
    }

    /// Reads a page; its keys.
    fn read(&mut self) -> Vec<String> {
        let page = self.try_read().unwrap();
        self.cursor = page.cursor;
        page.entries.into_iter().map(|entry| entry.key).collect()
    }

    /// Reads a page as if its entries had fired; its keys.
    fn read_and_mark(&mut self) -> Vec<String> {
        let keys = self.read();
        assert_eq!(self.cursor.unmarked, keys);
        self.mark().unwrap();
        self.cursor.unmarked.clear();
        keys
    }

    fn mark(&self) -> Result<(), StreamFault> {
        self.runtime.block_on(self.tables.mark(self.table(), &self.cursor))
    }

    fn why_not(&self) -> String {
        match self.try_read() {
            Err(StreamFault::Failed(failure)) => failure.message,
            other => panic!("{other:?}"),
        }
    }
}

const NUMBERED: &str = "CREATE TABLE public.rows (
    id bigint PRIMARY KEY, written xid8 NOT NULL DEFAULT pg_current_xact_id())";

#[test]
fn rows_that_commit_late_are_read_in_the_order_of_their_transactions() {
    let database = Database::new();
    let (late, early) = (database.intruder(), database.intruder());
    early.run(NUMBERED);
    let mut followed = Followed::new(&database, "rows", by_xid());
    early.run("INSERT INTO public.rows VALUES (1)");
    assert_eq!(followed.read(), ["1"]);
    // The row 2 is written first and commits last.
    late.run("BEGIN; INSERT INTO public.rows VALUES (2)");
    early.run("INSERT INTO public.rows VALUES (3)");
    assert_eq!(followed.read(), [""; 0], "nothing is read beyond a transaction that goes on");
    late.run("COMMIT");
    assert_eq!(followed.read(), ["2", "3"]);
    assert_eq!(followed.read(), [""; 0]);
    // One that is rolled back is waited for as well, and gives nothing.
    late.run("BEGIN; INSERT INTO public.rows VALUES (4)");
    early.run("INSERT INTO public.rows VALUES (5)");
    assert_eq!(followed.read(), [""; 0]);
    late.run("ROLLBACK");
    assert_eq!(followed.read(), ["5"]);
}

#[test]
fn rows_of_one_transaction_are_read_page_by_page() {
    let database = Database::new();
    let writer = database.intruder();
    writer.run(NUMBERED);
    let count = STREAM_PAGE_MAX + 50;
    writer.run(&format!("INSERT INTO public.rows SELECT n FROM generate_series(1, {count}) AS n"));
    let mut followed = Followed::new(&database, "public.rows", by_xid());
    let (first, second) = (followed.read(), followed.read());
    assert_eq!((first.len(), second.len()), (STREAM_PAGE_MAX, 50));
    assert_eq!(second.last().unwrap(), &count.to_string());
    assert_eq!(followed.read(), [""; 0]);
}

#[test]
fn rows_are_read_until_they_are_marked_whenever_they_commit() {
    let database = Database::new();
    let (late, early) = (database.intruder(), database.intruder());
    early.run(
        "CREATE TABLE public.rows (id int PRIMARY KEY, done boolean, at timestamp with time zone)",
    );
    for (column, is_marked) in [("done", "done"), ("at", "at IS NOT NULL")] {
        early.run("TRUNCATE public.rows");
        let mut followed = Followed::new(&database, "rows", by_mark(column));
        late.run("BEGIN; INSERT INTO public.rows VALUES (1)");
        early.run("INSERT INTO public.rows VALUES (2)");
        assert_eq!(followed.read_and_mark(), ["2"]);
        late.run("COMMIT");
        // Marks may be set again.
        let read = followed.read();
        assert_eq!((read, followed.read()), (vec!["1".to_owned()], vec!["1".to_owned()]));
        followed.mark().unwrap();
        followed.mark().unwrap();
        assert_eq!(followed.read(), [""; 0]);
        let marked = format!("SELECT count(*) FROM public.rows WHERE {is_marked}");
        assert_eq!(early.number(&marked), 2);
    }
}

#[test]
fn rows_are_deleted_in_their_order_where_that_is_the_mark() {
    let database = Database::new();
    let writer = database.intruder();
    writer.run("CREATE TABLE public.rows (id uuid PRIMARY KEY, n int)");
    writer
        .run("INSERT INTO public.rows SELECT gen_random_uuid(), n FROM generate_series(1, 5) AS n");
    let order = Some("n".into());
    let safety = TableSafety::Mark { mark: RowMark::Delete, order };
    let mut followed = Followed::new(&database, "rows", safety);
    let page = followed.try_read().unwrap();
    let numbers: Vec<i64> = page
        .entries
        .iter()
        .map(|entry| entry.item.as_ref().unwrap().to_value().unwrap()["n"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(followed.read_and_mark().len(), 5);
    assert_eq!(writer.number("SELECT count(*) FROM public.rows"), 0);
}

#[test]
fn names_of_a_definition_stay_names() {
    let database = Database::new();
    let writer = database.intruder();
    writer.run(
        r#"CREATE SCHEMA "S""x"; CREATE TABLE "S""x"."t; DROP TABLE a; --" ("the ""key""" text PRIMARY KEY, "don't" boolean)"#,
    );
    let insert = r#"INSERT INTO "S""x"."t; DROP TABLE a; --" VALUES ($$it's "one"$$)"#;
    writer.run(insert);
    let mut followed = Followed::new(&database, "S\"x.t; DROP TABLE a; --", by_mark("don't"));
    followed.key = "the \"key\"";
    assert_eq!(followed.read_and_mark(), ["it's \"one\""]);
    assert_eq!(followed.read(), [""; 0]);
}

#[test]
fn table_that_cannot_be_followed_is_refused_with_the_reason() {
    let database = Database::new();
    let (writer, store) = (database.intruder(), database.open());
    writer.run("CREATE TABLE public.rows (id int, done text, written xid8, n int NOT NULL)");
    let why = |table: &str, key: &'static str, safety: TableSafety| {
        Followed { key, ..Followed::new(&database, table, safety) }.why_not()
    };
    for (table, key, safety, part) in [
        ("gone", "id", by_mark("done"), "there is no table public.gone"),
        ("rows", "nr", by_mark("done"), "has no column \"nr\""),
        ("rows", "n", by_mark("fired"), "has no column \"fired\""),
        ("rows", "id", by_mark("done"), "\"id\" of public.rows must be NOT NULL"),
        ("rows", "n", by_mark("done"), "must be a boolean or a timestamp, not text"),
        ("rows", "n", by_xid(), "must be of type xid8 and NOT NULL"),
        ("waypost.frames", "id", by_mark("x"), "a table of PostgreSQL or of Waypost"),
        ("pg_catalog.pg_class", "oid", by_mark("x"), "a table of PostgreSQL or of Waypost"),
        ("information_schema.tables", "x", by_mark("x"), "a table of PostgreSQL or of Waypost"),
    ] {
        let why = why(table, key, safety);
        assert!(why.contains(part), "{table}: {why}");
    }
    drop(store);
}

#[test]
fn table_that_was_created_again_went_back() {
    let database = Database::new();
    let writer = database.intruder();
    writer.run(NUMBERED);
    writer.run("INSERT INTO public.rows VALUES (1)");
    let mut followed = Followed::new(&database, "rows", by_xid());
    assert_eq!(followed.read(), ["1"]);
    writer.run("DROP TABLE public.rows");
    assert!(followed.why_not().contains("there is no table"));
    writer.run(NUMBERED);
    let went_back = |followed: &Followed| match followed.try_read() {
        Err(StreamFault::WentBack(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = went_back(&followed);
    assert!(why.contains("created again"), "{why}");
    // A copy of the database that is younger than the cursor.
    followed.cursor.incarnation = None;
    followed.cursor.place = Some("999999999 1".to_owned());
    let why = went_back(&followed);
    assert!(why.contains("the source went back"), "{why}");
}

#[test]
fn locked_row_and_lost_connection_are_failures_that_pass() {
    let database = Database::new();
    let (other, writer) = (database.intruder(), database.intruder());
    writer.run("CREATE TABLE public.rows (id int PRIMARY KEY, done boolean)");
    writer.run("INSERT INTO public.rows VALUES (1)");
    let mut followed = Followed::new(&database, "rows", by_mark("done"));
    assert_eq!(followed.read(), ["1"]);
    other.run("BEGIN; SELECT * FROM public.rows FOR UPDATE");
    let failed = followed.mark().unwrap_err();
    assert!(matches!(failed, StreamFault::Failed(_)), "{failed:?}");
    other.run("COMMIT");
    followed.mark().unwrap();
    followed.cursor.unmarked.clear();
    writer.kill("sources");
    // The connection that was lost is not used again.
    let read = (0..3).find_map(|_| followed.try_read().ok());
    assert_eq!(read.unwrap().entries.len(), 0);
}

#[test]
fn large_rows_end_a_page_and_too_large_ones_are_left_out_alone() {
    let database = Database::new();
    let writer = database.intruder();
    writer.run("CREATE TABLE public.rows (id int PRIMARY KEY, done boolean, text text)");
    let insert = |ids: &str, bytes: usize| {
        writer.run(&format!(
            "INSERT INTO public.rows SELECT n, false, repeat('x', {bytes}) FROM generate_series({ids}) AS n"
        ));
    };
    insert("1, 6", 900_000);
    insert("7, 7", 1_100_000);
    let mut followed = Followed::new(&database, "rows", by_mark("done"));
    let page = followed.try_read().unwrap();
    assert_eq!((page.entries.len(), page.more), (4, true), "a page has at most 4 MiB");
    assert_eq!(followed.read_and_mark().len(), 4);
    let page = followed.try_read().unwrap();
    let readable: Vec<bool> = page.entries.iter().map(|entry| entry.item.is_ok()).collect();
    assert_eq!(readable, [true, true, false]);
}
