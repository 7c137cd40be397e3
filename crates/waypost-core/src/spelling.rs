//! Names that people type: how messages show them, and how far a mistyped one is from a known one.

/// Characters of a text that messages show.
const QUOTED_CHARS_MAX: usize = 60;
/// Longest name that is compared; longer ones are not typing mistakes of each other.
const COMPARED_CHARS_MAX: usize = 64;

/// A text of an author as messages show it: between backticks, on one line, not too long.
pub fn quoted(text: &str) -> String {
    let mut shown = String::from("`");
    for (position, c) in text.chars().enumerate() {
        if position == QUOTED_CHARS_MAX {
            shown.push('…');
            break;
        }
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown.push('`');
    shown
}

/// A name for [`mistakes`]: case, blanks, hyphens and underscores are not mistakes of meaning.
pub fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two folded names, if there are at
/// most `most`.
pub fn mistakes(typed: &[char], meant: &[char], most: usize) -> Option<usize> {
    let too_long = typed.len().max(meant.len()) > COMPARED_CHARS_MAX;
    if too_long || typed.len().abs_diff(meant.len()) > most {
        return None;
    }
    Some(distance(typed, meant)).filter(|count| *count <= most)
}

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
    fn mistakes_between_names_are_counted_up_to_a_number() {
        for (typed, meant, expected) in [
            ("timeout", "timeout", Some(0)),
            ("on_Error", "onError", Some(0)),
            ("New York", "new-york", Some(0)),
            ("need", "needs", Some(1)),
            ("tiemout", "timeout", Some(1)),
            ("retrx", "retry", Some(1)),
            ("bananas", "needs", None),
            ("", "id", Some(2)),
        ] {
            assert_eq!(mistakes(&folded(typed), &folded(meant), 2), expected, "{typed}");
        }
        let long = folded(&"x".repeat(COMPARED_CHARS_MAX + 1));
        assert_eq!(mistakes(&long, &long, 2), None);
    }

    #[test]
    fn quoted_text_is_on_one_line_and_not_too_long() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(
            quoted(&"é".repeat(QUOTED_CHARS_MAX + 1)),
            format!("`{}…`", "é".repeat(QUOTED_CHARS_MAX))
        );
    }
}
