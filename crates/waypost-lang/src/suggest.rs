//! "Did you mean": the nearest of several names.

/// Longest name that is compared; longer ones are not typing mistakes of each other.
const CHARS_MAX: usize = 64;

/// The candidate with the fewest typing mistakes between it and `name`, if there are few enough.
///
/// Each comparison takes one from `budget`; when it is used up nothing is found any more, so that
/// a definition with ten thousand unknown names costs no more than one with a hundred.
pub(crate) fn likely<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    budget: &mut usize,
) -> Option<&'a str> {
    let typed = folded(name);
    let mistakes_max = (typed.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        let meant = folded(candidate);
        if candidate == name
            || meant.len().abs_diff(typed.len()) > mistakes_max
            || typed.len().max(meant.len()) > CHARS_MAX
        {
            continue;
        }
        let mistakes = distance(&typed, &meant);
        if mistakes <= mistakes_max && best.is_none_or(|(fewest, _)| mistakes < fewest) {
            best = Some((mistakes, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Case and the choice between `-`, `_` and nothing are not mistakes of meaning.
fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two names.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.iter().enumerate() {
        let mut current = Vec::with_capacity(b.len() + 1);
        current.push(row + 1);
        for (column, to) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(from != to);
            let mut fewest = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *from == b[column - 1] && a[row - 1] == *to {
                fewest = fewest.min(before_last[column - 1] + 1);
            }
            current.push(fewest);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_names_are_few_mistakes_away() {
        let names = ["needs", "timeout", "retry", "onError", "api-call", "id"];
        for (typed, expected) in [
            ("need", Some("needs")),
            ("tiemout", Some("timeout")),
            ("on_error", Some("onError")),
            ("apicall", Some("api-call")),
            ("Id", Some("id")),
            ("banana", None),
            ("x", None),
        ] {
            assert_eq!(likely(typed, names, &mut 100), expected, "{typed}");
        }
        assert_eq!(likely("need", names, &mut 0), None);
    }
}
