//! Statements made from the columns of the read tables.
//!
//! The `.sql` files of the stores have marks like `{columns}` where those columns go. A store fills them
//! once per process. Marks are filled with names and numbers from constants, never with data.

use waypost_core::projection::columns::{Column, Merge};

/// Fills the marks of a statement.
///
/// # Panics
/// When the statement lacks a mark or has one that is not filled.
pub fn fill(template: &str, marks: &[(&str, String)]) -> String {
    let mut sql = template.to_owned();
    for (mark, text) in marks {
        let mark = format!("{{{mark}}}");
        assert!(sql.contains(&mark), "{mark} is not in: {template}");
        sql = sql.replace(&mark, text);
    }
    assert!(!sql.contains('{'), "a mark is left in: {sql}");
    sql
}

/// Columns as a list, each with its position from 0.
pub fn list<T>(columns: &[Column<T>], show: impl Fn(usize, &Column<T>) -> String) -> String {
    let shown: Vec<String> =
        columns.iter().enumerate().map(|(position, column)| show(position, column)).collect();
    shown.join(", ")
}

/// Their names.
pub fn names<T>(columns: &[Column<T>]) -> String {
    list(columns, |_, column| column.name.to_owned())
}

/// What an upsert of `table` does to a row that exists.
pub fn merges<T>(table: &str, columns: &[Column<T>]) -> String {
    list(columns, |_, column| {
        let name = column.name;
        let (old, new) = (format!("{table}.{name}"), format!("excluded.{name}"));
        match column.merge {
            Merge::Replace => format!("{name} = {new}"),
            Merge::Newest => format!("{name} = coalesce({new}, {old})"),
            Merge::First => format!("{name} = coalesce({old}, {new})"),
            // Without an old value the concatenation is null, and without a new one, too.
            Merge::Append => format!("{name} = coalesce({old} || ',' || {new}, {new}, {old})"),
            Merge::Initial => format!("{name} = {old}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use waypost_core::projection::columns::{END, NODE};

    use super::*;

    #[test]
    fn statement_is_filled_from_columns() {
        let marks =
            [("columns", names(&END)), ("values", list(&END, |at, _| format!("?{}", at + 2)))];
        let sql = fill("t (id, {columns}) = (?1, {values})", &marks);
        assert_eq!(sql, "t (id, failure, output) = (?1, ?2, ?3)");
    }

    #[test]
    fn upsert_keeps_what_its_columns_say() {
        let merges = merges("node_rows", &NODE);
        for part in [
            "status = excluded.status,",
            "attempt = coalesce(excluded.attempt, node_rows.attempt),",
            "started_at = coalesce(node_rows.started_at, excluded.started_at),",
            "retries = coalesce(node_rows.retries || ',' || excluded.retries, excluded.retries, \
             node_rows.retries)",
        ] {
            assert!(merges.contains(part), "{merges}");
        }
    }
}
