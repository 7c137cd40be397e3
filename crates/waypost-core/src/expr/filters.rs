//! The filters and the functions of expressions: those in [`FILTERS`] and [`FUNCTIONS`], and no others.
//! `now()` and `random()` do not exist: equal states must always have equal results. Lists are of a time,
//! and so the conditions of lists have `ago()`.

mod list;
mod number;
mod pick;
pub(super) mod text;

use std::cmp::Ordering;
use std::sync::Arc;

use super::ExpressionFault;
use super::ast::{Arguments, ExprNode};
use super::budget::{Budget, Stop};
use super::checks;
use super::number::as_int;
use super::operators;
use super::parser::unknown;
use super::value::Value;
use super::write;

pub(super) struct Filter {
    pub(super) names: &'static [&'static str],
    /// Its arguments in the order in which they may be given without a name; `*` is any number of
    /// them, with any names.
    parameters: &'static [&'static str],
    pub(super) run: fn(&Value, &Bound, &Budget) -> Result<Value, Stop>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({:?})", self.names)
    }
}

macro_rules! filters {
    ($($names:expr, $parameters:expr, $run:expr;)*) => {
        pub(super) const FILTERS: &[Filter] = &[$(Filter {
            names: &$names,
            parameters: &$parameters,
            run: $run,
        }),*];
    };
}

filters! {
    ["capitalize"], [], text::capitalize;
    ["lower"], [], |value, _, budget| text::rewritten(value, budget, str::to_lowercase);
    ["upper"], [], |value, _, budget| text::rewritten(value, budget, str::to_uppercase);
    ["title"], [], text::title;
    ["trim"], ["chars"], text::trim;
    ["replace"], ["from", "to"], text::replace;
    ["split"], ["separator", "maxsplits"], text::split;
    ["lines"], [], text::lines;
    ["string"], [], |value, _, budget| Ok(Value::Text(text_of(value, budget)?));
    ["tojson"], ["indent"], text::tojson;
    ["join"], ["d", "attribute"], text::join;
    ["abs"], [], number::abs;
    ["int"], ["default", "base"], number::int;
    ["float"], ["default"], number::float;
    ["round"], ["precision", "method"], number::round;
    ["first"], [], list::first;
    ["last"], [], list::last;
    ["length", "count"], [], list::length;
    ["list"], [], list::list;
    ["reverse"], [], list::reverse;
    ["sort"], ["reverse", "case_sensitive", "attribute"], list::sort;
    ["unique"], ["case_sensitive", "attribute"], list::unique;
    ["min"], ["case_sensitive", "attribute"],
        |value, bound, budget| list::extreme(value, bound, budget, Ordering::is_lt);
    ["max"], ["case_sensitive", "attribute"],
        |value, bound, budget| list::extreme(value, bound, budget, Ordering::is_ge);
    ["sum"], ["attribute", "start"], list::sum;
    ["batch"], ["count", "fill_with"], list::batch;
    ["slice"], ["count", "fill_with"], list::slice;
    ["chain"], ["*"], list::chain;
    ["zip"], ["*"], list::zip;
    ["map"], ["*"], pick::map;
    ["select"], ["*"], |value, bound, budget| pick::select(value, bound, budget, false, true);
    ["reject"], ["*"], |value, bound, budget| pick::select(value, bound, budget, false, false);
    ["selectattr"], ["*"], |value, bound, budget| pick::select(value, bound, budget, true, true);
    ["rejectattr"], ["*"], |value, bound, budget| pick::select(value, bound, budget, true, false);
    ["groupby"], ["attribute", "default", "case_sensitive"], pick::groupby;
    ["items"], [], pick::items;
    ["dictsort"], ["case_sensitive", "by", "reverse"], pick::dictsort;
    ["default", "d"], ["default", "boolean"], pick::default;
    ["bool"], [], |value, _, _| Ok(Value::Bool(value.truth()?));
    ["ref"], [], pick::reference;
}

const FUNCTIONS: &[Filter] =
    &[Filter { names: &["range"], parameters: &["lower", "upper", "step"], run: list::range }, AGO];

/// The value to its left is the time that it counts back from, in milliseconds.
const AGO: Filter = Filter { names: &["ago"], parameters: &["span"], run: text::ago };

pub(super) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.names.contains(&name))
}

/// Is there a function of this name, `ago` included?
pub fn is_function(name: &str) -> bool {
    find_function(name, true).is_some()
}

/// A function; `ago` only where there is a time.
pub(super) fn find_function(name: &str, timed: bool) -> Option<&'static Filter> {
    let mut functions = FUNCTIONS.iter().filter(|function| timed || function.names != AGO.names);
    functions.find(|function| function.names.contains(&name))
}

/// Finds mistyped names of filters and tests in the arguments of `map`, `select` and their siblings,
/// where they are written out.
pub(super) fn check_names(filter: &Filter, arguments: &Arguments) -> Result<(), ExpressionFault> {
    let (position, what) = match filter.names {
        ["map"] => (0, "filter"),
        ["select" | "reject"] => (0, "test"),
        ["selectattr" | "rejectattr"] => (1, "test"),
        _ => return Ok(()),
    };
    let Some(ExprNode::Const(Value::Text(name))) = arguments.positional.get(position) else {
        return Ok(());
    };
    let is_known =
        if what == "filter" { find(name).is_some() } else { checks::find(name).is_some() };
    if is_known {
        return Ok(());
    }
    let place = arguments.places.get(position).cloned().unwrap_or_default();
    Err(unknown(what, name, place))
}

/// The arguments of a filter, each at the place of its parameter.
pub(super) struct Bound {
    name: &'static str,
    parameters: &'static [&'static str],
    values: Vec<Option<Value>>,
    count: usize,
    takes_any: bool,
    /// Those of a filter that takes any.
    pub(super) any: Vec<Value>,
    pub(super) named: Vec<(Box<str>, Value)>,
}

impl Bound {
    pub(super) fn new(filter: &Filter) -> Self {
        Self {
            name: filter.names.first().copied().unwrap_or_default(),
            parameters: filter.parameters,
            values: vec![None; filter.parameters.len()],
            count: 0,
            takes_any: filter.parameters == ["*"],
            any: Vec::new(),
            named: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, value: Value) -> Result<(), Stop> {
        if self.takes_any {
            self.any.push(value);
            return Ok(());
        }
        let Some(place) = self.values.get_mut(self.count) else {
            return Err(Stop::failed(format!("{}() has too many arguments", self.name)));
        };
        *place = Some(value);
        self.count += 1;
        Ok(())
    }

    pub(super) fn name(&mut self, name: &str, value: Value) -> Result<(), Stop> {
        if self.takes_any {
            self.named.push((name.into(), value));
            return Ok(());
        }
        let at = self.parameters.iter().position(|known| *known == name);
        let Some(place) = at.and_then(|at| self.values.get_mut(at)) else {
            return Err(Stop::failed(format!("{}() has no argument `{name}`", self.name)));
        };
        *place = Some(value);
        Ok(())
    }

    /// An argument as it was given.
    fn value(&self, at: usize) -> Option<&Value> {
        self.values.get(at).and_then(Option::as_ref)
    }

    /// An argument; `none` counts as left out.
    fn given(&self, at: usize) -> Option<&Value> {
        self.value(at).filter(|value| !matches!(value, Value::None))
    }

    fn wrong(&self, at: usize, wanted: &str, found: &Value) -> Stop {
        let parameter = self.parameters.get(at).copied().unwrap_or_default();
        let kind = found.kind();
        Stop::failed(format!("`{parameter}` of {}() must be {wanted}, not {kind}", self.name))
    }

    /// Refuses arguments with a name, for a filter that takes any without one.
    fn no_names(&self) -> Result<(), Stop> {
        match self.named.first() {
            Some((name, _)) => Err(Stop::failed(format!("there is no argument `{name}`"))),
            None => Ok(()),
        }
    }

    fn text(&self, at: usize) -> Result<Option<Arc<str>>, Stop> {
        match self.given(at) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(Arc::clone(text))),
            Some(other) => Err(self.wrong(at, "a text", other)),
        }
    }

    fn flag(&self, at: usize) -> Result<bool, Stop> {
        match self.given(at) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.wrong(at, "true or false", other)),
        }
    }

    fn int(&self, at: usize) -> Result<Option<i128>, Stop> {
        let Some(value) = self.given(at) else { return Ok(None) };
        as_int(value)?.map(Some).ok_or_else(|| self.wrong(at, "an integer", value))
    }

    /// A count, at least one. All counts beyond the length of any list are equivalent.
    fn count(&self, at: usize) -> Result<usize, Stop> {
        match self.int(at)? {
            Some(count @ 1..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
            Some(_) => Err(Stop::failed(format!("the count of {}() must be positive", self.name))),
            None => Err(Stop::failed(format!("{}() needs a count", self.name))),
        }
    }
}

/// A value as text, as it would be part of another.
pub(super) fn text_of(value: &Value, budget: &Budget) -> Result<Arc<str>, Stop> {
    if let Value::Text(text) = value.defined()? {
        return Ok(Arc::clone(text));
    }
    let mut text = String::new();
    write::display(value, &mut text, budget)?;
    Ok(text.into())
}

/// The value at `customer.orders.0.id`.
fn path(value: &Value, path: &str, budget: &Budget) -> Result<Value, Stop> {
    let mut found = value.clone();
    for part in path.split('.') {
        budget.scan(part.len())?;
        found = match part.parse::<u32>() {
            Ok(index) => operators::item(&found, &Value::Int(index.into()), budget)?,
            Err(_) => operators::attribute(&found, part, budget)?,
        };
    }
    Ok(found)
}

/// As `path`, with undefined for a missing step.
fn path_if_any(value: &Value, wanted: Option<&str>, budget: &Budget) -> Result<Value, Stop> {
    let Some(wanted) = wanted else { return Ok(value.clone()) };
    match path(value, wanted, budget) {
        Err(Stop::Failed(_)) => Ok(Value::Undefined),
        found => found,
    }
}
