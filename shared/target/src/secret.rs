//! Text that must not be seen.

use std::fmt;
use std::sync::Arc;

/// A password or a token. It cannot be serialised, has no `Display`, and its
/// `Debug` hides it; whoever needs the text says [`Secret::expose`], which is
/// easy to find in a review.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<Arc<str>>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}
