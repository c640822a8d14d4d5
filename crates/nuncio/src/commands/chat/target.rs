//! Where to: an address, a domain, or this machine.

use url::{Host, Url};

/// The addresses below which AAP may begin, the likeliest first.
pub(super) fn candidates(target: &str) -> Result<Vec<Url>, String> {
    let wrong = |why: &str| format!("{target:?} is no address of a server: {why}");
    let text = if target.contains("://") { target.to_owned() } else { format!("https://{target}") };
    let mut url = Url::parse(&text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only http: and https: are spoken"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it carries a user name or password; give a key with --key"));
    }
    if !target.contains("://") && is_local(&url) {
        // From https to http is a change the parser allows, and the port stays as it was written.
        url = Url::parse(&format!("http://{target}")).map_err(|error| wrong(&error.to_string()))?;
    }
    url.set_query(None);
    url.set_fragment(None);
    if url.path().trim_matches('/').is_empty() {
        let mut below = url.clone();
        below.set_path("/aap");
        return Ok(vec![below, url]);
    }
    Ok(vec![url])
}

/// Whether what is sent there can be read on the way.
pub(super) fn is_in_clear(url: &Url) -> bool {
    url.scheme() == "http" && !is_local(url)
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(target: &str) -> Vec<String> {
        candidates(target).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_host_is_tried_below_aap_first() {
        assert_eq!(tried("localhost:7400"), ["http://localhost:7400/aap", "http://localhost:7400/"]);
        assert_eq!(tried("localhost"), ["http://localhost/aap", "http://localhost/"]);
        assert_eq!(tried("[::1]:7400"), ["http://[::1]:7400/aap", "http://[::1]:7400/"]);
        assert_eq!(tried("127.0.0.1:80"), ["http://127.0.0.1/aap", "http://127.0.0.1/"]);
        assert_eq!(tried("agents.example"), ["https://agents.example/aap", "https://agents.example/"]);
        assert_eq!(tried("agents.example:8443"), ["https://agents.example:8443/aap", "https://agents.example:8443/"]);
        assert_eq!(tried("https://localhost:1/"), ["https://localhost:1/aap", "https://localhost:1/"]);
    }

    #[test]
    fn an_address_with_a_path_is_taken_at_its_word() {
        assert_eq!(tried("https://agents.example/v3/aap?x=1#y"), ["https://agents.example/v3/aap"]);
        assert_eq!(tried("localhost:7400/aap"), ["http://localhost:7400/aap"]);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["", "ftp://a", "https://user:word@a", "a b", "https://"] {
            assert!(candidates(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn plain_http_beyond_this_machine_is_noticed() {
        assert!(is_in_clear(&"http://agents.example".parse().unwrap()));
        assert!(!is_in_clear(&"http://localhost:1".parse().unwrap()));
        assert!(!is_in_clear(&"https://agents.example".parse().unwrap()));
    }
}
