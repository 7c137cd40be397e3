//! Routes of blobs.

use crate::actions::blobs;
use crate::http::parameter::{Form, Parameter, in_header, in_path, in_query};
use crate::http::route::{ANY_KEY, Body, Content, Effect, GET, PUT, Route, UPLOAD, json, reply};
use crate::problem::Code;
use crate::wire;

const DIGEST: Parameter =
    in_path("digest", Form::Digest, "The BLAKE3 digest of the content, as `b3sum` prints it.");

pub(super) static ROUTES: &[Route] = &[
    Route {
        name: "putBlob",
        path: "/v1/blobs",
        summary: "Store a blob",
        notes: "The body is the content, of any type, up to `http_blob_bytes_max` of GET /v1/limits. The answer comes when it is durable. Known content is stored once. A blob that no execution names is deleted a day after it was last stored.",
        parameters: &[in_query(
            "task",
            Form::Text(32),
            "The token of the task whose output it will be. A worker may report only blobs that were uploaded for its task, with the `receipt` of the answer.",
        )],
        body: Body::Upload,
        replies: &[json::<wire::Blob>(201, "It is durable, under this digest.")],
        problems: &[Code::BadRequest, Code::BadParameter, Code::Overloaded],
        ..Route::new(PUT, "blobs", (UPLOAD, Effect::Unaudited), |server, call| {
            Box::pin(blobs::put(server, call))
        })
    },
    Route {
        name: "getBlob",
        path: "/v1/blobs/{digest}",
        summary: "Get a blob, or a range of it",
        notes: "Every byte is verified before it is sent. A reply that ends before its announced length is not whole: the server's log says why. Role viewer reads blobs that an execution names.",
        parameters: &[
            DIGEST,
            in_header(
                "range",
                Form::Text(256),
                "One range of bytes, for example `bytes=0-1023`. Anything else is ignored.",
            ),
        ],
        replies: &[
            reply(200, "The content, as an attachment.", Content::Bytes),
            reply(206, "The range that `content-range` says.", Content::Bytes),
        ],
        problems: &[
            Code::UnknownBlob,
            Code::RangeNotSatisfiable,
            Code::BlobDamaged,
            Code::Overloaded,
        ],
        ..Route::new(GET, "blobs", (ANY_KEY, Effect::Reads), |server, call| {
            Box::pin(blobs::get(server, call))
        })
    },
];
