//! "Did you mean": the nearest of several names.

use waypost_core::spelling::{folded, mistakes};

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
    let most = (typed.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        if candidate == name {
            continue;
        }
        if let Some(count) = mistakes(&typed, &folded(candidate), most)
            && best.is_none_or(|(fewest, _)| count < fewest)
        {
            best = Some((count, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
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
