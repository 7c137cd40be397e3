//! One request, before it is sent.

use std::time::Duration;

use anyhow::{Result, anyhow};
use reqwest::{Body, Method, Url};
use serde::Serialize;

use crate::cli::Usage;

/// How long an answer may take, where nothing is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request.
pub(crate) struct Ask<'a> {
    pub(super) method: Method,
    path: Vec<&'a str>,
    query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<(&'static str, Body)>,
    /// The longest that the whole answer may take; `None` for one without an end.
    pub(super) patience: Option<Duration>,
}

impl<'a> Ask<'a> {
    fn new(method: Method, path: &[&'a str]) -> Self {
        Self {
            method,
            path: path.to_vec(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            patience: Some(PATIENCE),
        }
    }

    /// A read of something below `/v1`.
    pub(crate) fn get(path: &[&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Stores something.
    pub(crate) fn put(path: &[&'a str]) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Does something.
    pub(crate) fn post(path: &[&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// Removes something.
    pub(crate) fn delete(path: &[&'a str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds a parameter, if it has a value.
    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Adds a header, if it has a value.
    pub(crate) fn header(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.headers.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Adds a body.
    pub(crate) fn json(self, body: &impl Serialize) -> Result<Self> {
        Ok(self.body("application/json", serde_json::to_vec(body)?))
    }

    /// Adds a body of some type.
    pub(crate) fn body(self, kind: &'static str, body: Vec<u8>) -> Self {
        Self { body: Some((kind, body.into())), ..self }
    }

    /// Adds a body that is sent as it comes.
    pub(crate) fn stream(self, body: Body) -> Self {
        Self { body: Some(("application/octet-stream", body)), ..self }
    }

    /// Extends the timeout by the time that the server waits before it answers.
    pub(crate) fn awaited(self, wait: Duration) -> Self {
        Self { patience: Some(PATIENCE + wait), ..self }
    }

    /// Sets the timeout after which another server is asked.
    pub(crate) fn within(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Removes the timeout, for an endless response.
    pub(crate) fn endless(self) -> Self {
        Self { patience: None, ..self }
    }

    /// Where it goes.
    pub(super) fn url(&self, base: &Url) -> Result<Url> {
        if let Some(segment) = self.path.iter().find(|segment| matches!(**segment, "." | ".." | ""))
        {
            // URLs cannot express these segments: the request would go to another path.
            return Err(Usage(format!("{segment:?} cannot be asked for by HTTP")).into());
        }
        let mut url = base.clone();
        url.path_segments_mut()
            .map_err(|()| anyhow!("{base} cannot have a path"))?
            .pop_if_empty()
            .push("v1")
            .extend(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_encoded() {
        let base = Url::parse("http://127.0.0.1:7070/").unwrap();
        let ask = Ask::get(&["definitions", "a/b c?", "versions"]).query("text", Some("50% & ü"));
        assert_eq!(
            ask.url(&base).unwrap().as_str(),
            "http://127.0.0.1:7070/v1/definitions/a%2Fb%20c%3F/versions?text=50%25+%26+%C3%BC"
        );
        let below = Url::parse("https://example.com/waypost").unwrap();
        let ask = Ask::get(&["limits"]).query("cursor", None::<u64>);
        assert_eq!(ask.url(&below).unwrap().as_str(), "https://example.com/waypost/v1/limits");
        assert!(Ask::get(&["executions", ".."]).url(&base).is_err());
    }
}
