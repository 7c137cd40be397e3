//! The values that expressions compute with.
//!
//! Nothing in them is lazy: the cost of a value was paid when it was built. Lists and maps have
//! their nesting depth, so that walking and dropping them needs a bounded stack.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::budget::{Budget, Stop, VALUE_DEPTH_MAX};
use crate::blob::BlobRef;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Undefined,
    None,
    Bool(bool),
    /// An integer of 64 bits, signed or not.
    Int(i128),
    Float(f64),
    /// A number as it was written, and its value for computing: NaN if it does not fit.
    Spelled(Arc<str>, f64),
    Text(Arc<str>),
    /// Stands for a content that was not looked into.
    Blob(Arc<BlobRef>),
    List(Arc<List>),
    Map(Arc<Map>),
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    depth: u16,
    /// Names under which the items can be had, too: those of `groupby`.
    pub(super) names: &'static [&'static str],
}

/// Sorted by key, each key once.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) entries: Vec<(Key, Value)>,
    depth: u16,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    Bool(bool),
    Int(i128),
    Text(Arc<str>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// The value's type, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::None => "none",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Float(_) | Self::Spelled(..) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "sequence",
            Self::Map(_) => "map",
            Self::Blob(_) => "blob",
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_) | Self::Spelled(..))
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// Is it written without a fraction and an exponent?
    pub(super) fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Spelled(text, _) => !text.contains(['.', 'e', 'E']),
            _ => false,
        }
    }

    /// The value itself, unless it is undefined.
    pub(super) fn defined(&self) -> Result<&Self, Stop> {
        if self.is_undefined() { Err(Stop::undefined()) } else { Ok(self) }
    }

    /// Its truth value for `and`, `or`, `not` and `if`.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) | Self::Spelled(_, value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.entries.is_empty(),
            Self::Blob(_) => true,
        }
    }

    pub(super) fn truth(&self) -> Result<bool, Stop> {
        Ok(self.defined()?.is_true())
    }

    fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.depth,
            Self::Map(map) => map.depth,
            _ => 0,
        }
    }

    /// Builds a list whose items were paid for.
    pub(super) fn list(items: Vec<Self>, budget: &Budget) -> Result<Self, Stop> {
        Self::named_list(items, &[], budget)
    }

    pub(super) fn named_list(
        items: Vec<Self>,
        names: &'static [&'static str],
        budget: &Budget,
    ) -> Result<Self, Stop> {
        budget.bytes(64)?;
        budget.work(6 + items.len() / 4)?;
        let depth = deeper(items.iter())?;
        Ok(Self::List(Arc::new(List { items, depth, names })))
    }

    /// Builds a map of entries that were paid for; of several with one key the last one counts.
    pub(super) fn map(mut entries: Vec<(Key, Self)>, budget: &Budget) -> Result<Self, Stop> {
        budget.bytes(64)?;
        budget.work(2)?;
        let rises = |pair: &[(Key, Self)]| matches!(pair, [(a, _), (b, _)] if a < b);
        let keys: usize = entries.iter().map(|(key, _)| key.bytes()).sum();
        budget.scan(keys)?;
        if !entries.windows(2).all(rises) {
            let rounds = entries.len().ilog2() as usize + 1;
            budget.work(entries.len().saturating_mul(rounds) * 2)?;
            budget.scan(keys.saturating_mul(rounds))?;
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.reverse();
            entries.dedup_by(|(later, _), (earlier, _)| later == earlier);
            entries.reverse();
        }
        let depth = deeper(entries.iter().map(|(_, value)| value))?;
        Ok(Self::Map(Arc::new(Map { entries, depth })))
    }
}

fn deeper<'a>(parts: impl Iterator<Item = &'a Value>) -> Result<u16, Stop> {
    let depth = parts.map(Value::depth).max().unwrap_or(0) + 1;
    if depth > VALUE_DEPTH_MAX {
        let message = format!("gave lists and maps more than {VALUE_DEPTH_MAX} levels deep");
        return Err(Stop::Limit(message));
    }
    Ok(depth)
}

impl Map {
    pub(super) fn get(&self, key: &Key, budget: &Budget) -> Result<Option<&Value>, Stop> {
        budget.work(self.entries.len().checked_ilog2().unwrap_or(0) as usize + 1)?;
        budget.scan(key.bytes())?;
        let found = self.entries.binary_search_by(|(other, _)| other.cmp(key)).ok();
        Ok(found.and_then(|at| self.entries.get(at)).map(|(_, value)| value))
    }

    pub(super) fn get_text(&self, name: &str, budget: &Budget) -> Result<Option<&Value>, Stop> {
        budget.work(self.entries.len().checked_ilog2().unwrap_or(0) as usize + 1)?;
        budget.scan(name.len())?;
        let find = |(key, _): &(Key, Value)| match key {
            Key::Text(text) => (**text).cmp(name),
            Key::Bool(_) | Key::Int(_) => Ordering::Less,
        };
        let found = self.entries.binary_search_by(find).ok();
        Ok(found.and_then(|at| self.entries.get(at)).map(|(_, value)| value))
    }
}

impl Key {
    /// The key that a value is, where it can be one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Text(text) => Some(Self::Text(Arc::clone(text))),
            Value::Float(number) | Value::Spelled(_, number) => {
                super::number::whole(*number).map(Self::Int)
            }
            Value::Undefined | Value::None | Value::List(_) | Value::Map(_) | Value::Blob(_) => {
                None
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Text(text) => Value::Text(Arc::clone(text)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bool(_) | Self::Int(_) => 16,
            Self::Text(text) => text.len(),
        }
    }
}

/// A list that is being built, each item paid for before it is added.
pub(super) struct Items<'b> {
    items: Vec<Value>,
    budget: &'b Budget,
}

impl<'b> Items<'b> {
    pub(super) fn new(budget: &'b Budget) -> Self {
        Self { items: Vec::new(), budget }
    }

    /// A list of all of these.
    pub(super) fn all(
        items: impl IntoIterator<Item = Result<Value, Stop>>,
        budget: &'b Budget,
    ) -> Result<Self, Stop> {
        let mut all = Self::new(budget);
        for item in items {
            all.push(item?)?;
        }
        Ok(all)
    }

    pub(super) fn push(&mut self, item: Value) -> Result<(), Stop> {
        self.budget.item()?;
        self.items.push(item);
        Ok(())
    }

    /// Adds a text as an item of its own.
    pub(super) fn push_text(&mut self, text: &str) -> Result<(), Stop> {
        self.budget.text("a text", text.len())?;
        self.budget.work(4)?;
        self.push(Value::text(text))
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn finish(self) -> Result<Value, Stop> {
        Value::list(self.items, self.budget)
    }

    pub(super) fn into_vec(self) -> Vec<Value> {
        self.items
    }
}

/// The items of whatever can be iterated: lists, the keys of maps, the characters of texts; `none`
/// has no items. Those of a list are not copied.
pub(super) fn items_of<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, [Value]>, Stop> {
    let mut items = Items::new(budget);
    match value.defined()? {
        Value::None => {}
        Value::List(list) => {
            budget.work(list.items.len())?;
            return Ok(Cow::Borrowed(&list.items));
        }
        Value::Map(map) => {
            items = Items::all(map.entries.iter().map(|(key, _)| Ok(key.to_value())), budget)?;
        }
        Value::Text(text) => {
            for part in text.chars() {
                items.push_text(part.encode_utf8(&mut [0; 4]))?;
            }
        }
        other => return Err(Stop::failed(format!("{} is not iterable", other.kind()))),
    }
    Ok(Cow::Owned(items.into_vec()))
}

/// The item at a place, else undefined.
pub(super) fn at(items: &[Value], place: usize) -> &Value {
    items.get(place).unwrap_or(&Value::Undefined)
}

/// As `items_of`, as a list of its own.
pub(super) fn copied_items(value: &Value, budget: &Budget) -> Result<Vec<Value>, Stop> {
    let items = items_of(value, budget)?;
    if matches!(items, Cow::Borrowed(_)) {
        budget.copies(items.len())?;
    }
    Ok(items.into_owned())
}
