//! A redirect: the call that follows from another one, and what of it another origin does not get.

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, COOKIE, HeaderName,
    PROXY_AUTHORIZATION,
};
use reqwest::{Method, StatusCode, Url};
use waypost_core::failure::{Failure, kind};
use waypost_ports::secret::Grant;

use super::call::{Call, CallBody};

impl Call {
    /// Turns this call into the one that a redirect requests. Another origin gets no header with a
    /// secret in it, and no body: a server could have it sent to any place.
    pub(crate) fn redirect(&mut self, status: StatusCode, target: Url) -> Result<(), Failure> {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            // Not what the RFC meant, but what every client has done since the nineties.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
                self.headers.remove(name);
            }
        }
        if target.origin() != self.url.origin() {
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                self.headers.remove(name);
            }
            self.drop_secret_headers();
            if let Some(secret) = self.secret_in_body() {
                let to = target.origin().ascii_serialization();
                let message = format!(
                    "{} redirects to {to}, another origin, with a body that holds secret `{}`; \
                     to send the secret there, call {to} directly",
                    self.describe(),
                    secret.name
                );
                return Err(Failure::permanent(kind::SECRET_HOST, message));
            }
        }
        self.url = target;
        Ok(())
    }

    fn drop_secret_headers(&mut self) {
        let mut secrets = Vec::new();
        for secret in &self.secrets {
            let text = secret.value.reveal();
            // As a value has it, and as a name does.
            secrets.extend([text.to_owned(), text.to_ascii_lowercase()]);
        }
        let holds = |text: &str| secrets.iter().any(|secret| text.contains(secret));
        let with_secrets: Vec<HeaderName> = self
            .headers
            .iter()
            .filter(|(name, value)| {
                holds(name.as_str()) || holds(&String::from_utf8_lossy(value.as_bytes()))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in with_secrets {
            self.headers.remove(name);
        }
    }

    /// A secret that is in the body, as it is or as JSON spells it.
    fn secret_in_body(&self) -> Option<&Grant> {
        let Some(CallBody::Text(body)) = &self.body else { return None };
        self.secrets.iter().find(|secret| {
            let text = secret.value.reveal();
            let quoted = serde_json::Value::from(text).to_string();
            let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            body.contains(text) || body.contains(inside)
        })
    }
}
