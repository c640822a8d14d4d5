//! The front that owns each path, which decides which credentials are accepted on the path and the format of errors.

use std::cmp::Reverse;

use nuncio_auth::PathOwner;
use nuncio_http::front::{PathRules, PathSignatureRule};

use crate::fronts::fronts;

/// Paths of the server itself.
const SERVER_PATHS: &[PathRules] = &[
    probe("/healthz"),
    probe("/readyz"),
    PathRules {
        did_signatures: PathSignatureRule::Refused,
        key_signatures: PathSignatureRule::Refused,
        ..PathRules::new("/metrics")
    },
    page("/"),
    page("/console"),
];

/// Rules of all other paths: public documents of the server itself.
const OTHER_PATHS: &PathRules = &PathRules::public("");

const fn probe(prefix: &'static str) -> PathRules {
    PathRules { serves_local: false, ..PathRules::public(prefix) }
}

const fn page(prefix: &'static str) -> PathRules {
    PathRules {
        did_signatures: PathSignatureRule::Refused,
        key_signatures: PathSignatureRule::Refused,
        takes_keys_elsewhere: true,
        is_page: true,
        ..PathRules::new(prefix)
    }
}

/// The rules of all paths and the front that answers there, the longest prefix with its suffix first, since a front may
/// own paths below those of another.
pub(super) struct PathOwners(Vec<PathOwner>);

impl PathOwners {
    pub(super) fn new() -> Self {
        let own = SERVER_PATHS.iter().map(|rules| PathOwner { rules, front: None });
        let of_fronts =
            fronts().flat_map(|front| front.paths().iter().map(move |rules| PathOwner { rules, front: Some(front) }));
        let mut owners: Vec<_> = own.chain(of_fronts).collect();
        owners.sort_by_key(|owner| Reverse(owner.rules.prefix.len() + owner.rules.suffix.len()));
        Self(owners)
    }

    /// The owner of a path: a front, or the server itself.
    pub(super) fn owner(&self, path: &str) -> PathOwner {
        let owner = self.0.iter().copied().find(|owner| owner.rules.covers(path));
        owner.unwrap_or(PathOwner { rules: OTHER_PATHS, front: None })
    }
}

#[cfg(test)]
mod tests {
    use ::http::Method;
    use nuncio_http::front::{ProtocolFront, ServerTokenKind};

    use super::*;

    #[test]
    fn public_documents_are_recognised_by_path_and_only_for_get() {
        let owners = PathOwners::new();
        let is_public = |method: Method, path: &str| owners.owner(path).rules.is_public_document(&method, path);
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
    fn did_tokens_are_accepted_only_on_paths_that_agent_descriptions_link_to() {
        let owners = PathOwners::new();
        let takes_anp_tokens = |path: &str| owners.owner(path).rules.tokens.contains(&ServerTokenKind::Did);
        for path in ["/anp", "/agents/desk/rpc", "/agents/desk/information/a.json"] {
            assert!(takes_anp_tokens(path), "{path}");
        }
        for path in ["/aap/sessions", "/metrics", "/registry/agents", "/skills/a/b/invoke", "/a2h/agents", "/anpx", "/"]
        {
            assert!(!takes_anp_tokens(path), "{path}");
        }
    }

    #[test]
    fn path_belongs_to_the_protocol_with_the_longest_matching_path_prefix() {
        let owners = PathOwners::new();
        for (path, name) in [
            ("/registry/skills", Some("Skill Sharing")),
            ("/registry/agents/x", Some("ANP")),
            ("/registry/other", Some("Skill Sharing")),
            ("/agents/desk/did.json", Some("ANP")),
            ("/agents/desk/mcp", Some("MCP")),
            ("/agents/mcp/ad.json", Some("ANP")),
            ("/mcp", Some("MCP")),
            ("/a2h/users/me", Some("A2H")),
            ("/aap/meta", Some("AAP")),
            ("/aapx", None),
            ("/metrics", None),
            ("*", None),
        ] {
            assert_eq!(owners.owner(path).front.map(ProtocolFront::name), name, "{path}");
        }
    }
}
