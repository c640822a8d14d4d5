//! Parses a chat target: a URL, a domain, or this machine.

use nuncio_core::address;
use url::Url;

/// The base URLs at which AAP may be served, the likeliest first.
pub(super) fn candidates(target: &str) -> Result<Vec<Url>, String> {
    let mut url = address::read(target).map_err(|why| format!("{target:?} is not the address of a server: {why}"))?;
    url.set_query(None);
    url.set_fragment(None);
    if url.path().trim_matches('/').is_empty() {
        let mut below = url.clone();
        below.set_path("/aap");
        return Ok(vec![below, url]);
    }
    Ok(vec![url])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate_urls(target: &str) -> Vec<String> {
        candidates(target).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn chat_target_without_path_is_tried_at_aap_before_the_root() {
        assert_eq!(candidate_urls("localhost:7400"), ["http://localhost:7400/aap", "http://localhost:7400/"]);
        assert_eq!(
            candidate_urls("agents.example:8443"),
            ["https://agents.example:8443/aap", "https://agents.example:8443/"]
        );
        assert_eq!(candidate_urls("https://localhost:1/"), ["https://localhost:1/aap", "https://localhost:1/"]);
    }

    #[test]
    fn chat_target_with_a_path_is_tried_at_that_path_only() {
        assert_eq!(candidate_urls("https://agents.example/v3/aap?x=1#y"), ["https://agents.example/v3/aap"]);
        assert_eq!(candidate_urls("localhost:7400/aap"), ["http://localhost:7400/aap"]);
    }

    #[test]
    fn chat_target_that_is_no_http_url_or_contains_credentials_is_refused() {
        for bad in ["", "ftp://a", "https://user:word@a", "a b", "https://"] {
            assert!(candidates(bad).is_err(), "{bad:?}");
        }
    }
}
