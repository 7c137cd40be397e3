//! Signatures of Standard Webhooks 1.0.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use waypost_ports::outbox::SigningSecret;

/// The header `webhook-signature`: one signature for each secret, so that a receiver may know either of two.
pub fn signatures(secrets: &[SigningSecret], id: &str, timestamp: &str, body: &str) -> String {
    let signed = format!("{id}.{timestamp}.{body}");
    let sign = |secret: &SigningSecret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn signature_agrees_with_the_published_example() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, timestamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let body = r#"{"test": 2432232314}"#;
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let secret = SigningSecret(secret);
        assert_eq!(signatures(std::slice::from_ref(&secret), id, timestamp, body), signature);
        let both = signatures(&[SigningSecret(vec![1]), secret], id, timestamp, body);
        assert_eq!(both.split(' ').nth(1), Some(signature));
    }
}
