//! What can be read off an expression without evaluating it: texts that a name must have for the whole to
//! hold, and calls that can never work.

use super::ast::{Comparison, ExprNode, Step};
use super::eval::no_function;
use super::filters::{is_function, text::span_of};
use super::value::Value;
use super::{Expression, ExpressionFault};

impl Expression {
    /// The texts one of which a name must have for the expression to hold: `name == 'text'` and `name in
    /// ['text', …]`, joined to the rest by `and`. `None` where other values may do, too.
    pub fn required_texts(&self, name: &str) -> Option<Vec<&str>> {
        let of = |node| texts(node, name);
        match &self.node {
            ExprNode::And(nodes) => nodes.iter().find_map(of),
            node => of(node),
        }
    }

    /// Refuses calls that fail whatever the values are: of unknown functions, and of `ago` with what is no
    /// span. For expressions whose failures are not reported.
    pub fn check_calls(&self) -> Result<(), ExpressionFault> {
        let mut ahead = vec![&self.node];
        while let Some(node) = ahead.pop() {
            ahead.extend(node.children());
            let ExprNode::Steps(first, steps) = node else { continue };
            let (ExprNode::Name(name), Some(Step::Call(arguments))) = (&**first, steps.first())
            else {
                continue;
            };
            let place = self.references.names.get(&**name).cloned().unwrap_or_default();
            let fault = |message| ExpressionFault { message, range: place };
            if !is_function(name) {
                return Err(fault(no_function(name, true)));
            }
            if let ("ago", Some(ExprNode::Const(Value::Text(span)))) =
                (&**name, arguments.positional.first())
            {
                span_of(span).map_err(fault)?;
            }
        }
        Ok(())
    }
}

fn texts<'n>(node: &'n ExprNode, name: &str) -> Option<Vec<&'n str>> {
    let ExprNode::Compare(left, comparisons) = node else { return None };
    let (ExprNode::Name(compared), [(comparison, right)]) = (&**left, &comparisons[..]) else {
        return None;
    };
    match (comparison, right) {
        _ if **compared != *name => None,
        (Comparison::Equal, right) => Some(vec![text(right)?]),
        (Comparison::In, ExprNode::List(items)) => items.iter().map(text).collect(),
        (Comparison::In, ExprNode::Const(Value::List(list))) => {
            let text = |item: &'n Value| match item {
                Value::Text(text) => Some(&**text),
                _ => None,
            };
            list.items.iter().map(text).collect()
        }
        _ => None,
    }
}

fn text(node: &ExprNode) -> Option<&str> {
    match node {
        ExprNode::Const(Value::Text(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Scope;
    use crate::time::Timestamp;

    #[test]
    fn texts_that_a_name_must_have_are_found() {
        for (source, expected) in [
            ("status == 'FAILED'", Some(vec!["FAILED"])),
            ("a > 1 and status in ['A', 'B'] and not b", Some(vec!["A", "B"])),
            ("status in []", Some(vec![])),
            ("status in ['A', b]", None),
            ("status == 'A' or a", None),
            ("(status == 'A' or a) and b", None),
            ("status != 'A'", None),
            ("not (status == 'A')", None),
            ("status == 'A' == 'B'", None),
            ("status | lower == 'a'", None),
            ("other == 'A'", None),
            ("status == 5", None),
        ] {
            let expression = Expression::compile(source).unwrap();
            assert_eq!(expression.required_texts("status"), expected, "{source}");
        }
    }

    #[test]
    fn calls_that_can_never_work_are_refused() {
        for (source, expected) in [
            ("created > ago('7d') and 1 in range(3)", None),
            ("created > ago(input.span)", None),
            ("a and [contains(b, 'c')] == []", Some("there is no function `contains`")),
            ("{'a': (1 + ago('soon'))} | length > 0", Some("ago() needs a span such as ago('7d')")),
            ("(a if now() else b) is defined", Some("there is no function `now`")),
            ("a | default(now())", Some("there is no function `now`")),
        ] {
            let checked = Expression::compile(source).unwrap().check_calls();
            let message = checked.err().map(|fault| fault.message);
            let starts =
                message.as_deref().zip(expected).map(|(found, start)| found.starts_with(start));
            assert_eq!(
                (message.is_some(), starts),
                (expected.is_some(), expected.map(|_| true)),
                "{message:?}"
            );
        }
    }

    #[test]
    fn ago_needs_a_time_to_count_from() {
        let expression = Expression::compile("ago('1h 30m')").unwrap();
        let failure = expression.eval(&Scope::new()).unwrap_err();
        assert!(failure.message.contains("`range` is the only one"), "{}", failure.message);
        let mut scope = Scope::new();
        scope.judge(Timestamp::parse("2026-01-31T09:00:00Z").unwrap());
        assert_eq!(expression.eval(&scope).unwrap().text(), "\"2026-01-31T07:30:00.000Z\"");
    }
}
