//! Expressions and templates of Waypost, put together with the parentheses that they need.

use serde_json::{Map, Value};

/// Bytes of an expression: more than a definition may have.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 8 * 1024;

/// How tightly an expression binds: one that binds less than its place needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Binds {
    Ternary,
    Or,
    And,
    Not,
    Compare,
    Concat,
    Add,
    Multiply,
    Filter,
    Atom,
}

/// An expression as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Expr {
    text: String,
    binds: Binds,
}

/// A value with expressions in it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Shape {
    Expr(Expr),
    /// A constant without parts, or one whose parts are all constant.
    Constant(Value),
    /// A text with expressions in it: each text is before its expression.
    Text(Vec<(String, Option<Expr>)>),
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
}

impl Expr {
    pub(crate) fn new(text: impl Into<String>, binds: Binds) -> Self {
        Self { text: text.into(), binds }
    }

    /// A name, a path or another text that needs no parentheses.
    pub(crate) fn atom(text: impl Into<String>) -> Self {
        Self::new(text, Binds::Atom)
    }

    /// The output of a node.
    pub(crate) fn output_of(node: &str) -> Self {
        Self::atom("nodes").field(node).field("output")
    }

    pub(crate) fn variable(name: &str) -> Self {
        Self::atom("variables").field(name)
    }

    pub(crate) fn literal(value: &Value) -> Self {
        match value {
            Value::Null => Self::atom("none"),
            Value::String(text) => Self::atom(quoted(text)),
            Value::Number(number) if number.to_string().starts_with('-') => {
                Self::new(number.to_string(), Binds::Multiply)
            }
            Value::Array(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| Self::literal(item).text).collect();
                Self::atom(format!("[{}]", items.join(", ")))
            }
            Value::Object(map) => {
                let one = |(key, value): (&String, &Value)| {
                    format!("{}: {}", quoted(key), Self::literal(value).text)
                };
                let fields: Vec<String> = map.iter().map(one).collect();
                Self::atom(format!("{{{}}}", fields.join(", ")))
            }
            other => Self::atom(other.to_string()),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// In parentheses, unless it binds at least as tightly.
    fn at_least(&self, binds: Binds) -> String {
        if self.binds >= binds { self.text.clone() } else { format!("({})", self.text) }
    }

    pub(crate) fn field(&self, key: &str) -> Self {
        let whole = self.at_least(Binds::Atom);
        let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        Self::atom(if plain {
            format!("{whole}.{key}")
        } else {
            format!("{whole}[{}]", quoted(key))
        })
    }

    pub(crate) fn index(&self, at: &Self) -> Self {
        Self::atom(format!("{}[{}]", self.at_least(Binds::Atom), at.text))
    }

    pub(crate) fn slice(&self, from: &str, to: &str) -> Self {
        Self::atom(format!("{}[{from}:{to}]", self.at_least(Binds::Atom)))
    }

    /// `self | name(arguments)`.
    pub(crate) fn filter(&self, name: &str, arguments: &[Self]) -> Self {
        let whole = self.at_least(Binds::Filter);
        let list: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
        let call = if list.is_empty() { String::new() } else { format!("({})", list.join(", ")) };
        Self::new(format!("{whole} | {name}{call}"), Binds::Filter)
    }

    /// `self is test`.
    pub(crate) fn is(&self, test: &str) -> Self {
        Self::new(format!("{} is {test}", self.at_least(Binds::Atom)), Binds::Compare)
    }

    pub(crate) fn compare(&self, operator: &str, other: &Self) -> Self {
        self.binary(operator, other, Binds::Compare)
    }

    /// A binary operator: operands that bind as tightly as it get parentheses on the right.
    pub(crate) fn binary(&self, operator: &str, other: &Self, binds: Binds) -> Self {
        let associates = !matches!(binds, Binds::Compare);
        let left =
            if associates && self.binds == binds { self.text.clone() } else { self.above(binds) };
        let right = if matches!(binds, Binds::And | Binds::Or) && other.binds == binds {
            other.text.clone()
        } else {
            other.above(binds)
        };
        Self::new(format!("{left} {operator} {right}"), binds)
    }

    /// In parentheses, unless it binds more tightly. Filters always get them: they read as if they
    /// applied to the whole.
    fn above(&self, binds: Binds) -> String {
        let is_filter = self.binds == Binds::Filter && binds >= Binds::Compare;
        // `~` and `+` bind equally.
        let binds = if binds == Binds::Concat { Binds::Add } else { binds };
        if self.binds > binds && !is_filter {
            self.text.clone()
        } else {
            format!("({})", self.text)
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        self.binary("and", other, Binds::And)
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        self.binary("or", other, Binds::Or)
    }

    #[must_use]
    pub(crate) fn negated(&self) -> Self {
        Self::new(format!("not {}", self.at_least(Binds::Not)), Binds::Not)
    }

    pub(crate) fn when(&self, condition: &Self, otherwise: &Self) -> Self {
        let parts = [self, condition, otherwise].map(|part| part.at_least(Binds::Or));
        Self::new(format!("{} if {} else {}", parts[0], parts[1], parts[2]), Binds::Ternary)
    }

    /// `self | default(value, true)`: also where it is null.
    pub(crate) fn or_default(&self, value: &Value) -> Self {
        self.filter("default", &[Self::literal(value), Self::atom("true")])
    }

    /// The object with further fields, which replace those of the same names.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        self.filter("chain", std::slice::from_ref(other))
    }

    /// The value as text: what is no text becomes JSON.
    #[must_use]
    pub(crate) fn to_text(&self) -> Self {
        if self.binds == Binds::Atom && self.text.starts_with('\'') {
            return self.clone();
        }
        self.when(&self.is("string"), &self.filter("tojson", &[]))
    }

    /// Values as one text.
    pub(crate) fn concat(pieces: impl IntoIterator<Item = Self>) -> Self {
        let mut pieces = pieces.into_iter().map(|piece| piece.to_text());
        let first = pieces.next().unwrap_or_else(|| Self::atom("''"));
        pieces.fold(first, |all, piece| all.binary("~", &piece, Binds::Concat))
    }

    /// `"${{ … }}"`.
    pub(crate) fn template(&self) -> Value {
        Value::String(self.hole())
    }

    /// The same as text, for a place inside of a text.
    pub(crate) fn hole(&self) -> String {
        format!("${{{{ {} }}}}", self.text)
    }

    /// An object of expressions.
    pub(crate) fn object(fields: &[(&str, Self)]) -> Self {
        let one = |(key, value): &(&str, Self)| format!("{}: {}", quoted(key), value.text);
        let fields: Vec<String> = fields.iter().map(one).collect();
        Self::atom(format!("{{{}}}", fields.join(", ")))
    }

    pub(crate) fn list(items: &[Self]) -> Self {
        let items: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        Self::atom(format!("[{}]", items.join(", ")))
    }
}

impl From<Expr> for Shape {
    fn from(expr: Expr) -> Self {
        Self::Expr(expr)
    }
}

impl Shape {
    /// A field, which is looked up here if the fields are written out.
    pub(crate) fn field(&self, key: &str) -> Self {
        let found = match self {
            Self::Object(fields) => {
                fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
            }
            Self::Constant(Value::Object(map)) => map.get(key).cloned().map(Self::Constant),
            Self::Expr(_) | Self::Constant(_) | Self::List(_) | Self::Text(_) => None,
        };
        found.unwrap_or_else(|| Self::Expr(self.to_expr().field(key)))
    }

    pub(crate) fn object(fields: Vec<(String, Self)>) -> Self {
        let constants: Option<Map<String, Value>> = fields
            .iter()
            .map(|(key, value)| match value {
                Self::Constant(value) => Some((key.clone(), value.clone())),
                _ => None,
            })
            .collect();
        constants.map_or(Self::Object(fields), |map| Self::Constant(Value::Object(map)))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        let constants: Option<Vec<Value>> = items
            .iter()
            .map(|item| match item {
                Self::Constant(value) => Some(value.clone()),
                _ => None,
            })
            .collect();
        constants.map_or(Self::List(items), |items| Self::Constant(Value::Array(items)))
    }

    /// As a template.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Expr(expr) => expr.template(),
            Self::Constant(value) => literal_value(value),
            Self::Text(parts) => {
                // What is alone in a text would keep its type.
                if let [(text, Some(expr)), rest @ ..] = &parts[..]
                    && text.is_empty()
                    && rest.iter().all(|(text, expr)| text.is_empty() && expr.is_none())
                {
                    return expr.to_text().template();
                }
                let mut whole = String::new();
                for (text, expr) in parts {
                    whole.push_str(literal_text(text).as_str().unwrap_or_default());
                    whole.extend(expr.as_ref().map(Expr::hole));
                }
                Value::String(whole)
            }
            Self::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), value.to_value()))
                .collect::<Map<_, _>>()
                .into(),
            Self::List(items) => items.iter().map(Self::to_value).collect::<Vec<_>>().into(),
        }
    }

    /// As one expression.
    pub(crate) fn to_expr(&self) -> Expr {
        match self {
            Self::Expr(expr) => expr.clone(),
            Self::Constant(value) => Expr::literal(value),
            Self::Text(parts) => Expr::concat(parts.iter().flat_map(|(text, expr)| {
                let text = (!text.is_empty()).then(|| Expr::literal(&Value::from(text.as_str())));
                text.into_iter().chain(expr.clone())
            })),
            Self::Object(fields) => {
                let fields: Vec<(&str, Expr)> =
                    fields.iter().map(|(key, value)| (key.as_str(), value.to_expr())).collect();
                Expr::object(&fields)
            }
            Self::List(items) => Expr::list(&items.iter().map(Self::to_expr).collect::<Vec<_>>()),
        }
    }
}

/// A text in single quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// A text that a template gives unchanged, whatever it contains.
pub(crate) fn literal_text(text: &str) -> Value {
    Value::String(text.replace("${{", "${{ '${{' }}"))
}

/// A value that a template gives unchanged.
pub(crate) fn literal_value(value: &Value) -> Value {
    match value {
        Value::String(text) => literal_text(text),
        Value::Array(items) => items.iter().map(literal_value).collect::<Vec<_>>().into(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), literal_value(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
