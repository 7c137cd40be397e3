//! Links of callbacks in the reports of remote workers.
//!
//! A link is a token with the claims and a MAC, so the instance that takes a report needs no state to find
//! one: all tokens of one execution begin with the same text, and a token that is complete can be verified.
//! Verified ones are masked in every form that the scrubber knows. A string in which the beginning of a
//! token is left, because it is encoded or cut off, is masked as a whole.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use waypost_core::command::Outcome;
use waypost_core::id::ExecutionId;
use waypost_core::time::Timestamp;

use super::Scrubber;
use super::layout::Layout;
use crate::links::{CallbackLinks, LinkPurpose};

/// The outcome without the links of callbacks of an execution.
pub(super) fn without_links(
    outcome: Outcome,
    execution: &ExecutionId,
    callbacks: &CallbackLinks,
) -> Outcome {
    let beginning = CallbackLinks::beginning_of_tokens(execution);
    let tokens = tokens_in(&outcome, &beginning, callbacks);
    let urls = tokens.iter().filter_map(|token| callbacks.url(token));
    let values: Vec<String> = urls.chain(tokens.iter().cloned()).collect();
    let outcome = Scrubber::new(values.iter().map(String::as_str)).outcome(outcome);
    Scrubber::of_whole_texts(&beginning).outcome(outcome)
}

fn tokens_in(outcome: &Outcome, beginning: &str, callbacks: &CallbackLinks) -> BTreeSet<String> {
    let layouts = match outcome {
        Outcome::Completed(output) => vec![Layout::of_json(output.text())],
        Outcome::Checkpoint(mark) => vec![Layout::of_json(mark.data.text())],
        Outcome::Failed(failure) | Outcome::Lost(failure) => {
            let details = failure.details.as_ref().map(|details| Layout::of_json(details.text()));
            let texts = [&*failure.message, &*failure.kind].map(Layout::of_text);
            texts.into_iter().chain(details).collect()
        }
        Outcome::Started | Outcome::Cancelled | Outcome::Blocked(_) => Vec::new(),
    };
    let finder = Finder::new(beginning);
    let is_of_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let mut tokens = BTreeSet::new();
    for layout in &layouts {
        for start in finder.find_iter(&layout.bytes) {
            // What separates two texts is not of a token.
            let rest = layout.bytes.iter().skip(start).take_while(is_of_token);
            let token = String::from_utf8(rest.copied().collect()).unwrap_or_default();
            // It has no expiry.
            if callbacks.links.verify(LinkPurpose::Callback, &token, Timestamp(0)).is_ok() {
                tokens.insert(token);
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use waypost_core::callback::OperationRef;
    use waypost_core::command::Mark;
    use waypost_core::failure::Failure;
    use waypost_core::json::Json;

    use super::*;

    fn rig() -> (CallbackLinks, ExecutionId, String) {
        let callbacks = CallbackLinks::new(&[7; 32], Some("https://flows.example".to_owned()));
        let execution = ExecutionId("e".into());
        let of = OperationRef { node: "each[17]/pay".into(), operation: "each[17]/pay@2/1".into() };
        let token = callbacks.token(&execution, &of);
        (callbacks, execution, token)
    }

    fn masked(text: &str) -> String {
        let (callbacks, execution, _) = rig();
        let outcome = Outcome::Completed(Json::from_value(&text.into()));
        match without_links(outcome, &execution, &callbacks) {
            Outcome::Completed(output) => serde_json::from_str(output.text()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn links_are_masked_in_every_text_of_a_report() {
        let (callbacks, execution, token) = rig();
        let url = callbacks.url(&token).unwrap();
        assert_eq!(masked(&format!("POST {url}: refused")), "POST ***: refused");
        assert_eq!(masked(&format!("t: {token}!")), "t: ***!");
        assert_eq!(
            masked(&format!("https://other.example/{token}?x=1")),
            "https://other.example/***?x=1"
        );
        assert_eq!(masked("nothing"), "nothing");
        let said = |text: &str| Json::parse(&format!(r#"{{"a":["{text}"],"n":17}}"#)).unwrap();
        let failure = Failure {
            details: Some(said(&url)),
            ..Failure::transient(format!("no_{token}"), format!("at {url}."))
        };
        for outcome in [
            Outcome::Failed(failure.clone()),
            Outcome::Lost(failure),
            Outcome::Checkpoint(Mark::from(said(&token))),
            Outcome::Completed(said(&format!(r"\u00{:x}{}", token.as_bytes()[0], &token[1..]))),
        ] {
            let masked = format!("{:?}", without_links(outcome, &execution, &callbacks));
            assert!(masked.contains("***") && !masked.contains(&token[..20]), "{masked}");
            assert!(masked.contains("17") || masked.contains("at ***."), "{masked}");
        }
    }

    #[test]
    fn texts_with_a_link_that_is_encoded_or_cut_off_are_masked_as_a_whole() {
        let (_, _, token) = rig();
        let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            format!("cut {}", &token[..token.len() - 5]),
            format!("run together {token}Zm9v"),
            format!("hex {hex}"),
        ] {
            assert_eq!(masked(&text), "***", "{text}");
        }
    }

    #[test]
    fn text_like_a_link_of_another_execution_is_left() {
        let (callbacks, _, token) = rig();
        let other = ExecutionId("other".into());
        let outcome = Outcome::Completed(Json::from_value(&token.into()));
        assert_eq!(without_links(outcome.clone(), &other, &callbacks), outcome);
    }
}
