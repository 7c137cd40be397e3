//! A terminal's screen, as far as the program makes use of it: text, line ends, colours, the cursor
//! up, and clearing. Lines wrap as on real terminals, and are wrapped anew when it is resized.

use unicode_width::UnicodeWidthChar;

/// A row of the screen, or of what was scrolled off it.
#[derive(Clone, Default, Debug)]
struct Row {
    /// Characters with their columns.
    cells: Vec<(char, usize)>,
    /// Does the line go on in the next row?
    wraps: bool,
}

impl Row {
    fn width(&self) -> usize {
        self.cells.iter().map(|(_, width)| width).sum()
    }
}

/// The screen, and all that was scrolled off it.
pub(super) struct Screen {
    columns: usize,
    height: usize,
    rows: Vec<Row>,
    /// The cursor's row; it stands behind the last character of it, or at its beginning.
    cursor: usize,
    at_start: bool,
}

impl Screen {
    pub(super) fn new(columns: usize, height: usize) -> Self {
        Self { columns, height, rows: vec![Row::default()], cursor: 0, at_start: true }
    }

    /// Takes what a program wrote.
    pub(super) fn feed(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(char) = rest.next() {
            match char {
                '\r' => self.at_start = true,
                '\n' => self.next_row(false),
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['), "an escape that is not known");
                    let code = rest.as_str();
                    let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    self.escape(&code[..end], &code[end..=end]);
                    rest = code[end + 1..].chars();
                }
                char => self.put(char),
            }
        }
    }

    fn escape(&mut self, number: &str, what: &str) {
        match what {
            "m" => {}
            "A" => {
                // Not beyond the top of the screen.
                let top = self.rows.len().saturating_sub(self.height);
                let up: usize = number.parse().unwrap_or(1);
                self.cursor = self.cursor.saturating_sub(up).max(top);
            }
            "J" | "K" => {
                assert!(self.at_start, "only whole lines are cleared");
                self.rows[self.cursor].cells.clear();
                if what == "J" {
                    self.rows.truncate(self.cursor + 1);
                }
                if let Some(before) = self.cursor.checked_sub(1) {
                    self.rows[before].wraps = false;
                }
                self.rows[self.cursor].wraps = false;
            }
            other => panic!("an escape that is not known: {number}{other}"),
        }
    }

    fn put(&mut self, char: char) {
        let width = char.width().unwrap_or(0);
        if std::mem::take(&mut self.at_start) {
            assert!(self.rows[self.cursor].cells.is_empty(), "a line is written over another");
        }
        if self.rows[self.cursor].width() + width > self.columns {
            self.next_row(true);
            self.at_start = false;
        }
        self.rows[self.cursor].cells.push((char, width));
    }

    fn next_row(&mut self, wraps: bool) {
        self.rows[self.cursor].wraps = wraps;
        self.cursor += 1;
        self.at_start = true;
        if self.cursor == self.rows.len() {
            self.rows.push(Row::default());
        }
    }

    /// Changes the width: lines that were too wide are wrapped anew.
    pub(super) fn resize(&mut self, columns: usize) {
        assert!(self.cursor + 1 == self.rows.len() && self.at_start, "the cursor is at the end");
        let rows = std::mem::replace(&mut self.rows, vec![Row::default()]);
        (self.columns, self.cursor) = (columns, 0);
        let last = rows.len() - 1;
        for (at, row) in rows.into_iter().enumerate() {
            row.cells.iter().for_each(|(char, _)| self.put(*char));
            if at < last && !row.wraps {
                self.next_row(false);
            }
        }
        self.at_start = true;
    }

    /// All that is to be read, without blanks at the ends of lines and of the whole.
    pub(super) fn text(&self) -> String {
        let line = |row: &Row| row.cells.iter().map(|(char, _)| *char).collect::<String>();
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(&line(row));
            if !row.wraps {
                text.truncate(text.trim_end_matches(' ').len());
                text.push('\n');
            }
        }
        text.trim_end().to_owned()
    }
}
