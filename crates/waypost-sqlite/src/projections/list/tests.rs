//! The cost of a page: the indexes that it uses, and the rows that it tests before it stops.

use std::collections::BTreeMap;

use super::*;
use crate::queries::plan;

const RED_EVERY: i64 = 10;

/// So many executions, some of them labelled red, each with an input of so many bytes.
fn file(executions: i64, input_bytes: usize) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(queries::SCHEMA).unwrap();
    connection
        .execute_batch(
            "INSERT INTO workflows VALUES (1, 'w');
             INSERT INTO definitions VALUES (1, x'00', 1, 1);",
        )
        .unwrap();
    let mut insert = connection
        .prepare(
            "INSERT INTO execution_rows (execution, seq, key, definition, workflow, status,
                 generation, epoch, created_at, updated_at, nodes_executed, waited, labels, input)
             VALUES (?1, 1, 'key-' || ?1, 1, 1, ?2, 1, 1, ?1, ?1, 0, 0, ?3, ?4)",
        )
        .unwrap();
    let input = format!("\"{}\"", "x".repeat(input_bytes - 2));
    for execution in 1..=executions {
        let red = (execution % RED_EVERY == 0).then_some(r#"{"colour":"red"}"#);
        let status = execution % Status::ALL.len() as i64;
        insert.execute(params![execution, status, red, input]).unwrap();
    }
    drop(insert);
    connection
}

fn red() -> ListRequest {
    let labels = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
    ListRequest { labels, limit: 100, ..ListRequest::default() }
}

/// The numbers of all rows, and how many pages it took.
fn all_pages(
    connection: &Connection,
    request: &ListRequest,
    budget: PageBudget,
) -> (Vec<i64>, usize) {
    let (mut numbers, mut pages, mut request) = (Vec::new(), 0, request.clone());
    loop {
        let (rows, next) = rows(connection, &request, budget).unwrap();
        numbers.extend(rows.iter().map(|row| row.execution.0));
        pages += 1;
        match next {
            Some(_) => request.before = next,
            None => return (numbers, pages),
        }
    }
}

#[test]
fn list_with_a_rare_match_ends_its_page_early_and_continues() {
    let connection = file(100, 10);
    let expected: Vec<i64> = (1..=10).rev().map(|number| number * RED_EVERY).collect();
    for rows in [1, 2, 3, 7, 10, 99, 100] {
        let budget = PageBudget { rows, ..PageBudget::PAGE };
        let (numbers, pages) = all_pages(&connection, &red(), budget);
        assert_eq!((numbers, pages), (expected.clone(), 100_usize.div_ceil(rows)), "{rows} rows");
    }
    let three = ListRequest { limit: 3, ..red() };
    assert_eq!(all_pages(&connection, &three, PageBudget::PAGE), (expected, 4));
    let nothing = ListRequest { text: Some("blue".to_owned()), ..red() };
    let budget = PageBudget { rows: 30, ..PageBudget::PAGE };
    assert_eq!(all_pages(&connection, &nothing, budget), (Vec::new(), 4));
}

#[test]
fn large_inputs_end_a_page_early() {
    let connection = file(20, 1_000);
    let text = ListRequest { text: Some("key-1".to_owned()), ..red() };
    let text = ListRequest { labels: BTreeMap::new(), ..text };
    let budget = PageBudget { bytes: 5_000, ..PageBudget::PAGE };
    let (numbers, pages) = all_pages(&connection, &text, budget);
    assert_eq!((numbers.len(), pages), (11, 4), "five rows a page");
    let (_, pages) = all_pages(&connection, &red(), budget);
    assert_eq!(pages, 1, "labels alone do not look at inputs");
}

#[test]
fn list_without_filter_reads_full_pages() {
    let connection = file(50, 10);
    let none_left = PageBudget { rows: 0, ..PageBudget::PAGE };
    let request =
        ListRequest { limit: 100, statuses: Status::ALL.to_vec(), ..ListRequest::default() };
    let (numbers, pages) = all_pages(&connection, &request, none_left);
    assert_eq!((numbers, pages), ((1..=50).rev().collect(), 1));
}

#[test]
fn pages_walk_along_indexes() {
    let connection = file(1, 10);
    let covering = |index: &str, by: &str| {
        vec![format!("SEARCH execution_rows USING COVERING INDEX execution_rows_by_{index} ({by})")]
    };
    for (sql, expected) in [
        (
            queries::LIST,
            vec!["SEARCH execution_rows USING INTEGER PRIMARY KEY (rowid<?)".to_owned()],
        ),
        (queries::LIST_BY_STATUS, covering("status", "status=? AND execution<?")),
        (queries::LIST_BY_WORKFLOW, covering("workflow", "workflow=? AND execution<?")),
        (
            queries::LIST_BY_WORKFLOW_STATUS,
            covering("workflow_status", "workflow=? AND status=? AND execution<?"),
        ),
    ] {
        assert_eq!(plan(&connection, sql), expected);
    }
    for sql in [queries::LISTED_LOOK, &queries::LISTED_ROW] {
        let steps = plan(&connection, sql);
        assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{steps:?}");
    }
}
