//! The columns of the read tables, one line each. Both stores generate their statements, parameters
//! and readers from these lines; the field of a column defines its meaning.
//!
//! A store adds the columns that only it has, such as the hash of a name, and changes no value.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Created, End, ExecutionView, MapProgress, NodeChange};
use crate::json::Json;
use crate::status::{NodeStatus, Status};
use crate::time::Timestamp;

/// How the values of a column are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// A whole number: a count, a seq.
    Number,
    /// A time, in milliseconds.
    Time,
    /// The number of a status.
    Code,
    /// True or false.
    Flag,
    /// Text, which may be JSON.
    Text,
    /// The path of a node, which a store may replace by a number.
    Path,
}

/// How a change is merged into the existing value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// The new value replaces it, also where there is none.
    Replace,
    /// The new value replaces it, where there is one.
    Newest,
    /// The first value stays.
    First,
    /// Only the insert of the row writes it.
    Initial,
    /// The new value is appended, after a comma.
    Append,
}

/// A value on its way into a column or out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    Null,
    Number(i64),
    Flag(bool),
    Text(Cow<'a, str>),
}

/// A column of the rows that show a `T`.
#[derive(Debug)]
pub struct Column<T> {
    /// Its name in both stores.
    pub name: &'static str,
    /// How its values are stored.
    pub kind: ColumnKind,
    /// How changes are merged.
    pub merge: Merge,
    get: for<'a> fn(&'a T) -> Cell<'a>,
    /// Absent where no value is read back.
    set: Option<fn(&mut T, Cell<'_>) -> Option<()>>,
}

impl<T> Column<T> {
    /// The value of a row.
    pub fn get<'a>(&self, row: &'a T) -> Cell<'a> {
        (self.get)(row)
    }

    /// Does the log alone determine the value, however it was cut into batches?
    pub fn is_folded(&self) -> bool {
        self.merge != Merge::Initial
    }

    /// Reads a value back; false where the column cannot have it.
    pub fn set(&self, row: &mut T, cell: Cell<'_>) -> bool {
        self.set.is_some_and(|set| set(row, cell).is_some())
    }
}

impl Cell<'_> {
    /// The value, independent of its row.
    pub fn into_owned(self) -> Cell<'static> {
        match self {
            Self::Null => Cell::Null,
            Self::Number(number) => Cell::Number(number),
            Self::Flag(flag) => Cell::Flag(flag),
            Self::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
        }
    }
}

/// A type that a column can show.
trait Field: Sized {
    const KIND: ColumnKind;
    fn cell(&self) -> Cell<'_>;
    fn read(cell: Cell<'_>) -> Option<Self>;
}

/// A column for a field: stored and read back by its type.
macro_rules! column {
    ($field:ident: $type:ty) => {
        column!($field: $type, <$type as Field>::KIND)
    };
    ($field:ident: $type:ty, $kind:expr) => {
        Column {
            name: stringify!($field),
            kind: $kind,
            merge: Merge::Replace,
            get: |row| row.$field.cell(),
            set: Some(|row, cell| {
                row.$field = <$type as Field>::read(cell)?;
                Some(())
            }),
        }
    };
}

/// The part of an execution's row that changes over its life.
pub static VIEW: [Column<ExecutionView>; 16] = [
    column!(seq: u64),
    column!(status: Status),
    column!(generation: u32),
    column!(epoch: u32),
    column!(owner: Option<Arc<str>>),
    column!(deadline: Option<Timestamp>),
    column!(started_at: Option<Timestamp>),
    column!(completed_at: Option<Timestamp>),
    column!(updated_at: Timestamp),
    column!(resumed_at: Option<Timestamp>),
    column!(resumed_by: Option<Arc<str>>),
    column!(nodes_executed: u64),
    column!(current_node: Option<Arc<str>>, ColumnKind::Path),
    column!(progress: Option<MapProgress>),
    column!(waited: bool),
    column!(error: Option<Arc<str>>),
];

/// The part that is written once.
pub static CREATED: [Column<Created>; 7] = [
    written("key", ColumnKind::Text, |created| text(created.run.key.as_str())),
    written("created_at", ColumnKind::Time, |created| created.at.cell()),
    written("labels", ColumnKind::Text, |created| {
        let labels = &created.run.labels;
        if labels.is_empty() { Cell::Null } else { json(labels) }
    }),
    written("input", ColumnKind::Text, |created| text(created.run.input.text())),
    // Three that are NULL where no trigger started it; the last one is what expressions see as `trigger`.
    written("trigger_name", ColumnKind::Text, |created| {
        created.run.trigger.as_ref().map_or(Cell::Null, |fired| text(&fired.name))
    }),
    written("trigger_node", ColumnKind::Text, |created| {
        created.run.trigger.as_ref().map_or(Cell::Null, |fired| fired.node.cell())
    }),
    written("fired", ColumnKind::Text, |created| {
        created.run.trigger.as_ref().map_or(Cell::Null, |fired| json(&fired.to_json()))
    }),
];

/// The part that is written when the execution ends, or when a retry takes the end back.
pub static END: [Column<End>; 2] = [
    written("failure", ColumnKind::Text, |end| end.failure.as_ref().map_or(Cell::Null, json)),
    written("output", ColumnKind::Text, |end| output(end.output.as_ref())),
];

/// The row of a node.
pub static NODE: [Column<NodeChange>; 11] = [
    written("status", ColumnKind::Code, |node| {
        Cell::Number(node.status.unwrap_or(NodeStatus::Pending) as i64)
    }),
    merged("seq", Merge::Initial, ColumnKind::Number, |node| node.seq.cell()),
    // NULL stands for the start: most nodes start when they are scheduled.
    merged("created_at", Merge::Initial, ColumnKind::Time, |node| {
        time(node.created_at.filter(|_| node.created_at != node.started_at))
    }),
    written("updated_at", ColumnKind::Time, |node| node.updated_at.cell()),
    merged("deadline", Merge::Newest, ColumnKind::Time, |node| node.deadline.cell()),
    merged("attempt", Merge::Newest, ColumnKind::Number, |node| {
        node.attempt.map_or(Cell::Null, |attempt| Cell::Number(attempt.into()))
    }),
    merged("started_at", Merge::First, ColumnKind::Time, |node| node.started_at.cell()),
    merged("output", Merge::Newest, ColumnKind::Text, |node| output(node.output.as_ref())),
    merged("branch", Merge::Newest, ColumnKind::Text, |node| node.branch.cell()),
    merged("failure", Merge::Newest, ColumnKind::Text, |node| {
        node.failure.as_ref().map_or(Cell::Null, json)
    }),
    merged("retries", Merge::Append, ColumnKind::Text, |node| {
        let retries: Vec<String> = node.retries.iter().map(json_text).collect();
        if retries.is_empty() { Cell::Null } else { Cell::Text(retries.join(",").into()) }
    }),
];

/// A column that is never read back.
const fn written<T>(
    name: &'static str,
    kind: ColumnKind,
    get: for<'a> fn(&'a T) -> Cell<'a>,
) -> Column<T> {
    merged(name, Merge::Replace, kind, get)
}

const fn merged<T>(
    name: &'static str,
    merge: Merge,
    kind: ColumnKind,
    get: for<'a> fn(&'a T) -> Cell<'a>,
) -> Column<T> {
    Column { name, kind, merge, get, set: None }
}

fn text(text: &str) -> Cell<'_> {
    Cell::Text(Cow::Borrowed(text))
}

fn time(time: Option<Timestamp>) -> Cell<'static> {
    time.map_or(Cell::Null, |time| Cell::Number(time.0))
}

fn output(output: Option<&Json>) -> Cell<'_> {
    output.map_or(Cell::Null, |output| text(output.text()))
}

fn json<T: serde::Serialize>(value: &T) -> Cell<'static> {
    Cell::Text(json_text(value).into())
}

fn json_text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("these values always serialise: their keys are strings")
}

impl Field for u64 {
    const KIND: ColumnKind = ColumnKind::Number;

    /// Seqs and counts stay far below the largest number that a store can hold.
    fn cell(&self) -> Cell<'_> {
        Cell::Number(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        number(&cell)?.try_into().ok()
    }
}

impl Field for u32 {
    const KIND: ColumnKind = ColumnKind::Number;

    fn cell(&self) -> Cell<'_> {
        Cell::Number((*self).into())
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        number(&cell)?.try_into().ok()
    }
}

impl Field for bool {
    const KIND: ColumnKind = ColumnKind::Flag;

    fn cell(&self) -> Cell<'_> {
        Cell::Flag(*self)
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Flag(flag) => Some(flag),
            Cell::Null | Cell::Number(_) | Cell::Text(_) => None,
        }
    }
}

impl Field for Status {
    const KIND: ColumnKind = ColumnKind::Code;

    fn cell(&self) -> Cell<'_> {
        Cell::Number(*self as i64)
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        Self::ALL.get(usize::try_from(number(&cell)?).ok()?).copied()
    }
}

impl Field for Timestamp {
    const KIND: ColumnKind = ColumnKind::Time;

    fn cell(&self) -> Cell<'_> {
        Cell::Number(self.0)
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        number(&cell).map(Self)
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: ColumnKind = T::KIND;

    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, T::cell)
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            Cell::Number(_) | Cell::Flag(_) | Cell::Text(_) => T::read(cell).map(Some),
        }
    }
}

impl Field for MapProgress {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell<'_> {
        let json = serde_json::to_string(self).expect("names and numbers always serialise");
        Cell::Text(Cow::Owned(json))
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Text(text) => serde_json::from_str(&text).ok(),
            Cell::Null | Cell::Number(_) | Cell::Flag(_) => None,
        }
    }
}

impl Field for Arc<str> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell<'_> {
        text(self)
    }

    fn read(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text.into()),
            Cell::Null | Cell::Number(_) | Cell::Flag(_) => None,
        }
    }
}

fn number(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Number(number) => Some(*number),
        Cell::Null | Cell::Flag(_) | Cell::Text(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_read_back_from_its_columns_is_the_same() {
        let view = ExecutionView {
            seq: 1,
            status: Status::Waiting,
            generation: 2,
            epoch: 3,
            owner: Some("i".into()),
            deadline: Some(Timestamp(9)),
            started_at: Some(Timestamp(4)),
            completed_at: Some(Timestamp(5)),
            updated_at: Timestamp(6),
            resumed_at: Some(Timestamp(7)),
            resumed_by: Some("ada".into()),
            nodes_executed: 8,
            current_node: Some("a".into()),
            progress: Some(MapProgress { node: "a".into(), count: 9, begun: 4, failed: 1 }),
            error: Some("no".into()),
            waited: true,
        };
        for view in [view, ExecutionView::default()] {
            let mut read = ExecutionView::default();
            for column in &VIEW {
                assert!(column.set(&mut read, column.get(&view)), "{}", column.name);
            }
            assert_eq!(read, view, "each field has a column");
        }
    }

    #[test]
    fn column_of_another_kind_refuses_a_value() {
        for column in &VIEW {
            let wrong = match column.kind {
                ColumnKind::Text | ColumnKind::Path => Cell::Number(1),
                ColumnKind::Number | ColumnKind::Time | ColumnKind::Code | ColumnKind::Flag => {
                    text("x")
                }
            };
            assert!(!column.set(&mut ExecutionView::default(), wrong), "{}", column.name);
        }
        assert!(!END[0].set(&mut End::default(), Cell::Null), "it is never read back");
    }
}
