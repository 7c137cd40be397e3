//! The macro that declares metrics.

/// Declares a struct of metrics. One line is a field, its constructor, its name on the page, which is
/// `waypost_` and the name of the field, and its explanation there. Names of counters end in `_total`.
#[macro_export]
macro_rules! metrics {
    ($(#[$doc:meta])* pub struct $Metrics:ident {
        $($name:ident: $Kind:ident $(($($with:tt)*))?, $help:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $Metrics {
            $(#[doc = $help] pub $name: $Kind,)*
        }

        impl Default for $Metrics {
            fn default() -> Self {
                Self { $($name: $crate::metrics!(@new $Kind $(($($with)*))?),)* }
            }
        }

        impl $Metrics {
            /// Calls `visit` with name, explanation and metric, in the order of the page.
            pub fn each(&self, mut visit: impl FnMut(&str, &str, &dyn $crate::metrics::Metric)) {
                $(visit(concat!("waypost_", stringify!($name)), $help, &self.$name);)*
            }

            /// Writes them to the page.
            pub fn render(&self, out: &mut String) {
                self.each(|name, help, metric| $crate::metrics::write_metric(name, help, metric, out));
            }
        }
    };
    (@new $Kind:ident) => { $Kind::default() };
    (@new $Kind:ident ($($with:tt)*)) => { $Kind::new($($with)*) };
}
