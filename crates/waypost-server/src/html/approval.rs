//! The page on which a person decides an approval.

use hyper::StatusCode;
use serde_json::Value;
use waypost_core::time::Timestamp;

use super::fields::{Posted, inputs};
use super::{Text, page};
use crate::http::call::Reply;
use crate::problem::Problem;
use crate::wire::{DecisionWord, LinkedApproval};

/// What is to be decided, with the form; after a decision that could not be taken, also why.
pub(crate) fn question(
    asked: &LinkedApproval,
    posted: &Posted,
    problem: Option<&Problem>,
) -> Reply {
    let mut body = String::new();
    let mut add = |html: &str| body.push_str(html);
    add(&format!("<p class=\"kicker\">Decision for {}</p>\n", Text(&asked.approver)));
    add(&format!("<h1>{}</h1>\n", Text(&asked.title)));
    if let Some(description) = &asked.description {
        add(&format!("<p class=\"lead\">{}</p>\n", Text(description)));
    }
    let due = asked.due.map(|due| ("Decide by", minute(due.0)));
    let rows = [
        Some(("Workflow", asked.workflow.clone())),
        Some(("Execution", asked.execution.clone())),
        due.or_else(|| Some(("Link valid until", minute(asked.expires_at.0)))),
    ];
    add("<dl>\n");
    for (name, value) in rows.into_iter().flatten() {
        add(&format!("<dt>{name}</dt><dd>{}</dd>\n", Text(&value)));
    }
    add("</dl>\n");
    add(&problem.map(errors).unwrap_or_default());
    // The first button is what the Enter key presses: none, so that no one decides by accident.
    add("<form method=\"post\">\n<button type=\"submit\" disabled hidden></button>\n");
    if let Some(schema) = &asked.form {
        let schema: Value = serde_json::from_str(schema.0.text()).unwrap_or_default();
        add(&inputs(&schema, posted));
    }
    let comment = posted.get("comment").map_or("", String::as_str);
    add(&format!(
        "<label for=\"comment\">Comment</label>\n\
         <textarea id=\"comment\" name=\"comment\" placeholder=\"Optional\">{}</textarea>\n",
        Text(comment)
    ));
    add("<div class=\"buttons\">\n\
         <button class=\"yes\" name=\"decision\" value=\"approved\">Approve</button>\n\
         <button class=\"no\" name=\"decision\" value=\"rejected\" formnovalidate>Reject</button>\n\
         </div>\n</form>\n");
    let status = problem.map_or(StatusCode::OK, |problem| problem.code.status());
    page(status, &asked.title, &body)
}

/// As people read it: `2026-11-25 15:38 UTC`.
fn minute(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(..16).unwrap_or(&text).replace('T', " "))
}

fn errors(problem: &Problem) -> String {
    let mut html =
        format!("<div class=\"errors\" role=\"alert\"><p>{}</p>\n", Text(&problem.detail));
    if !problem.errors.is_empty() {
        html.push_str("<ul>\n");
        for fault in &problem.errors {
            let at = fault.pointer.as_deref().filter(|at| !at.is_empty());
            let at = at.map_or_else(String::new, |at| format!("{at}: "));
            html.push_str(&format!("<li>{}{}</li>\n", Text(&at), Text(&fault.message)));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</div>\n");
    html
}

/// The page after a decision. `recorded` is false while the owner of the execution has not taken it yet.
pub(crate) fn decided(decision: DecisionWord, recorded: bool) -> Reply {
    let (mark, word, class) = match decision {
        DecisionWord::Approved => ("✓", "Approved", "mark"),
        DecisionWord::Rejected => ("✕", "Rejected", "mark no"),
    };
    let (title, text) = match recorded {
        true => (word, "Your decision is recorded. You can close this page."),
        false => (
            "Received",
            "Your decision is stored, and will be recorded shortly. Open the link again to see whether it counts.",
        ),
    };
    let body = format!(
        "<p class=\"{class}\" aria-hidden=\"true\">{mark}</p>\n<h1>{title}</h1>\n<p>{text}</p>\n"
    );
    let status = if recorded { StatusCode::OK } else { StatusCode::ACCEPTED };
    page(status, title, &body)
}
