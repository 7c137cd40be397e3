//! A program as one line, for traces: `a: task good; b: delay 900 <- a; j: join <- a, b | any`.

use std::fmt;

use super::{
    Case, DelaySpan, Each, Ends, FailurePolicy, ItemSource, Join, Keyed, Kind, Loop, Node, OnError,
    Operation, Program, RetryOn, RetryRule, Setting, Test, Tolerated, Value,
};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items = Vec::new();
        if self.failure_policy == FailurePolicy::Partial {
            items.push("partial".to_owned());
        }
        items.extend(self.timeout_ms.map(|ms| format!("within {ms}")));
        items.extend(self.keyed.map(|keyed| {
            let Keyed { limit, policy, split } = keyed;
            format!("{} of {limit}{}", policy.name(), if split { " by n" } else { "" })
        }));
        items.extend(self.budget.map(|budget| budget.text()));
        items.extend(ShownScope(&self.nodes).texts());
        f.write_str(&items.join("; "))
    }
}

/// Nodes that see each other.
struct ShownScope<'p>(&'p [Node]);

impl ShownScope<'_> {
    fn texts(&self) -> Vec<String> {
        self.0.iter().map(|node| self.node_text(node)).collect()
    }

    fn body_text(nodes: &[Node]) -> String {
        ShownScope(nodes).texts().join("; ")
    }

    fn node_text(&self, node: &Node) -> String {
        let mut text = format!("{}: {}", node.id, self.kind_text(&node.kind));
        let needs: Vec<String> = node
            .needs
            .iter()
            .map(|need| match &need.branch {
                Some(branch) => format!("{}.{branch}", self.id(need.source)),
                None => self.id(need.source).to_owned(),
            })
            .collect();
        if !needs.is_empty() {
            text += &format!(" <- {}", needs.join(", "));
        }
        let options = options(node);
        if !options.is_empty() {
            text += &format!(" | {}", options.join(" "));
        }
        text
    }

    fn id(&self, at: usize) -> &str {
        self.0.get(at).map_or("?", |node| &node.id)
    }

    fn kind_text(&self, kind: &Kind) -> String {
        match kind {
            Kind::Noop => "noop".into(),
            Kind::Transform(values) => format!("transform [{}]", self.values_text(values)),
            Kind::Output(values) => format!("output [{}]", self.values_text(values)),
            Kind::Condition(test) => format!("if {}", self.test_text_short(*test)),
            Kind::Switch { cases, default } => {
                let case =
                    |case: &Case| format!("{} -> {}", self.test_text_short(case.test), case.branch);
                let mut cases: Vec<String> = cases.iter().map(case).collect();
                cases.extend(default.as_ref().map(|branch| format!("else -> {branch}")));
                format!("switch ({})", cases.join(", "))
            }
            Kind::Join => "join".into(),
            Kind::Fail => "fail".into(),
            Kind::Delay(DelaySpan::Fixed(ms)) => format!("delay {ms}"),
            Kind::Delay(DelaySpan::Computed { times, minus }) => format!("delay n*{times}-{minus}"),
            Kind::Wait { signal, timeout_ms: None } => format!("wait {}", signal.name()),
            Kind::Wait { signal, timeout_ms: Some(ms) } => format!("wait {} {ms}", signal.name()),
            Kind::Signals(signals) => signals.text(),
            Kind::Approval(approval) => approval.text(),
            Kind::Task(script) => format!("task {script}"),
            Kind::Operation(Operation { body, timeout_ms, late }) => {
                let timeout = timeout_ms.map(|ms| format!(" {ms}")).unwrap_or_default();
                let late = if *late { " late" } else { "" };
                format!("operation{timeout}{late} {{ {} }}", Self::body_text(body))
            }
            Kind::Group(body) => format!("group {{ {} }}", Self::body_text(body)),
            Kind::Loop(Loop { body, ends, max, delay_ms, all }) => {
                let (word, test) = match ends {
                    Ends::Until(test) => ("until", test),
                    Ends::While(test) => ("while", test),
                };
                let test = self.test_text_short(*test);
                let delay =
                    if *delay_ms > 0 { format!(" delay {delay_ms}") } else { String::new() };
                let all = if *all { " all" } else { "" };
                format!("loop {word} {test} max {max}{delay}{all} {{ {} }}", Self::body_text(body))
            }
            Kind::Map(each) => self.map_text(each),
            Kind::Child(call) => call.to_string(),
            Kind::Notify(notify) => notify.text(&self.values_text(&notify.values)),
            Kind::Emit(signal) => format!("emit {}", signal.name()),
        }
    }

    fn map_text(&self, each: &Each) -> String {
        let items = match &each.items {
            ItemSource::List(values) => format!("[{}]", self.values_text(values)),
            ItemSource::Of(value) => self.values_text(&[*value]),
        };
        let tolerated = match each.tolerated {
            Tolerated::Count(0) => String::new(),
            Tolerated::Count(count) => format!(" tolerate {count}"),
            Tolerated::Percent(percent) => format!(" tolerate {percent}%"),
        };
        let stops = if each.stops { " stop" } else { "" };
        let none = if each.collects { "" } else { " none" };
        let (width, body) = (each.width, Self::body_text(&each.body));
        format!("map {items} at {width}{tolerated}{stops}{none} {{ {body} }}")
    }

    fn values_text(&self, values: &[Value]) -> String {
        let text = |value: &Value| match value {
            Value::Constant(number) => number.to_string(),
            Value::Plus(more) => format!("n+{more}"),
            Value::Text => "text".into(),
            Value::OutputOf(at) => self.id(*at).to_owned(),
            Value::ResultsOf(at) => format!("{}.results", self.id(*at)),
            Value::StatusOf(at) => format!("{}.status", self.id(*at)),
            Value::Before => "before".into(),
            Value::Iteration => "iteration".into(),
            Value::Previous => "previous".into(),
            Value::Item => "item".into(),
            Value::Index => "index".into(),
            Value::Variable => "v".into(),
            Value::Broken => "broken".into(),
        };
        values.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn test_text_short(&self, test: Test) -> String {
        match test {
            Test::AtLeast(least) => format!("n>={least}"),
            Test::Completed(at) => format!("{} completed", self.id(at)),
            Test::Iteration(least) => format!("iteration>={least}"),
            Test::Below(limit) => format!("iteration<{limit}"),
            Test::Previous => "previous".into(),
            Test::Done => "done".into(),
            Test::Index(least) => format!("index>={least}"),
            Test::Variable(least) => format!("v>={least}"),
            Test::Broken => "broken".into(),
        }
    }
}

fn options(node: &Node) -> Vec<String> {
    let mut options = Vec::new();
    match node.join {
        Join::All => {}
        Join::Count { count: 1, .. } => options.push("any".into()),
        Join::Count { count, .. } => options.push(format!("{count}-of-n")),
    }
    if matches!(node.join, Join::Count { cancel_rest: true, .. }) {
        options.push("cancel-rest".into());
    }
    options.extend(node.retry.map(|retry| retry_text(&retry)));
    options.extend(node.timeout_ms.map(|ms| format!("timeout={ms}")));
    options.extend(node.deadline_ms.map(|ms| format!("deadline={ms}")));
    match &node.on_error {
        OnError::Fail => {}
        OnError::Continue => options.push("on-error=continue".into()),
        OnError::Branch(branch) => options.push(format!("on-error={branch}")),
    }
    if node.definition_errors {
        options.push("definition-errors".into());
    }
    if node.at_most_once {
        options.push("once".into());
    }
    if node.remote {
        options.push("remote".into());
    }
    options.extend(node.sets.map(|sets| match sets {
        Setting::To(value) => format!("v={value}"),
        Setting::More => "v+1".into(),
    }));
    options
}

fn retry_text(retry: &RetryRule) -> String {
    let growth = if retry.backoff { "+" } else { "" };
    let on = match retry.on {
        RetryOn::Transient => "",
        RetryOn::ServerErrors => ":5xx",
        RetryOn::ClientErrors => ":4xx",
        RetryOn::Timeouts => ":timeout",
    };
    format!("retry={}x{}{growth}{on}", retry.max_attempts, retry.wait_ms)
}
