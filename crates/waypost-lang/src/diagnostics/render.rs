//! Faults as people read them in a terminal, in the manner of rustc.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::{Diagnostics, Fault, RENDERED_MAX, Severity};
use crate::source::Source;

impl Diagnostics {
    /// Renders the faults with their lines of the source, then a line with their number. Empty if
    /// there are none.
    ///
    /// `source` is the text that was parsed; if it is not text, faults are shown without a snippet.
    pub fn render(&self, source: &[u8], file_name: &str, color: bool) -> String {
        if self.faults.is_empty() {
            return String::new();
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let source = Source::new(source).ok();
        let mut text = String::new();
        for fault in self.faults.iter().take(RENDERED_MAX) {
            text.push_str(&renderer.render(&report(fault, source.as_ref(), file_name)));
            text.push_str("\n\n");
        }
        let hidden = self.faults.len().saturating_sub(RENDERED_MAX) + self.left_out;
        if hidden > 0 {
            text.push_str(&format!("and {hidden} more\n"));
        }
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    /// `2 errors, 1 warning`.
    fn summary(&self) -> String {
        let counted = |severity, name: &str| {
            let count = self.faults.iter().filter(|fault| fault.severity == severity).count();
            match count {
                0 => None,
                1 => Some(format!("1 {name}")),
                _ => Some(format!("{count} {name}s")),
            }
        };
        let parts = [counted(Severity::Error, "error"), counted(Severity::Warning, "warning")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn report<'a>(fault: &'a Fault, source: Option<&Source<'a>>, file_name: &'a str) -> Vec<Group<'a>> {
    let level = match fault.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(fault.message.as_str()).id(fault.code.name());
    let help = fault.hint.as_deref().map(|hint| Level::HELP.message(hint));
    let group = match source {
        Some(source) => title.element(snippet(fault, source, file_name)),
        None => title.element(Origin::path(file_name).line(fault.line).char_column(fault.column)),
    };
    vec![group.elements(help)]
}

/// The first line of the fault's span. A span may cover a whole node; its first line identifies it.
fn snippet<'a>(
    fault: &Fault,
    source: &Source<'a>,
    file_name: &'a str,
) -> Snippet<'a, Annotation<'a>> {
    let (number, line) = source.line_of(fault.span.start);
    let text = source.text.get(line.clone()).unwrap_or_default();
    // Without its byte order mark, which would count as a column.
    let visible = text.trim_start_matches('\u{feff}');
    let offset = line.start + (text.len() - visible.len());
    let start = fault.span.start.saturating_sub(offset).min(visible.len());
    let end = fault.span.end.saturating_sub(offset).clamp(start, visible.len());
    Snippet::source(visible)
        .line_start(number)
        .path(file_name)
        .annotation(AnnotationKind::Primary.span(start..end))
}
