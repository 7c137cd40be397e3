//! Tasks with lists of their own: `do`, `for`, `fork`.

use serde_json::json;
use waypost_lang::Tree;

use super::tasks::{Made, output};
use super::{Converter, EXPRESSION, ListScope, Problem, TaskView};
use crate::expr::{Binds, Expr, Shape};
use crate::read::SourceFields;
use crate::target::{NeedEdge, TargetNode};

impl<'f> Converter<'_, 'f> {
    /// A list in a body, which begins with these variables (one without a name is its data), and whose
    /// data is its output.
    pub(super) fn body(
        &mut self,
        id: &str,
        list: (&'f Tree, &'f [Tree]),
        variables: &[(Option<&str>, Shape)],
        outer: &ListScope,
    ) -> Vec<TargetNode> {
        let data = self.ids.beside(id, "data");
        let scope = ListScope { data, depth: outer.depth + 1, ..outer.clone() };
        let start = self.ids.beside(id, "start");
        let mut begin = TargetNode::new(&start, "noop");
        for (name, value) in variables {
            let name = name.unwrap_or(&scope.data);
            begin.variables.insert(name.to_owned(), value.to_value());
        }
        let (nodes, ends) = self.list(list.0, list.1, &scope, vec![NeedEdge::to(&start)]);
        let mut body = vec![begin];
        body.extend(nodes);
        if !ends.is_empty() {
            let end = self.ids.beside(id, "end");
            let value = scope.data().template();
            body.push(TargetNode::new(&end, "output").needing(ends).with("value", value));
        }
        body
    }

    pub(super) fn nested(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        list: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        let mut node = TargetNode::new(id, "group");
        node.nodes = self.body(id, (list, list.items()), &[(None, input.clone())], view.scope);
        Ok(Made::of(node, Some(output())))
    }

    /// `for`: one iteration after the other, each with the data of the one before.
    pub(super) fn repeat(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        self.report.leftovers(at, &["each", "in", "at"]);
        let bad = |at, message: String| Problem::new(at, message, EXPRESSION);
        let list = view.tree.get("do").unwrap_or(at);
        let source = at.get("in").unwrap_or(at);
        let text = source.as_text().unwrap_or_default();
        let text = super::expressions::expression_of(text).unwrap_or(text);
        let items = self
            .jq(text, input, view.scope, view.name)
            .map_err(|message| bad(source, message))?
            .to_expr();
        let (each, number) = (at.text("each").unwrap_or("item"), at.text("at").unwrap_or("index"));
        let kept = self.ids.beside(id, "items");
        let list_of = Expr::variable(&kept);
        let before = TargetNode::new(&kept, "noop").variable(&kept, items.template());
        // In the body iterations count from 1, in `while` those so far.
        let index = Expr::atom("iteration").binary("-", &Expr::atom("1"), Binds::Add);
        let mut scope = view.scope.clone();
        let [item_name, number_name] = ["item", "number"].map(|name| self.ids.beside(id, name));
        scope.names.insert(each.to_owned(), Shape::Expr(Expr::variable(&item_name)));
        scope.names.insert(number.to_owned(), Shape::Expr(Expr::variable(&number_name)));
        let count = list_of.filter("length", &[]);
        let mut goes_on = Expr::atom("iteration").compare("<", &count);
        if let Some(at) = view.tree.get("while") {
            let mut seen = view.scope.clone();
            let next = Expr::atom("iteration");
            seen.names.insert(each.to_owned(), Shape::Expr(list_of.index(&next)));
            seen.names.insert(number.to_owned(), Shape::Expr(next));
            let first = Expr::atom("iteration").compare("==", &Expr::atom("0"));
            let data = input.to_expr().when(&first, &Expr::atom("previous"));
            let text = at.as_text().unwrap_or_default();
            let condition = self.condition(text, &Shape::Expr(data), &seen, view.name);
            goes_on = goes_on.and(&condition.map_err(|message| bad(at, message))?);
        }
        let mut node = TargetNode::new(id, "loop")
            .with("while", goes_on.text())
            .with("maxIterations", 1_000_000_000)
            .needing(vec![NeedEdge::to(&kept)]);
        let first = Expr::atom("iteration").compare("==", &Expr::atom("1"));
        let data = input.to_expr().when(&first, &Expr::atom("previous"));
        let variables = [
            (None, Shape::Expr(data)),
            (Some(item_name.as_str()), Shape::Expr(list_of.index(&index))),
            (Some(number_name.as_str()), Shape::Expr(index)),
        ];
        node.nodes = self.body(id, (list, list.items()), &variables, &scope);
        let nothing = output().to_expr().is("none");
        let result = input.to_expr().when(&nothing, &output().to_expr());
        let mut made = Made::of(node, Some(Shape::Expr(result)));
        made.before.push(before);
        Ok(made)
    }

    /// `fork`: branches side by side; in a race, the first one that ends.
    pub(super) fn fork(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        self.report.leftovers(at, &["branches", "compete"]);
        let branches = at.get("branches").map(SourceFields::items).unwrap_or_default();
        if branches.is_empty() {
            return Err(Problem::new(at, "a fork needs `branches`", "add one"));
        }
        let mut node = TargetNode::new(id, "group");
        let mut outputs = Vec::new();
        let begin = &[(None, input.clone())];
        for (number, branch) in branches.iter().enumerate() {
            let name = self.ids.beside(id, &format!("branch_{}", number + 1));
            let mut group = TargetNode::new(&name, "group");
            group.nodes =
                self.body(&name, (branch, std::slice::from_ref(branch)), begin, view.scope);
            outputs.push(name);
            node.nodes.push(group);
        }
        let races = at.flag("compete") == Some(true);
        let value = if races {
            let mut all = Expr::atom("none");
            for name in outputs.iter().rev() {
                let status = Expr::atom("nodes").field(name).field("status");
                let ended = status.compare("==", &Expr::atom("'COMPLETED'"));
                all = Expr::output_of(name).when(&ended, &all);
            }
            all.template()
        } else {
            outputs.iter().map(|name| Expr::output_of(name).template()).collect()
        };
        let mut all =
            TargetNode::new(&self.ids.beside(id, "outputs"), "output").with("value", value);
        all.needs = outputs.iter().map(|name| NeedEdge::to(name)).collect();
        if races && outputs.len() > 1 {
            all.join = Some(json!({ "count": "any", "cancelRest": true }));
        }
        node.nodes.push(all);
        Ok(Made::of(node, Some(output())))
    }
}
