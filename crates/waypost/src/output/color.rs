//! Is a stream in colour? By default if it is a terminal that supports colours.

use std::ffi::OsString;

use clap::ValueEnum;

/// The user's choice of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    /// On terminals that support them
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// Is a stream, which is a terminal or not, to be in colour?
    pub fn is_wanted(self, terminal: bool) -> bool {
        self.is_wanted_in(terminal, |name| std::env::var_os(name))
    }

    fn is_wanted_in(self, terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        let unwanted = || variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = || variable("TERM").is_some_and(|value| value == "dumb");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => terminal && !unwanted() && !dumb(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_wanted_on_terminals_that_show_it() {
        let wanted = |color: Color, terminal, variables: &[(&str, &str)]| {
            color.is_wanted_in(terminal, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert!(wanted(Color::Auto, true, &[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(!wanted(Color::Auto, false, &[("TERM", "xterm")]));
        assert!(!wanted(Color::Auto, true, &[("NO_COLOR", "1")]));
        assert!(!wanted(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(!wanted(Color::Never, true, &[]));
        assert!(wanted(Color::Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")]));
    }
}
