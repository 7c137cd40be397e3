//! The definition language of Waypost: YAML or JSON in, a plan and its canonical form out, or all
//! its faults, each with its position.
//!
//! ```text
//!   bytes ─▶ source ─▶ tree ─▶ definition ─▶ check ─▶ canonical ─▶ hash
//!            UTF-8,    values   typed fields, edges,      │
//!            size      with     configs by    cycles,     └──────▶ Plan (waypost-core)
//!                      spans    kind          references
//! ```
//!
//! | to change | go to |
//! | --- | --- |
//! | what a field of the language means | `definition` |
//! | how YAML or JSON is read | `tree` |
//! | rules about the graph, references, variables | `check` |
//! | the format of faults | `diagnostics` |
//! | the schema for editors | `schema` |
//! | how definitions of other engines are read, with positions | `document` |
//!
//! Node kinds are not part of this crate: they come in as a [`Catalog`]. Everything is a pure
//! function of its arguments, bounded in time and memory whatever the bytes.

mod canonical;
mod check;
mod definition;
mod diagnostics;
mod document;
mod fields;
mod input;
mod schema;
mod source;
mod suggest;
mod tree;

use std::collections::BTreeMap;

use waypost_core::id::{DefinitionHash, NodeIx};
use waypost_core::json::Json;
use waypost_core::kind::Catalog;
use waypost_core::plan::{Concurrency, Plan, PlanDraft, PlanNode};
use waypost_core::trigger::{StreamSource, Trigger};

use crate::check::Graph;
use crate::definition::{ParsedDefinition, ReadContext};
use crate::diagnostics::Faults;
use crate::source::Source;

pub use crate::diagnostics::{Code, Diagnostics, FAULTS_MAX, Fault, RENDERED_MAX, Severity};
pub use crate::document::Document;
pub use crate::input::{BadInputSchema, InputFault, InputSchema, InputSchemas};
pub use crate::schema::schema;
pub use crate::source::Span;
pub use crate::tree::{Style, Tree, TreeEntry, TreeValue};

/// A definition without errors.
#[derive(Debug)]
pub struct Compiled {
    pub name: String,
    pub description: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// The one spelling that is stored.
    pub canonical: String,
    /// Its digest: the identity of the definition.
    pub hash: DefinitionHash,
    pub plan: Plan,
    /// Constructs that are probably mistakes.
    pub warnings: Diagnostics,
}

/// What is wrong with the source of a stream trigger, by the settings of the process that deploys it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFault {
    pub severity: Severity,
    pub message: String,
    pub hint: String,
}

/// Judges the source of a stream trigger of a workflow.
pub type SourceCheck<'a> = dyn Fn(&str, &StreamSource) -> Option<SourceFault> + 'a;

/// Reads a definition, YAML or JSON.
pub fn parse(source: &[u8], catalog: &Catalog<'_>) -> Result<Compiled, Diagnostics> {
    parse_for(source, catalog, &|_, _| None)
}

/// Reads a definition where the sources of its stream triggers can be judged.
pub fn parse_for(
    source: &[u8],
    catalog: &Catalog<'_>,
    sources: &SourceCheck<'_>,
) -> Result<Compiled, Diagnostics> {
    compile(source, catalog, None, sources)
}

/// Rebuilds the plan of a stored definition from its canonical form.
///
/// The hash is that of the bytes: it does not change after the deployment, even if a newer version
/// of this crate would spell the definition differently.
pub fn compile_canonical(canonical: &[u8], catalog: &Catalog<'_>) -> Result<Plan, Diagnostics> {
    let hash = DefinitionHash::of(canonical);
    compile(canonical, catalog, Some(hash), &|_, _| None).map(|compiled| compiled.plan)
}

/// Without a hash, that of the canonical form is computed.
fn compile(
    bytes: &[u8],
    catalog: &Catalog<'_>,
    hash: Option<DefinitionHash>,
    sources: &SourceCheck<'_>,
) -> Result<Compiled, Diagnostics> {
    let source = Source::new(bytes).map_err(Diagnostics::of)?;
    let mut faults = Faults::new();
    let mut tree = match tree::parse(&source, &mut faults) {
        Ok(tree) => tree,
        Err(fault) => {
            faults.add(fault);
            return Err(faults.finish(&source));
        }
    };
    definition::make_bodies(&mut tree, catalog, &mut faults);
    let mut context =
        ReadContext { source: &source, catalog, faults: &mut faults, is_stored: hash.is_some() };
    let definition = definition::read(&tree, &mut context);
    if let Some(definition) = &definition {
        definition.check_sources(sources, &mut faults);
    }
    let graph =
        definition.as_ref().and_then(|definition| check::check(definition, &source, &mut faults));
    let errors = faults.errors();
    let diagnostics = faults.finish(&source);
    let (Some(definition), Some(graph), 0) = (definition, graph, errors) else {
        return Err(diagnostics);
    };
    let canonical = canonical::text(&definition, &graph);
    let hash = hash.unwrap_or_else(|| DefinitionHash::of(canonical.as_bytes()));
    Ok(Compiled {
        name: definition.name.clone(),
        description: definition.description.clone(),
        labels: definition.labels.clone(),
        canonical,
        hash,
        plan: plan(definition, graph, hash),
        warnings: diagnostics,
    })
}

fn plan(definition: ParsedDefinition<'_>, graph: Graph, hash: DefinitionHash) -> Plan {
    let bodies = definition.scopes.iter().filter_map(|scope| {
        let position = |at: usize| u32::try_from(at).expect("fewer than 2^32 nodes");
        let body = position(scope.nodes.start)..position(scope.nodes.end);
        Some((NodeIx(position(scope.container?)), body))
    });
    let bodies = bodies.collect();
    let budget = definition.budget;
    let mut triggers: Vec<Trigger> = definition.on.into_iter().map(|on| on.trigger).collect();
    let resolved = graph.conditions.into_iter().zip(graph.on_error);
    let nodes = definition.nodes.into_iter().zip(resolved).map(|(node, (needs, on_error))| {
        let kind = node.kind.expect("a node without a kind is an error");
        triggers.extend(node.trigger.map(|parsed| parsed.trigger));
        PlanNode {
            id: node.id.into(),
            label: node.label.map(Into::into),
            kind: kind.name,
            family: kind.family,
            registry_id: node.registry_id.map(Into::into),
            behaviour: node.behaviour.expect("a node without a behaviour is an error"),
            needs,
            join: node.join,
            retry: node.retry,
            timeout: node.timeout,
            heartbeat: node.heartbeat,
            deadline: node.deadline,
            breaker: node.breaker.map(|block| Box::new(block.spec)),
            on_error,
            on_definition_errors: node.on_definition_errors,
            delivery: node.delivery,
            meter: node.meter.map(|meter| meter.meter(budget.as_ref())),
            variables: node
                .variables
                .into_iter()
                .map(|variable| (variable.name.into(), variable.template))
                .collect(),
            successors: Vec::new(),
            mentions: Vec::new(),
            only_here: Vec::new(),
            scope: 0,
            body: None,
        }
    });
    let nodes = nodes.collect();
    Plan::build(PlanDraft {
        workflow: definition.name.into(),
        hash,
        nodes,
        bodies,
        failure_policy: definition.failure_policy,
        concurrency: definition.concurrency.map(|block| Concurrency {
            key: block.template,
            limit: block.limit,
            policy: block.policy,
        }),
        timeout: definition.timeout,
        input_schema: definition.input.as_ref().map(Json::from_value),
        callable: definition.callable,
        budget: budget.as_ref().map(|block| block.budget),
        triggers,
    })
    .expect("duplicate ids, dangling edges and cycles are errors")
}
