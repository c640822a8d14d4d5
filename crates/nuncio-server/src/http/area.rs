//! Which part of the server a path belongs to: what credentials count there, and what may be read without any.

use ::http::Method;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// `/healthz` and `/readyz`.
    Probe,
    /// Pages for people, and the files they load.
    Page,
    Metrics,
    Aap,
    Skill,
    /// `/anp` and what an agent's description links.
    Anp,
    /// The directory of agents. No description links it.
    Directory,
    A2h,
    /// Everything else: documents of the server itself.
    Other,
}

impl Area {
    pub(super) fn of(path: &str) -> Self {
        let is_below =
            |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match path {
            "/healthz" | "/readyz" => Self::Probe,
            "/" => Self::Page,
            "/metrics" => Self::Metrics,
            _ if is_below("/console") => Self::Page,
            _ if is_below("/aap") => Self::Aap,
            _ if is_below("/a2h") => Self::A2h,
            _ if is_below("/anp") || is_below("/agents") => Self::Anp,
            _ if ["/skills", "/executions", "/registry/skills", "/.well-known/skill-sharing"]
                .iter()
                .any(|prefix| is_below(prefix)) =>
            {
                Self::Skill
            }
            _ if is_below("/registry") => Self::Directory,
            _ => Self::Other,
        }
    }

    /// Whether a request reads a document that is open to everyone. Wrong credentials do not matter there.
    pub(super) fn is_public_document(self, method: &Method, path: &str) -> bool {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return false;
        }
        match self {
            Self::Anp | Self::Directory | Self::Other => true,
            Self::Aap => path == "/aap/meta",
            Self::Skill => {
                let is_descriptor = path.starts_with("/skills/") && path.ends_with(".json");
                path.starts_with("/.well-known/") || path == "/registry/skills" || is_descriptor
            }
            Self::A2h => {
                let rest = path.strip_prefix("/a2h/agents").unwrap_or("-");
                let is_of_agents = match rest.split('/').nth(2) {
                    None => rest.is_empty() || rest.starts_with('/'),
                    Some(part) => part == "manifests",
                };
                is_of_agents || matches!(path, "/a2h/scopes" | "/a2h/auth/keys")
            }
            Self::Probe | Self::Page | Self::Metrics => false,
        }
    }

    /// Whether a person may come here by a link from another site. Nothing behind such a link acts.
    pub(super) fn may_be_navigated_to(self, method: &Method, path: &str) -> bool {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        is_read && matches!(self, Self::Page | Self::Probe) || self.is_public_document(method, path)
    }

    /// Whether the access token that a signed ANP request earns counts here.
    pub(super) const fn takes_anp_tokens(self) -> bool {
        matches!(self, Self::Anp)
    }

    /// Whether the access token of a person's device counts here.
    pub(super) const fn takes_person_tokens(self) -> bool {
        matches!(self, Self::A2h)
    }

    /// Whether the token of an agent's account counts here.
    pub(super) const fn takes_agent_tokens(self) -> bool {
        matches!(self, Self::A2h | Self::Aap | Self::Skill)
    }

    /// Whether signatures by a DID are checked before the route. ANP's routes and the directory check them themselves.
    pub(super) const fn takes_did_signatures(self) -> bool {
        matches!(self, Self::Aap | Self::Skill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_of_public_document_paths_is_a_public_document() {
        let is_public = |method: Method, path: &str| Area::of(path).is_public_document(&method, path);
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
    fn anp_tokens_are_accepted_only_on_anp_and_agent_paths() {
        for path in ["/anp", "/agents/desk/rpc", "/agents/desk/information/a.json"] {
            assert!(Area::of(path).takes_anp_tokens(), "{path}");
        }
        for path in ["/aap/sessions", "/metrics", "/registry/agents", "/skills/a/b/invoke", "/a2h/agents", "/anpx", "/"]
        {
            assert!(!Area::of(path).takes_anp_tokens(), "{path}");
        }
    }
}
