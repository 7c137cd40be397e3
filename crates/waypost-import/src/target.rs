//! A small model of a Waypost definition, which is written as YAML for people.

mod yaml;

use serde_json::{Map, Value, json};

/// A definition to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetDefinition {
    pub(crate) name: String,
    /// Lines for the head of the file.
    pub(crate) notes: Vec<String>,
    /// SourceFields of the definition other than its name and its nodes, in this order.
    pub(crate) fields: Vec<(&'static str, Value)>,
    pub(crate) nodes: Vec<TargetNode>,
}

/// A node to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetNode {
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    /// Comments above the node.
    pub(crate) notes: Vec<String>,
    pub(crate) label: Option<String>,
    pub(crate) needs: Vec<NeedEdge>,
    pub(crate) join: Option<Value>,
    /// `retry`, `timeout`, `onError` and the like, in this order.
    pub(crate) fields: Vec<(&'static str, Value)>,
    pub(crate) config: Map<String, Value>,
    pub(crate) variables: Map<String, Value>,
    pub(crate) nodes: Vec<Self>,
}

/// A dependency on a node, or on one of its branches.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NeedEdge {
    pub(crate) node: String,
    pub(crate) branch: Option<String>,
}

impl NeedEdge {
    pub(crate) fn to(node: &str) -> Self {
        Self { node: node.to_owned(), branch: None }
    }

    pub(crate) fn on(node: &str, branch: &str) -> Self {
        Self { node: node.to_owned(), branch: Some(branch.to_owned()) }
    }
}

impl TargetNode {
    pub(crate) fn new(id: &str, kind: &'static str) -> Self {
        Self { id: id.to_owned(), kind, ..Self::default() }
    }

    /// A node that stands where something could not be converted.
    pub(crate) fn placeholder(id: &str, what: &str) -> Self {
        let message = crate::expr::literal_text(&format!("not converted: {what}"));
        let mut node = Self::new(id, "fail").with("kind", json!("not_converted"));
        node.notes.push(format!("NOT CONVERTED: {what}"));
        node.with("message", message)
    }

    /// Adds a field to the config.
    #[must_use]
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.config.insert(field.to_owned(), value.into());
        self
    }

    /// Sets a field of the node, which is replaced if it is there already.
    pub(crate) fn set(&mut self, field: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.fields.iter_mut().find(|(name, _)| *name == field) {
            Some((_, old)) => *old = value,
            None => self.fields.push((field, value)),
        }
    }

    #[must_use]
    pub(crate) fn variable(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub(crate) fn needing(mut self, needs: Vec<NeedEdge>) -> Self {
        self.need(needs);
        self
    }

    /// Sets what the node comes after: one of several exclusive ways.
    pub(crate) fn need(&mut self, mut needs: Vec<NeedEdge>) {
        needs.sort();
        needs.dedup();
        let mut sources: Vec<&str> = needs.iter().map(|edge| edge.node.as_str()).collect();
        sources.dedup();
        self.join = (sources.len() > 1).then(|| json!("any"));
        self.needs = needs;
    }
}

impl TargetDefinition {
    /// Lets all nodes that set variables set them in any order: only one of several ways is taken.
    pub(crate) fn merge_last(&mut self) {
        fn visit(nodes: &mut [TargetNode]) {
            for node in nodes {
                if !node.variables.is_empty() {
                    node.set("merge", "last");
                }
                visit(&mut node.nodes);
            }
        }
        visit(&mut self.nodes);
    }

    /// Is there such a field already?
    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| *name == field)
    }

    pub(crate) fn to_yaml(&self) -> String {
        yaml::write(self)
    }
}
