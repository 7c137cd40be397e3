//! What a page says that a snippet prints, compared with what it prints.

/// What stands for anything: inside of a line for a part of it, alone on a line for any lines.
const ANYTHING: char = '…';

/// Does the text fit what the page shows? How wide columns are does not matter.
pub(crate) fn fits(expected: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.lines().map(squeeze).collect() };
    lines_fit(&lines(expected.trim_end()), &lines(printed.trim_end()))
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines_fit(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if *first == ANYTHING.to_string() => {
            (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| line_fits(first, line) && lines_fit(rest, others)),
    }
}

fn line_fits(expected: &str, line: &str) -> bool {
    let Some((begin, rest)) = expected.split_once(ANYTHING) else { return expected == line };
    let Some(mut line) = line.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split(ANYTHING).collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = line.split_once(part) else { return false };
        line = behind;
    }
    line.ends_with(end)
}

#[test]
fn an_ellipsis_stands_for_anything() {
    for (expected, printed, fine) in [
        ("a\nb\n", "a\nb\n", true),
        ("a   b", "a b", true),
        ("a\nb", "a", false),
        ("a", "a\nb", false),
        ("a\n…", "a\nb\nc", true),
        ("…\nc", "a\nb\nc", true),
        ("a\n…\nc", "a\nc", true),
        ("exe_… done in … ms", "exe_12 done in 3 ms", true),
        ("exe_… done in … ms", "exe_12 is done", false),
        ("…b…d", "a b c d", true),
        ("x…x", "x", false),
    ] {
        assert_eq!(fits(expected, printed), fine, "{expected:?} {printed:?}");
    }
}
