//! Query parameters and links of paged lists.

use http::{HeaderValue, Uri};
use url::form_urlencoded;

/// Decoded query parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    #[must_use]
    pub fn of(uri: &Uri) -> Self {
        Self(form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// Decoded names and values, in the order of the query.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// URL of the same query at `address` with another cursor; without a cursor, the first page.
    #[must_use]
    pub fn at(&self, address: &str, cursor: Option<&str>) -> String {
        let same = self.pairs().filter(|(name, _)| *name != "cursor");
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(same).extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        let query = query.finish();
        if query.is_empty() { address.to_owned() } else { format!("{address}?{query}") }
    }
}

/// `Link: <…>; rel="next"`; `None` if the address is not a valid header value.
#[must_use]
pub fn next_link(address: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{address}>; rel=\"next\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_url_replaces_the_cursor_and_keeps_other_parameters() {
        let asked = QueryParameters::of(&"/x?q=a%20b&tag=1&tag=2&cursor=old".parse().unwrap());
        assert_eq!(asked.pairs().filter(|(name, _)| *name == "tag").count(), 2);
        assert_eq!(asked.at("https://h/x", Some("a&b")), "https://h/x?q=a+b&tag=1&tag=2&cursor=a%26b");
        assert_eq!(QueryParameters::of(&"/x".parse().unwrap()).at("https://h/x", None), "https://h/x");
    }
}
