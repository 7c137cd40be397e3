//! How wide text is on a terminal: in columns, not in bytes or characters.

use unicode_width::UnicodeWidthChar;

use super::escape::color_length;

/// Makes the character before it an emoji, which is two columns wide.
const EMOJI: char = '\u{fe0f}';

/// Columns that a text takes. Changes of colour take none.
pub fn columns(text: &str) -> usize {
    parts(text).map(|(_, width)| width).sum()
}

/// The text in one line of at most so many columns; an ellipsis replaces the rest.
pub fn fit(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len());
    let (mut used, mut colored) = (0, false);
    // Where the line would be cut: behind the last character that leaves a column for the ellipsis.
    let mut cut = (0, false);
    for (part, width) in parts(text) {
        if used + width > max {
            line.truncate(cut.0);
            line.push_str(if max > 0 { "…" } else { "" });
            line.push_str(if cut.1 { "\x1b[0m" } else { "" });
            return line;
        }
        used += width;
        match part.chars().next() {
            Some('\x1b') => colored = part != "\x1b[0m",
            // It would end the line, or move to a column that depends on where the line begins.
            Some(char) if char.is_control() => {
                line.push(' ');
                continue;
            }
            _ => {}
        }
        line.push_str(part);
        if used < max {
            cut = (line.len(), colored);
        }
    }
    line
}

/// The text with spaces behind it, up to so many columns.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The characters of a text with their columns; a change of colour is one part.
fn parts(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    let mut narrow = false;
    std::iter::from_fn(move || {
        let char = rest.chars().next()?;
        let color = color_length(rest);
        let (part, after) = rest.split_at(color.unwrap_or(char.len_utf8()));
        rest = after;
        let width = match (color, char) {
            (Some(_), _) => 0,
            (None, EMOJI) => usize::from(narrow),
            (None, char) => char.width().unwrap_or(1),
        };
        narrow = color.is_none() && width == 1 && char != EMOJI;
        Some((part, width))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_counts_wide_narrow_and_combining_characters() {
        for (text, expected) in [
            ("", 0),
            ("plain", 5),
            ("größe", 5),
            ("gro\u{308}ße", 5),
            ("配送", 4),
            ("한글", 4),
            ("🚀", 2),
            ("❤\u{fe0f}", 2),
            ("\x1b[1;32mok\x1b[0m", 2),
            ("…", 1),
        ] {
            assert_eq!(columns(text), expected, "{text:?}");
        }
    }

    #[test]
    fn fit_cuts_at_columns_and_never_inside_a_wide_character() {
        for (text, max, expected) in [
            ("plain", 5, "plain"),
            ("plain", 4, "pla…"),
            ("plain", 1, "…"),
            ("plain", 0, ""),
            ("配送中です", 10, "配送中です"),
            ("配送中です", 9, "配送中で…"),
            ("配送中です", 8, "配送中…"),
            ("gro\u{308}ßer", 5, "gro\u{308}ß…"),
            ("\x1b[32mgreen\x1b[0m", 5, "\x1b[32mgreen\x1b[0m"),
            ("\x1b[32mgreen\x1b[0m", 3, "\x1b[32mgr…\x1b[0m"),
            ("a \x1b[32mb\x1b[0m cdef", 5, "a \x1b[32mb\x1b[0m …"),
            ("two\nlines\tand a tab", 80, "two lines and a tab"),
        ] {
            let line = fit(text, max);
            assert_eq!(line, expected, "{text:?} in {max}");
            assert!(columns(&line) <= max, "{text:?} in {max}");
        }
    }

    #[test]
    fn pad_fills_up_to_columns() {
        assert_eq!(pad("配送", 6), "配送  ");
        assert_eq!(pad("plain", 3), "plain");
    }
}
