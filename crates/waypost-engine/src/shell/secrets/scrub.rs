//! The scrubber: replaces a task's secrets, in every form it knows, in what the task gives back.
//!
//! JSON is scrubbed by what its strings say, not by how they are spelled: `"\u0063anary"` is a
//! canary. The strings are laid out one after the other (`layout.rs`), searched for each form once,
//! and only those in which something was found are written anew; so the cost grows with the size of
//! the output, and numbers and all other text stay to the letter.
//!
//! Outputs are cut off at limits, and a limit may fall into the middle of a secret: the beginning
//! of a form at the end of a text, and its end at the beginning of one, count as the form, if they
//! are a quarter of it or so. Less of it is useless, and would be found in many an innocent text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memmem::Finder;
use waypost_core::command::{Mark, Outcome};
use waypost_core::failure::Failure;
use waypost_core::json::Json;

use super::forms::{Form, Within, forms};
use super::layout::{Layout, View};

const MASK: &str = "***";
/// The shortest form that is searched for.
pub(super) const FORM_BYTES_MIN: usize = 4;
/// So much of a form at the edge of a text is enough of it, however long it is.
const CUT_BYTES_MAX: usize = 16;

/// Removes secrets from a task's outcome. The default one has none.
#[derive(Default)]
pub(in crate::shell) struct Scrubber {
    needles: Vec<Needle>,
    /// Is a text in which something is found masked as a whole?
    whole_texts: bool,
}

impl Scrubber {
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let forms: BTreeSet<Form> = values.flat_map(forms).collect();
        Self { needles: forms.into_iter().map(Needle::new).collect(), whole_texts: false }
    }

    /// Masks each text as a whole in which there is this one: for the beginning of a value.
    pub(super) fn of_whole_texts(beginning: &str) -> Self {
        Self { whole_texts: true, ..Self::new(std::iter::once(beginning)) }
    }

    pub(in crate::shell) fn outcome(&self, outcome: Outcome) -> Outcome {
        if self.needles.is_empty() {
            return outcome;
        }
        match outcome {
            Outcome::Completed(output) => Outcome::Completed(self.json(&output)),
            Outcome::Checkpoint(mark) => {
                Outcome::Checkpoint(Mark { data: self.json(&mark.data), ..mark })
            }
            Outcome::Failed(failure) => Outcome::Failed(self.failure(failure)),
            Outcome::Lost(failure) => Outcome::Lost(self.failure(failure)),
            Outcome::Cancelled | Outcome::Started | Outcome::Blocked(_) => outcome,
        }
    }

    fn failure(&self, failure: Failure) -> Failure {
        // A kind from our own sources holds no secret, and retries are decided by it.
        let kind = match failure.kind {
            Cow::Owned(kind) => self.text(&kind).unwrap_or(kind).into(),
            known @ Cow::Borrowed(_) => known,
        };
        Failure {
            kind,
            message: self.text(&failure.message).unwrap_or(failure.message),
            details: failure.details.map(|details| self.json(&details)),
            ..failure
        }
    }

    /// The text without secrets, where it has any.
    pub(super) fn text(&self, text: &str) -> Option<String> {
        let layout = Layout::of_text(text);
        let hits = self.hits(&layout);
        (!hits.is_empty()).then(|| self.masked(&layout.bytes, 0..text.len(), &hits))
    }

    pub(super) fn json(&self, json: &Json) -> Json {
        let layout = Layout::of_json(json.text());
        let hits = self.hits(&layout);
        if hits.is_empty() {
            return json.clone();
        }
        let mut out = String::with_capacity(json.bytes());
        let (mut copied, mut rest) = (0, hits.as_slice());
        for piece in &layout.pieces {
            let (here, later) =
                rest.split_at(rest.partition_point(|hit| hit.start < piece.laid.end));
            rest = later;
            if here.is_empty() {
                continue;
            }
            out.push_str(json.text().get(copied..piece.source.start).unwrap_or_default());
            copied = piece.source.end;
            // A number in which a secret was found becomes a text.
            let text = self.masked(&layout.bytes, piece.laid.clone(), here);
            out.push_str(&serde_json::Value::from(text).to_string());
        }
        out.push_str(json.text().get(copied..).unwrap_or_default());
        // It was JSON before, and only whole values were replaced; if not, nothing of it may go out.
        Json::parse_own(&out).unwrap_or_else(|_| Json::from_value(&MASK.into()))
    }

    fn masked(&self, bytes: &[u8], piece: Range<usize>, hits: &[Range<usize>]) -> String {
        match self.whole_texts {
            true => MASK.to_owned(),
            false => masked(bytes, piece, hits),
        }
    }

    /// The ranges of secrets, in order and disjoint.
    fn hits(&self, layout: &Layout) -> Vec<Range<usize>> {
        let mut hits = Vec::new();
        for within in Within::ALL {
            let view = match within {
                Within::Text => Some(layout.view().folded()),
                Within::Unescaped => layout.unescaped().map(View::folded),
                Within::Unpercented => layout.unpercented().map(View::folded),
                Within::Entities => layout.unreferenced().map(View::folded),
                Within::Hex => Some(layout.unwrapped().folded()),
                Within::Base64 => Some(layout.unwrapped()),
            };
            let Some(view) = view else { continue };
            let first = hits.len();
            for needle in self.needles.iter().filter(|needle| needle.within == *within) {
                needle.find(&view, &mut hits);
            }
            if *within == Within::Base64 {
                let found = hits.get_mut(first..).unwrap_or_default();
                found.iter_mut().for_each(|hit| spread(hit, &layout.bytes));
            }
        }
        hits.sort_unstable_by_key(|hit| hit.start);
        hits.dedup_by(|next, before| {
            let meets = next.start <= before.end;
            if meets {
                before.end = before.end.max(next.end);
            }
            meets
        });
        hits
    }
}

/// Takes in the characters beside it, which may hold bits of the value.
fn spread(hit: &mut Range<usize>, bytes: &[u8]) {
    let is_base64 =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b"+/-_".contains(b));
    if hit.start > 0 && is_base64(bytes.get(hit.start - 1)) {
        hit.start -= 1;
    }
    if is_base64(bytes.get(hit.end)) {
        hit.end += 1;
    }
}

fn masked(bytes: &[u8], piece: Range<usize>, hits: &[Range<usize>]) -> String {
    let text = |range: Range<usize>| {
        String::from_utf8_lossy(bytes.get(range).unwrap_or_default()).into_owned()
    };
    let (mut out, mut copied) = (String::new(), piece.start);
    for hit in hits {
        out.push_str(&text(copied..hit.start));
        out.push_str(MASK);
        copied = hit.end;
    }
    out.push_str(&text(copied..piece.end));
    out
}

struct Needle {
    finder: Finder<'static>,
    within: Within,
    /// The form from its beginning, and from its end.
    ways: [Way; 2],
}

impl Needle {
    fn new(form: Form) -> Self {
        let backwards = form.bytes.iter().rev().copied().collect();
        Self {
            finder: Finder::new(&form.bytes).into_owned(),
            within: form.within,
            ways: [Way::new(form.bytes), Way::new(backwards)],
        }
    }

    fn find(&self, view: &View, hits: &mut Vec<Range<usize>>) {
        let length = self.finder.needle().len();
        let whole = self.finder.find_iter(&view.bytes).map(|start| start..start + length);
        let cut = view.texts.iter().flat_map(|text| self.find_cut(view, text)).flatten();
        hits.extend(whole.chain(cut).map(|range| view.origin(range)));
    }

    /// A form cut off at the end of a text, and one cut off at its beginning.
    fn find_cut(&self, view: &View, text: &Range<usize>) -> [Option<Range<usize>>; 2] {
        let Range { start, end } = view.uncut(text);
        let length = self.finder.needle().len();
        let enough = (length / 4).clamp(FORM_BYTES_MIN, CUT_BYTES_MAX);
        let reach = length.min(end - start);
        if reach < enough {
            return [None, None];
        }
        let [forwards, backwards] = &self.ways;
        let tail = view.bytes.get(end - reach..end).unwrap_or_default();
        let head = view.bytes.get(start..start + reach).unwrap_or_default();
        let begun = forwards.begun(tail.iter());
        let ended = backwards.begun(head.iter().rev());
        [
            (begun >= enough).then_some(end - begun..end),
            (ended >= enough).then_some(start..start + ended),
        ]
    }
}

/// A form in one direction, with the table of the Knuth-Morris-Pratt algorithm: it finds how much
/// of the form is at the end of a text, in time that grows with the text alone.
struct Way {
    bytes: Vec<u8>,
    /// For each prefix, the length of the longest shorter one that it ends with.
    borders: Vec<usize>,
}

impl Way {
    fn new(bytes: Vec<u8>) -> Self {
        let mut way = Self { borders: vec![0; bytes.len()], bytes };
        let mut border = 0;
        for at in 1..way.bytes.len() {
            border = way.step(border, way.bytes[at]);
            way.borders[at] = border;
        }
        way
    }

    /// How much has begun after one more byte.
    fn step(&self, mut begun: usize, byte: u8) -> usize {
        while begun > 0 && self.bytes.get(begun) != Some(&byte) {
            begun = self.borders[begun - 1];
        }
        begun + usize::from(self.bytes.get(begun) == Some(&byte))
    }

    fn begun<'a>(&self, text: impl Iterator<Item = &'a u8>) -> usize {
        text.fold(0, |begun, byte| self.step(begun, *byte))
    }
}
