//! `strategy.matrix`: all combinations, computed here.

use serde_json::{Map, Value};
use waypost_lang::Tree;

use super::{Converter, Problem};
use crate::read::SourceFields;

/// Combinations of one job: the limit of Actions.
const COMBINATIONS_MAX: usize = 256;

type Combination = Map<String, Value>;

impl Converter<'_, '_> {
    /// The combinations of a matrix of constants.
    pub(super) fn combinations<'t>(&mut self, matrix: &'t Tree) -> Result<Vec<Value>, Problem<'t>> {
        let bad =
            |at, message: &str| Problem::new(at, message, "write the items of the `map` by hand");
        let mut all: Vec<Combination> = vec![Map::new()];
        let mut keys = Vec::new();
        for entry in
            matrix.entries().iter().filter(|e| !["include", "exclude"].contains(&e.key.as_str()))
        {
            let Some(values) = entry.value.as_list() else {
                return Err(bad(&entry.value, "the matrix is computed"));
            };
            if values.iter().any(|value| value.as_text().is_some_and(|text| text.contains("${{"))) {
                return Err(bad(&entry.value, "the matrix is computed"));
            }
            if all.len() * values.len() > COMBINATIONS_MAX {
                return Err(bad(matrix, "the matrix has more than 256 combinations"));
            }
            keys.push(entry.key.as_str());
            all = all
                .iter()
                .flat_map(|before| {
                    values.iter().map(move |value| {
                        let mut one = before.clone();
                        one.insert(entry.key.clone(), value.json());
                        one
                    })
                })
                .collect();
        }
        let objects = |field: &str| -> Result<Vec<Combination>, Problem<'t>> {
            let Some(list) = matrix.get(field) else { return Ok(Vec::new()) };
            let read = |item: &Tree| match item.json() {
                Value::Object(map) => Ok(map),
                _ => Err(bad(list, "the matrix is computed")),
            };
            match list.as_list() {
                Some(items) => items.iter().map(read).collect(),
                None => Err(bad(list, "the matrix is computed")),
            }
        };
        for excluded in objects("exclude")? {
            all.retain(|one| !excluded.iter().all(|(key, value)| one.get(key) == Some(value)));
        }
        if keys.is_empty() {
            all.clear();
        }
        let originals = all.len();
        for included in objects("include")? {
            let fits = |one: &Combination| {
                let own = included.iter().filter(|(key, _)| keys.contains(&key.as_str()));
                own.into_iter().all(|(key, value)| one.get(key) == Some(value))
            };
            let fitting: Vec<usize> = (0..originals).filter(|at| fits(&all[*at])).collect();
            for at in &fitting {
                all[*at].extend(included.clone());
            }
            if fitting.is_empty() {
                all.push(included);
            }
        }
        if all.is_empty() || all.len() > COMBINATIONS_MAX {
            return Err(bad(matrix, "the matrix has no combinations, or more than 256"));
        }
        Ok(all.into_iter().map(Value::Object).collect())
    }
}
