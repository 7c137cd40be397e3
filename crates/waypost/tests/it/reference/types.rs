//! The types of a source file with their doc comments, for pages that are made from them. Reads the
//! plain enums and structs of events, one field a line, as rustfmt writes them.

use std::collections::BTreeMap;

use crate::tidy::root;

/// An enum or a struct.
#[derive(Default)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) doc: String,
    /// Of a struct.
    pub(super) fields: Vec<Field>,
    /// Of an enum.
    pub(super) variants: Vec<Variant>,
    /// Does serde write its fields as `firedAt`?
    is_camel_case: bool,
}

#[derive(Default)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) doc: String,
    /// The name that serde writes, where an attribute gives one.
    rename: Option<String>,
    pub(super) fields: Vec<Field>,
    /// The one type in brackets, without its box.
    pub(super) content: Option<String>,
}

#[derive(Clone, Default)]
pub(super) struct Field {
    pub(super) name: String,
    /// Without `Option`.
    pub(super) kind: String,
    pub(super) doc: String,
    /// May it be absent?
    pub(super) optional: bool,
    /// Do the fields of its type stand in its place?
    flat: bool,
}

impl Variant {
    /// Its name in the log.
    pub(super) fn log_name(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

/// The public types of files of the core, by name.
pub(super) fn types(files: &[&str]) -> BTreeMap<String, Type> {
    let mut all = BTreeMap::new();
    for file in files {
        let path = root().join("crates/waypost-core/src").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        for found in read(&text) {
            all.insert(found.name.clone(), found);
        }
    }
    let fields: BTreeMap<String, Vec<Field>> =
        all.iter().map(|(name, of): (&String, &Type)| (name.clone(), of.fields.clone())).collect();
    for of in all.values_mut() {
        expand(&mut of.fields, &fields);
        of.variants.iter_mut().for_each(|variant| expand(&mut variant.fields, &fields));
    }
    all
}

fn read(text: &str) -> Vec<Type> {
    let (mut types, mut open): (Vec<Type>, Option<Type>) = (Vec::new(), None);
    let (mut doc, mut attributes) = (String::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (depth, trimmed) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(more) = trimmed.strip_prefix("///") {
            doc = format!("{doc} {}", more.trim()).trim().to_owned();
            continue;
        }
        if trimmed.starts_with("#[") {
            attributes.push_str(trimmed);
            if !trimmed.ends_with(']') {
                lines.by_ref().find(|line| {
                    attributes.push_str(line.trim());
                    line.trim().ends_with(']')
                });
            }
            continue;
        }
        let (about, of) = (std::mem::take(&mut doc), std::mem::take(&mut attributes));
        match &mut open {
            None => {
                let kind =
                    trimmed.strip_prefix("pub enum ").or(trimmed.strip_prefix("pub struct "));
                if let Some(name) = kind.filter(|_| trimmed.ends_with('{')) {
                    let name = name.trim_end_matches(" {").to_owned();
                    let is_camel_case = of.contains("rename_all = \"camelCase\"");
                    open = Some(Type { name, doc: about, is_camel_case, ..Type::default() });
                }
            }
            Some(_) if depth == 0 => types.extend(open.take().filter(|_| trimmed == "}")),
            Some(known) => {
                if let Some(mut field) = field(trimmed, about.clone(), &of) {
                    if known.is_camel_case {
                        field.name = camel_case(&field.name);
                    }
                    match known.variants.last_mut() {
                        Some(variant) if depth == 8 => variant.fields.push(field),
                        _ => known.fields.push(field),
                    }
                } else if depth == 4 && trimmed != "}," {
                    known.variants.push(variant(trimmed, about, &of));
                }
            }
        }
    }
    types
}

/// Puts the fields of flattened types in their place.
fn expand(of: &mut Vec<Field>, types: &BTreeMap<String, Vec<Field>>) {
    let expanded = std::mem::take(of).into_iter().flat_map(|field| match field.flat {
        true => types[&field.kind].clone(),
        false => vec![field],
    });
    *of = expanded.collect();
}

fn field(line: &str, doc: String, attributes: &str) -> Option<Field> {
    let (name, kind) = line.trim_start_matches("pub ").trim_end_matches(',').split_once(": ")?;
    let option = kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>'));
    let optional = option.is_some() || attributes.contains("default");
    let kind = option.unwrap_or(kind).to_owned();
    let flat = attributes.contains("flatten");
    Some(Field { name: name.to_owned(), kind, doc, optional, flat })
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

fn variant(line: &str, doc: String, attributes: &str) -> Variant {
    let end = line.find([' ', '(', ',']).unwrap_or(line.len());
    let content = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let content = content.map(|(kind, _)| kind.trim_start_matches("Box<").trim_end_matches('>'));
    let rename = attributes.split_once("rename = \"").and_then(|(_, rest)| rest.split_once('"'));
    Variant {
        name: line[..end].to_owned(),
        doc,
        rename: rename.map(|(name, _)| name.to_owned()),
        fields: Vec::new(),
        content: content.map(str::to_owned),
    }
}
