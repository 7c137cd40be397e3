//! Published examples of each scheme, and requests that differ from them in one bit.

use hyper::header::{HeaderName, HeaderValue};

use super::*;
use waypost_core::trigger::{Encoding, HashAlgorithm, HmacScheme};

/// A request that a scheme takes.
struct Sample {
    scheme: VerifyScheme,
    secret: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static [u8],
    token: Option<&'static str>,
    /// When it was sent, in seconds; 0 where the scheme has no time.
    at: i64,
    /// The headers in which every bit counts.
    signed: &'static [&'static str],
}

const UNTIMED: Sample = Sample {
    scheme: VerifyScheme::None,
    secret: "",
    headers: &[],
    body: b"",
    token: None,
    at: 0,
    signed: &[],
};

const SLACK_BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

/// Standard Webhooks: the example of its reference libraries.
fn standard() -> Sample {
    Sample {
        scheme: VerifyScheme::Standard,
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        headers: &[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ],
        body: br#"{"test": 2432232314}"#,
        at: 1_614_265_330,
        signed: &["webhook-id", "webhook-timestamp", "webhook-signature"],
        ..UNTIMED
    }
}

/// The same message, signed with the private key `whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=`: computed with
/// Python's `cryptography`, as the specification says.
fn asymmetric() -> Sample {
    Sample {
        secret: "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
        headers: &[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", ASYMMETRIC_SIGNATURE),
        ],
        ..standard()
    }
}

const ASYMMETRIC_SIGNATURE: &str =
    "v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ==";

/// GitHub and Slack: the examples of their documentation. The others: computed with Python's `hmac`.
fn samples() -> Vec<Sample> {
    vec![
        standard(),
        asymmetric(),
        Sample {
            scheme: VerifyScheme::Github,
            secret: "It's a Secret to Everybody",
            headers: &[(
                "x-hub-signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            )],
            body: b"Hello, World!",
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Slack,
            secret: "8f742231b10e8888abcd99yyyzzz85a5",
            headers: &[
                ("x-slack-request-timestamp", "1531420618"),
                (
                    "x-slack-signature",
                    "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
                ),
            ],
            body: SLACK_BODY,
            at: 1_531_420_618,
            signed: &["x-slack-request-timestamp"],
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Stripe,
            secret: "whsec_test_secret",
            headers: &[(
                "stripe-signature",
                "t=1492774577,v1=f7a632a9ffdbb1ced2fc48e44c374ec2cb4292469db292862c06ae703e2befbd",
            )],
            body: br#"{"id":"evt_1","type":"invoice.paid"}"#,
            at: 1_492_774_577,
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Shopify,
            secret: "hush",
            headers: &[("x-shopify-hmac-sha256", "QPF8T1ti8Gpf6xXRoKZDI2G/2Fp8v4tKnau8MqDdx3o=")],
            body: br#"{"id":450789469}"#,
            signed: &["x-shopify-hmac-sha256"],
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Hmac(HmacScheme {
                header: "x-signature".into(),
                algorithm: HashAlgorithm::Sha512,
                encoding: Encoding::Base64,
                prefix: "v9=".into(),
                timestamp: Some("x-time".into()),
                signed: "v9|{timestamp}|{body}".into(),
            }),
            secret: "correct horse",
            headers: &[
                ("x-time", "1700000000"),
                (
                    "x-signature",
                    "v9=lb14iShCpVw/84bg5Qqi6ATyKahrePwxuSFBVmPwu1HmfrSEalcf8C17o62q3ZjtdcIm7a2s0rXWy4B8lztnSQ==",
                ),
            ],
            body: br#"{"n":1}"#,
            at: 1_700_000_000,
            signed: &["x-time", "x-signature"],
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Hmac(HmacScheme {
                header: "x-sig".into(),
                algorithm: HashAlgorithm::Sha256,
                encoding: Encoding::Hex,
                prefix: "".into(),
                timestamp: None,
                signed: "{body}".into(),
            }),
            secret: "correct horse",
            headers: &[(
                "x-sig",
                "4a4dfb018614066b4e2284dacff8178e1d75f7f989e07724a9dbeb9dee6272f2",
            )],
            body: br#"{"n":1}"#,
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Gitlab,
            secret: "gitlab-token",
            headers: &[("x-gitlab-token", "gitlab-token")],
            signed: &["x-gitlab-token"],
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Basic,
            secret: "Aladdin:open sesame",
            headers: &[("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")],
            ..UNTIMED
        },
        Sample {
            scheme: VerifyScheme::Token,
            secret: "0f7e9c55",
            token: Some("0f7e9c55"),
            ..UNTIMED
        },
    ]
}

fn secret(text: &str) -> SecretText {
    SecretText::new(text).unwrap()
}

impl Sample {
    fn headers(&self) -> HeaderMap {
        let pairs = self.headers.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn ask(&self, headers: &HeaderMap, body: &[u8]) -> Result<SignedDelivery, Refused> {
        self.ask_at(headers, body, 0)
    }

    fn ask_at(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        later: i64,
    ) -> Result<SignedDelivery, Refused> {
        let now = Timestamp((self.at + later) * 1_000);
        let request = Incoming { headers, body, token: self.token, now };
        verify(&self.scheme, &[secret(self.secret)], &request)
    }

    fn is_of_the_body(&self) -> bool {
        !matches!(self.scheme, VerifyScheme::Gitlab | VerifyScheme::Basic | VerifyScheme::Token)
    }
}

#[test]
fn published_example_of_each_scheme_is_taken() {
    for sample in samples() {
        let name = sample.scheme.name();
        let delivery = sample.ask(&sample.headers(), sample.body).unwrap();
        match &sample.scheme {
            VerifyScheme::Standard => {
                assert_eq!(delivery, SignedDelivery::Id("msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()));
            }
            _ if sample.is_of_the_body() => {
                assert!(matches!(delivery, SignedDelivery::Digest(_)), "{name}")
            }
            _ => assert_eq!(delivery, SignedDelivery::Unsigned, "{name}"),
        }
    }
}

#[test]
fn each_flipped_bit_of_header_or_body_is_refused() {
    let mut refused = 0;
    for sample in samples() {
        let name = sample.scheme.name();
        for (header, value) in sample.headers {
            // Case of hexadecimal digits, and of the word `Basic`, has no meaning.
            let whole = sample.signed.contains(header);
            for bit in 0..value.len() * 8 {
                let mut bytes = value.as_bytes().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let same = bytes.eq_ignore_ascii_case(value.as_bytes());
                let Ok(flipped) = HeaderValue::from_bytes(&bytes) else { continue };
                if same && !whole {
                    continue;
                }
                let mut headers = sample.headers();
                headers.insert(HeaderName::from_static(header), flipped);
                let asked = sample.ask(&headers, sample.body);
                assert!(asked.is_err(), "{name} {header} bit {bit}: {asked:?}");
                refused += 1;
            }
        }
        for bit in 0..sample.body.len() * 8 {
            let mut body = sample.body.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            let asked = sample.ask(&sample.headers(), &body);
            assert!(asked.is_err() || !sample.is_of_the_body(), "{name} body bit {bit}");
            refused += 1;
        }
        if sample.is_of_the_body() {
            assert!(sample.ask(&sample.headers(), b"").is_err(), "{name}");
            let more = [sample.body, b" "].concat();
            assert!(sample.ask(&sample.headers(), &more).is_err(), "{name}");
        }
    }
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn missing_or_repeated_headers_are_refused_without_the_expected_value() {
    for sample in samples() {
        for (header, value) in sample.headers {
            let mut headers = sample.headers();
            headers.remove(*header);
            let without = sample.ask(&headers, sample.body).unwrap_err();
            assert!(without.to_string().contains(header), "{without}");
            headers = sample.headers();
            headers.append(HeaderName::from_static(header), HeaderValue::from_static(value));
            let twice = sample.ask(&headers, sample.body).unwrap_err();
            assert_eq!(twice, without);
        }
        let other = Incoming {
            headers: &sample.headers(),
            body: sample.body,
            token: Some("wrong"),
            now: Timestamp(sample.at * 1_000),
        };
        let wrong = verify(&sample.scheme, &[secret("d3JvbmcgaGVyZQ==")], &other).unwrap_err();
        assert_eq!(wrong.reason, Reason::BadSignature);
        let text = wrong.to_string();
        assert!(text.contains(sample.scheme.name()), "{text}");
        assert!(text.len() < 100 && !text.contains(sample.secret), "{text}");
    }
}

#[test]
fn time_of_a_request_may_be_five_minutes_off_and_no_more() {
    for sample in samples().iter().filter(|sample| sample.at > 0) {
        let headers = sample.headers();
        for later in [-300, 0, 300] {
            assert!(sample.ask_at(&headers, sample.body, later).is_ok(), "{later}");
        }
        for later in [-301, 301, 86_400] {
            let stale = sample.ask_at(&headers, sample.body, later).unwrap_err();
            assert_eq!(stale.reason, Reason::StaleTimestamp, "{later}");
        }
    }
}

#[test]
fn either_secret_is_taken_during_a_rotation() {
    let sample = standard();
    let (headers, now) = (sample.headers(), Timestamp(sample.at * 1_000));
    let request = Incoming { headers: &headers, body: sample.body, token: None, now };
    let (old, new) = (secret("d3JvbmcgaGVyZQ=="), secret(sample.secret));
    for secrets in [vec![old.clone(), new.clone()], vec![new, old.clone()]] {
        assert!(verify(&sample.scheme, &secrets, &request).is_ok());
    }
    assert!(verify(&sample.scheme, &[old], &request).is_err());
    assert!(verify(&sample.scheme, &[], &request).is_err());
    let bad = verify(&sample.scheme, &[secret("not base64!")], &request).unwrap_err();
    assert_eq!(bad.reason, Reason::BadSecret);
}

/// A public key is known to everybody: it must never be the key of an HMAC, and a signature of one version never
/// counts as one of the other.
#[test]
fn public_key_verifies_signatures_of_its_private_key_alone() {
    let sample = asymmetric();
    let ask = |signature: &str, secrets: &[&str]| {
        let mut headers = sample.headers();
        headers.insert("webhook-signature", signature.parse().unwrap());
        let secrets: Vec<SecretText> = secrets.iter().map(|text| secret(text)).collect();
        let now = Timestamp(sample.at * 1_000);
        let request = Incoming { headers: &headers, body: sample.body, token: None, now };
        verify(&sample.scheme, &secrets, &request).map_err(|refused| refused.reason)
    };
    let key = sample.secret;
    let bare = key.strip_prefix("whpk_").unwrap();
    let as_secret = format!("whsec_{bare}");
    let as_v1 = ASYMMETRIC_SIGNATURE.replace("v1a,", "v1,");
    for (signature, secrets, expected) in [
        (ASYMMETRIC_SIGNATURE, vec![key], Ok(())),
        (&format!("v1,bm9wZQ== {ASYMMETRIC_SIGNATURE}"), vec![standard().secret, key], Ok(())),
        (standard().headers[2].1, vec![key, standard().secret], Ok(())),
        (ASYMMETRIC_SIGNATURE, vec![&as_secret], Err(Reason::BadSignature)),
        (ASYMMETRIC_SIGNATURE, vec![bare], Err(Reason::BadSignature)),
        (&as_v1, vec![key], Err(Reason::BadSignature)),
        // The HMAC of the message with the bytes of the public key, and with its text.
        (
            "v1,4dYmEdg8mVJNPqUbBtMwHpdlKqv++9ZLLg5PovPSMm0= v1,hR+FlfvINAux+GKwTJmOBig1QQoNkQY9auHWS/2mPT4=",
            vec![key],
            Err(Reason::BadSignature),
        ),
        ("v1a,AAAA", vec![key], Err(Reason::BadSignature)),
        (ASYMMETRIC_SIGNATURE, vec!["whpk_AAAA"], Err(Reason::BadSecret)),
        (
            ASYMMETRIC_SIGNATURE,
            vec!["whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="],
            Err(Reason::BadSecret),
        ),
    ] {
        let asked = ask(signature, &secrets).map(drop);
        assert_eq!(asked, expected, "{signature} {secrets:?}");
    }
}

#[test]
fn one_of_several_signatures_suffices() {
    let sample = standard();
    let mut headers = sample.headers();
    let value = "v1a,AAAA v1,bm9wZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    headers.insert("webhook-signature", HeaderValue::from_static(value));
    assert!(sample.ask(&headers, sample.body).is_ok());
    let many = vec!["v1,bm9wZQ=="; 16].join(" ") + " " + sample.headers[2].1;
    headers.insert("webhook-signature", many.parse().unwrap());
    assert!(sample.ask(&headers, sample.body).is_err(), "only so many are looked at");
}
