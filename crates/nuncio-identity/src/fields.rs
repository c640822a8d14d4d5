//! Access to HTTP header fields, independent of how they are stored.

use std::borrow::Cow;

/// A collection of HTTP header fields.
pub trait HeaderFields {
    /// The value of a header field: all lines of that name, trimmed and joined by `, `. `None` if there is no such
    /// line, or if one of them is not UTF-8.
    fn field(&self, name: &str) -> Option<Cow<'_, str>>;
}

impl HeaderFields for http::HeaderMap {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut lines = self.get_all(name).iter();
        let first = std::str::from_utf8(lines.next()?.as_bytes()).ok()?.trim();
        join(first, lines.map(|line| std::str::from_utf8(line.as_bytes()).ok()))
    }
}

impl<N: AsRef<str>, V: AsRef<str>> HeaderFields for [(N, V)] {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut lines = self.iter().filter(|(given, _)| given.as_ref().eq_ignore_ascii_case(name));
        let first = lines.next()?.1.as_ref().trim();
        join(first, lines.map(|(_, value)| Some(value.as_ref())))
    }
}

impl<N: AsRef<str>, V: AsRef<str>> HeaderFields for Vec<(N, V)> {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.as_slice().field(name)
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const L: usize> HeaderFields for [(N, V); L] {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.as_slice().field(name)
    }
}

fn join<'a>(first: &'a str, rest: impl Iterator<Item = Option<&'a str>>) -> Option<Cow<'a, str>> {
    let mut joined = Cow::Borrowed(first);
    for line in rest {
        let text = joined.to_mut();
        text.push_str(", ");
        text.push_str(line?.trim());
    }
    Some(joined)
}
