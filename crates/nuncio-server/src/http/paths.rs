//! Which front a path belongs to, and so which credentials count there and how errors are worded.

use std::cmp::Reverse;

use nuncio_aap::server::AapFront;
use nuncio_http::front::{Front, PathRules, SignatureRule};

use crate::fronts::fronts;

/// Paths of the server itself.
const OWN: &[PathRules] = &[
    probe("/healthz"),
    probe("/readyz"),
    PathRules {
        did_signatures: SignatureRule::Refused,
        key_signatures: SignatureRule::Refused,
        ..PathRules::new("/metrics")
    },
    page("/"),
    page("/console"),
];

/// Documents of the server itself.
const OTHER: &PathRules = &PathRules::public("");

const fn probe(prefix: &'static str) -> PathRules {
    PathRules { serves_local: false, ..PathRules::public(prefix) }
}

const fn page(prefix: &'static str) -> PathRules {
    PathRules {
        did_signatures: SignatureRule::Refused,
        key_signatures: SignatureRule::Refused,
        takes_keys_elsewhere: true,
        is_page: true,
        ..PathRules::new(prefix)
    }
}

/// The rules of all paths with the front that answers there, the longest prefix first: below the path of one front
/// another may have its own.
pub(super) struct PathOwners(Vec<(&'static PathRules, &'static dyn Front)>);

impl PathOwners {
    pub(super) fn new() -> Self {
        let own = OWN.iter().map(|rules| (rules, &AapFront as &dyn Front));
        let of_fronts = fronts().flat_map(|front| front.paths().iter().map(move |rules| (rules, front)));
        let mut owners: Vec<_> = own.chain(of_fronts).collect();
        owners.sort_by_key(|(rules, _)| Reverse(rules.prefix.len()));
        Self(owners)
    }

    /// Errors on paths of the server itself are worded as in AAP.
    pub(super) fn front(&self, path: &str) -> &'static dyn Front {
        self.owner(path).1
    }

    pub(super) fn rules(&self, path: &str) -> &'static PathRules {
        self.owner(path).0
    }

    fn owner(&self, path: &str) -> (&'static PathRules, &'static dyn Front) {
        self.0.iter().copied().find(|(rules, _)| rules.covers(path)).unwrap_or((OTHER, &AapFront))
    }
}

#[cfg(test)]
mod tests {
    use ::http::Method;
    use nuncio_http::front::TokenKind;

    use super::*;

    #[test]
    fn public_documents_are_distinguished_from_acting_requests() {
        let owners = PathOwners::new();
        let is_public = |method: Method, path: &str| owners.rules(path).is_public_document(&method, path);
        for path in [
            "/aap/meta",
            "/openapi.json",
            "/.well-known/did.json",
            "/.well-known/skill-sharing",
            "/skills/desk/search.json",
            "/registry/skills",
            "/registry/agents",
            "/agents/desk/ad.json",
            "/agents/desk/interfaces/tools.json",
            "/a2h/agents",
            "/a2h/agents/desk",
            "/a2h/agents/desk/manifests/3",
            "/a2h/scopes",
        ] {
            assert!(is_public(Method::GET, path), "{path}");
            assert!(!is_public(Method::POST, path), "{path}");
        }
        for path in [
            "/",
            "/metrics",
            "/aap/sessions",
            "/aap/metadata",
            "/skills/desk/search/invoke",
            "/executions/exe_1",
            "/executions/exe_1/result",
            "/a2h/agents/desk/messages/poll",
            "/a2h/agents/desk/deliveries",
            "/a2h/agentsx",
            "/a2h/users/me",
            "/console/tasks",
        ] {
            assert!(!is_public(Method::GET, path), "{path}");
        }
    }

    #[test]
    fn anp_tokens_count_only_where_descriptions_link() {
        let owners = PathOwners::new();
        let takes_anp_tokens = |path: &str| owners.rules(path).tokens.contains(&TokenKind::Did);
        for path in ["/anp", "/agents/desk/rpc", "/agents/desk/information/a.json"] {
            assert!(takes_anp_tokens(path), "{path}");
        }
        for path in ["/aap/sessions", "/metrics", "/registry/agents", "/skills/a/b/invoke", "/a2h/agents", "/anpx", "/"]
        {
            assert!(!takes_anp_tokens(path), "{path}");
        }
    }

    #[test]
    fn longest_prefix_owns_a_path() {
        let owners = PathOwners::new();
        for (path, name) in [
            ("/registry/skills", "Skill Sharing"),
            ("/registry/agents/x", "ANP"),
            ("/registry/other", "Skill Sharing"),
            ("/agents/desk/did.json", "ANP"),
            ("/a2h/users/me", "A2H"),
            ("/aapx", "AAP"),
            ("*", "AAP"),
        ] {
            assert_eq!(owners.front(path).name(), name, "{path}");
        }
    }
}
