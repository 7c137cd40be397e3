//! Containers: nodes with a body.

use super::{Kind, Node, Operation, Signal, Test, Value};

/// How a loop runs its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    pub body: Vec<Node>,
    pub ends: Ends,
    /// It fails instead of beginning one more iteration than this.
    pub max: u64,
    /// How long it waits between two iterations.
    pub delay_ms: u64,
    /// Is its output a list of those of all iterations, or that of the last?
    pub all: bool,
}

/// When a loop ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// After an iteration after which this holds.
    Until(Test),
    /// Before an iteration before which this does not hold.
    While(Test),
}

/// How a map runs its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Each {
    pub items: ItemSource,
    pub body: Vec<Node>,
    /// How many items are open at once, at most.
    pub width: u64,
    pub tolerated: Tolerated,
    /// Does it stop once more items have failed than are tolerated?
    pub stops: bool,
    /// Does its output have those of the items?
    pub collects: bool,
}

/// The items of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ItemSource {
    /// These.
    List(Vec<Value>),
    /// Those of a value: a list, or a number for the numbers below it. Anything else fails the map.
    Of(Value),
}

/// How many items may fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tolerated {
    Count(u64),
    /// So many in a hundred, rounded down.
    Percent(u64),
}

impl Tolerated {
    /// How many of so many items.
    pub fn of(self, count: u64) -> u64 {
        match self {
            Self::Count(most) => most,
            Self::Percent(percent) => count * percent / 100,
        }
    }
}

/// No map of a program has more items.
pub const ITEMS_MAX: u64 = 12;

impl ItemSource {
    /// The values that they are made of.
    pub fn values(&self) -> &[Value] {
        match self {
            Self::List(values) => values,
            Self::Of(value) => std::slice::from_ref(value),
        }
    }

    pub(super) fn values_mut(&mut self) -> &mut [Value] {
        match self {
            Self::List(values) => values,
            Self::Of(value) => std::slice::from_mut(value),
        }
    }

    /// The highest number of them.
    fn most(&self) -> u64 {
        match self {
            Self::List(values) => u64::try_from(values.len()).unwrap_or(u64::MAX),
            Self::Of(Value::Constant(count)) => *count,
            Self::Of(_) => ITEMS_MAX,
        }
    }
}

impl Each {
    /// What a simpler map has less of.
    pub(super) fn weight(&self) -> usize {
        let items = match &self.items {
            ItemSource::List(values) => values.len(),
            ItemSource::Of(Value::Constant(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
            ItemSource::Of(_) => 20,
        };
        let options =
            [self.width > 1, self.tolerated != Tolerated::Count(0), self.stops, !self.collects];
        items + options.into_iter().filter(|option| *option).count()
    }
}

impl Node {
    /// The nodes of its body, if it is a container.
    pub fn body(&self) -> Option<&[Self]> {
        match &self.kind {
            Kind::Group(body)
            | Kind::Loop(Loop { body, .. })
            | Kind::Map(Each { body, .. })
            | Kind::Operation(Operation { body, .. }) => Some(body),
            _ => None,
        }
    }

    /// The signals that it waits for.
    pub(super) fn signals(&self) -> Vec<Signal> {
        match &self.kind {
            Kind::Wait { signal, .. } => vec![*signal],
            Kind::Signals(signals) => signals.wanted.clone(),
            _ => Vec::new(),
        }
    }

    /// The signals that it and its body wait for, in all scopes that may be opened.
    pub(super) fn signals_max(&self) -> Vec<Signal> {
        let scopes = match &self.kind {
            Kind::Loop(spec) => spec.max,
            Kind::Map(each) => each.items.most(),
            _ => self.tries_max().into(),
        };
        let body = self.body().unwrap_or_default();
        let inside: Vec<Signal> = body.iter().flat_map(Self::signals_max).collect();
        let scopes = usize::try_from(scopes).unwrap_or(usize::MAX);
        self.signals().into_iter().chain(inside.repeat(scopes)).collect()
    }

    pub(super) fn each_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        for node in self.kind.body_mut().into_iter().flatten() {
            node.each_mut(change);
        }
    }

    /// May what happens in one of its scopes end another one?
    pub fn is_stoppable(&self) -> bool {
        matches!(self.kind, Kind::Map(Each { stops: true, .. }))
    }

    /// How long its body can take, over all scopes; `None`: without limit.
    pub(super) fn body_span_ms_max(&self, tries: u64, waits: u64) -> Option<u64> {
        let body = span_of(self.body()?)?;
        Some(match &self.kind {
            Kind::Loop(Loop { max, delay_ms, .. }) => (body + delay_ms) * max + GRACE_MS,
            Kind::Operation(operation) => {
                return operation.span_ms_max(body + GRACE_MS, tries, waits);
            }
            // Each of its items may end as failed.
            Kind::Map(Each { items, .. }) => (body + GRACE_MS) * items.most(),
            _ => (body + GRACE_MS) * tries + waits,
        })
    }
}

/// How long the attempts of a body that ends are awaited.
pub(super) const GRACE_MS: u64 = 10_000;

/// How long nodes can take one after the other; `None`: without limit.
pub fn span_of(nodes: &[Node]) -> Option<u64> {
    nodes.iter().map(Node::span_ms_max).sum()
}
