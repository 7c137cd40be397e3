//! `waypost children`: the executions that an execution started, and those that they started.

use std::pin::Pin;

use anyhow::Result;
use serde::Serialize;
use waypost_server::wire;

use super::{Context, Exit, find, input};
use crate::output::print_line;
use crate::target::{ChildrenPage, Target};

/// Executions on one page of an answer.
const PAGE: usize = 100;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    /// How many levels of executions to show
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    depth: u32,
    /// Maximum number of executions to show
    #[arg(long, default_value_t = 200, value_parser = input::count())]
    limit: usize,
}

/// An execution in the tree.
#[derive(Serialize)]
struct Branch {
    #[serde(flatten)]
    child: wire::Child,
    children: Vec<Self>,
}

/// What is shown of the tree.
#[derive(Serialize)]
struct Tree {
    id: String,
    children: Vec<Branch>,
    /// Are there more than were asked for?
    more: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let (target, id) = args.named.open(context).await?;
    // Says so where there is no such execution.
    target.execution(&id).await?;
    let mut left = args.limit;
    let (children, more) =
        branches(&target, &id, Level { is_first: true, depth: args.depth }, &mut left).await?;
    let tree = Tree { id, children, more };
    context.show(&tree, || {
        print_line(&tree.id);
        print(&tree.children, "");
        match (tree.children.is_empty(), tree.more) {
            (true, _) => print_line("it has started no executions"),
            (false, true) => print_line("… and more: see --limit and --depth"),
            (false, false) => {}
        }
    })
}

/// Where in the tree the executions are that are asked for.
#[derive(Clone, Copy)]
struct Level {
    is_first: bool,
    /// How many levels are shown from here on.
    depth: u32,
}

type Branches<'a> = Pin<Box<dyn Future<Output = Result<(Vec<Branch>, bool)>> + 'a>>;

/// The children of an execution, down to so many levels, and whether some are left out.
fn branches<'a>(
    target: &'a Target,
    id: &'a str,
    level: Level,
    left: &'a mut usize,
) -> Branches<'a> {
    Box::pin(async move {
        let (mut found, mut after, mut more) = (Vec::new(), 0, false);
        while *left > 0 {
            // What the first answer has waited for, the others have too.
            let (limit, consistent) = (PAGE.min(*left), level.is_first && after == 0);
            let page = target.children(id, ChildrenPage { after, limit, consistent }).await?;
            for child in page.children {
                *left = left.saturating_sub(1);
                found.push(Branch { child, children: Vec::new() });
            }
            match page.next {
                Some(next) => after = next,
                None => {
                    after = 0;
                    break;
                }
            }
        }
        more |= after > 0;
        for branch in &mut found {
            if level.depth == 1 || *left == 0 {
                continue;
            }
            let below = Level { is_first: false, depth: level.depth - 1 };
            let (children, rest) = branches(target, &branch.child.id, below, left).await?;
            (branch.children, more) = (children, more || rest);
        }
        Ok((found, more))
    })
}

fn print(branches: &[Branch], indent: &str) {
    for (at, Branch { child, children }) in branches.iter().enumerate() {
        let last = at + 1 == branches.len();
        let status = child.status.as_ref().map_or_else(String::new, |status| status.0.to_string());
        let detached = if child.detached { "  not awaited" } else { "" };
        let wire::Child { id, node, workflow, version, .. } = child;
        let (corner, below) = if last { ("└─", "  ") } else { ("├─", "│ ") };
        print_line(&format!(
            "{indent}{corner} {node}: {id}  {workflow} v{version}  {status}{detached}"
        ));
        print(children, &format!("{indent}{below} "));
    }
}
