//! Pages for people who follow a link: plain HTML without scripts, which loads nothing.
//!
//! Every text that comes from a workflow or a person goes through [`Text`], which escapes it. The policy
//! in the header allows the page's own style, by a nonce, and its own form, and nothing else: a title that
//! would get around the escaping could still load nothing.

pub(crate) mod approval;
pub(crate) mod fields;

use std::fmt;

use hyper::{HeaderMap, StatusCode, header};
use uuid::Uuid;

use crate::http::call::Reply;
use crate::http::dispatch::media_ranges;
use crate::problem::Problem;

const STYLE: &str = include_str!("html/style.css");

/// The media type of pages.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Text in a page, escaped.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Characters that would show text in another order than it is in.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_str("\u{fffd}")?,
                '\n' | '\t' => fmt::Write::write_char(f, character)?,
                control if control.is_control() => f.write_str("\u{fffd}")?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        Ok(())
    }
}

/// Does a browser ask?
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    media_ranges(headers).any(|range| range.eq_ignore_ascii_case("text/html"))
}

/// Does a program ask, which wants JSON?
pub(crate) fn is_json_asked_for(headers: &HeaderMap) -> bool {
    let is_json = |range: &str| range.eq_ignore_ascii_case("application/json");
    media_ranges(headers).any(is_json) && !is_asked_for(headers)
}

/// A page with a title and a body of HTML.
pub(crate) fn page(status: StatusCode, title: &str, body: &str) -> Reply {
    let nonce = Uuid::new_v4().simple();
    let title = Text(title);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex, nofollow\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style nonce=\"{nonce}\">\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    );
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    Reply::text(status, HTML, page)
        .with(header::CONTENT_SECURITY_POLICY, &policy)
        .with(header::REFERRER_POLICY, "no-referrer")
        .with(header::CACHE_CONTROL, "no-store")
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(header::X_FRAME_OPTIONS, "DENY")
}

/// The page of a problem.
pub(crate) fn problem(problem: &Problem) -> Reply {
    let (title, detail) = (problem.code.title(), &problem.detail);
    let mut shown = title.chars();
    let title: String =
        shown.next().map_or_else(String::new, |first| first.to_uppercase().chain(shown).collect());
    let body = format!(
        "<p class=\"mark no\" aria-hidden=\"true\">!</p>\n<h1>{}</h1>\n<p class=\"lead\">{}.</p>\n",
        Text(&title),
        Text(detail),
    );
    page(problem.code.status(), &title, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cannot_turn_around() {
        let text = "<script>alert('a' && \"b\")</script>\u{202e}\u{0}\n";
        let shown = Text(text).to_string();
        let expected = "&lt;script&gt;alert(&#39;a&#39; &amp;&amp; &quot;b&quot;)&lt;/script&gt;";
        assert_eq!(shown, format!("{expected}\u{fffd}\u{fffd}\n"));
    }

    #[test]
    fn browsers_get_pages_and_programs_json() {
        let asked = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, header::HeaderValue::from_static(accept));
            (is_asked_for(&headers), is_json_asked_for(&headers))
        };
        assert_eq!(asked("text/html,application/xhtml+xml,*/*;q=0.8"), (true, false));
        assert_eq!(asked("application/json"), (false, true));
        assert_eq!(asked("*/*"), (false, false));
        assert_eq!(asked("text/html, application/json"), (true, false));
    }
}
