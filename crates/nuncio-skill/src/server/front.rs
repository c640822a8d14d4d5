use axum::response::{IntoResponse as _, Response};
use nuncio_core::agent::{Agent, Skill, SkillAccess, SkillAuth, SkillHttpMethod, Tool};
use nuncio_core::policy::Protocol;
use nuncio_core::text::TextByLanguage;
use nuncio_engine::EngineError;
use nuncio_http::front::{
    OpenApiPart, PathRules, PathSignatureRule, ProtocolEntryPoint, ProtocolFront, SampleRequest, ServerTokenKind,
    sample, shell_quoted, title,
};
use serde_json::{Value, json};

use super::refuse::SkillError;
use crate::{openapi, project};

const INDEX: &str = "/.well-known/skill-sharing";

/// Other protocols publish documents below `/registry`, so that prefix is public.
const PATHS: &[PathRules] = &[
    paths_below(INDEX, |_| true),
    // Addresses that clients guess; there is nothing, which the envelope says too.
    PathRules::public("/.well-known/skill-sharing.json"),
    PathRules::public("/skills.json"),
    paths_below("/skills", |path| path.ends_with(".json")),
    paths_below("/executions", |_| false),
    paths_below("/registry/skills", |path| path == "/registry/skills"),
    PathRules::public("/registry"),
];

/// Rules without a check of signing keys, because the route checks them once it knows the skill.
const fn paths_below(prefix: &'static str, is_public: fn(&str) -> bool) -> PathRules {
    PathRules {
        is_public,
        public_varies: true,
        tokens: &[ServerTokenKind::Agent],
        did_signatures: PathSignatureRule::Checked,
        takes_keys_elsewhere: true,
        ..PathRules::new(prefix)
    }
}

/// Skill Sharing as one of the protocols that the HTTP server mounts.
#[derive(Debug)]
pub struct SkillFront;

impl ProtocolFront for SkillFront {
    fn protocol(&self) -> Protocol {
        Protocol::Skill
    }

    fn name(&self) -> &'static str {
        "Skill Sharing"
    }

    fn title(&self) -> &'static str {
        "Skill Sharing 1.0"
    }

    fn entry_point(&self) -> ProtocolEntryPoint {
        let shows = |agent: &Agent| listed(agent).next().is_some();
        ProtocolEntryPoint { label: "skills", document: INDEX, of_several_agents: None, json: ("skills", INDEX), shows }
    }

    fn paths(&self) -> &'static [PathRules] {
        PATHS
    }

    fn refuse(&self, error: &EngineError) -> Response {
        SkillError::from(error.clone()).into_response()
    }

    fn openapi(&self) -> OpenApiPart {
        let routes = super::table().into_iter().flat_map(|(path, _)| match path {
            // This route serves two operations, because a skill id may have several path segments.
            "/skills/{*path}" => vec!["/skills/{id}.json".to_owned(), "/skills/{id}/invoke".to_owned()],
            path => vec![path.to_owned()],
        });
        OpenApiPart { prefix: "", paths: openapi::PATHS, components: openapi::components(), routes: routes.collect() }
    }

    fn documents(&self, agent: &Agent) -> Vec<SampleRequest> {
        let mut skills = listed(agent).peekable();
        let index =
            skills.peek().map(|_| SampleRequest::document(title("The skills of this host", "本主机的技能"), INDEX));
        let skills = skills.map(|(tool, skill)| {
            let inputs = tool.map_or_else(|| json!({"text": "…"}), |tool| sample(tool.input.source()));
            let name = TextByLanguage::english(skill.name.clone());
            SampleRequest {
                request: Some(format!("/skills/{}/invoke", skill.id)),
                arguments: [credential(&skill.auth), invocation(skill, &inputs)].concat(),
                ..SampleRequest::document(name, format!("/skills/{}.json", skill.id))
            }
        });
        index.into_iter().chain(skills).collect()
    }

    fn inexpressible(&self, agent: &Agent) -> Vec<String> {
        project::inexpressible(agent)
    }
}

/// Skills in the public index, each with the tool behind it.
fn listed(agent: &Agent) -> impl Iterator<Item = (Option<&Tool>, &Skill)> {
    let is_listed = |(tool, skill): &(Option<&Tool>, &Skill)| {
        skill.access != SkillAccess::Private && !tool.is_some_and(Tool::on_device)
    };
    project::skills(agent).filter(is_listed)
}

/// The credential header of a skill, with the secret in a shell variable.
fn credential(auth: &SkillAuth) -> String {
    match auth {
        SkillAuth::ApiKey { header } => format!("-H \"{header}: $NUNCIO_KEY\" "),
        SkillAuth::OAuth2 { .. } => "-H \"authorization: Bearer $NUNCIO_KEY\" ".to_owned(),
        SkillAuth::None | SkillAuth::Custom => String::new(),
    }
}

/// The `curl` arguments that invoke a skill with its own method.
fn invocation(skill: &Skill, inputs: &Value) -> String {
    let body = json!({"caller": {"id": "me", "type": "user"}, "skill_id": skill.id, "inputs": inputs});
    let body = || format!("-H 'content-type: application/json' -d {}", shell_quoted(&body.to_string()));
    let query = || {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let pairs = inputs.as_object().into_iter().flatten();
        let pair = |(name, value)| format!(" --data-urlencode {}", shell_quoted(&format!("{name}={}", text(value))));
        pairs.map(pair).collect()
    };
    match skill.method {
        SkillHttpMethod::Post => body(),
        SkillHttpMethod::Put => format!("-X PUT {}", body()),
        SkillHttpMethod::Get => ["-G".to_owned(), query()].concat(),
        SkillHttpMethod::Delete => ["-X DELETE -G".to_owned(), query()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(skill: &str) -> (String, String) {
        let head = "[agent]\nname = \"desk\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n";
        let input = "input = { type = \"object\", required = [\"q\"], properties = { q = { enum = [\"it's\"] } } }";
        let tool =
            format!("[[tool]]\nname = \"find\"\ndescription = \"Finds.\"\nrun = {{ command = [\"cat\"] }}\n{input}\n");
        let text = format!("{head}{tool}skill = {{ type = \"api\", {skill} }}\n");
        let agent = nuncio_agent_file::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}")).agent;
        let mut documents = SkillFront.documents(&agent);
        let document = documents.pop().unwrap();
        assert_eq!((documents.len(), document.path.as_str()), (1, "/skills/desk/find.json"));
        (document.request.unwrap(), document.arguments)
    }

    #[test]
    fn curl_example_uses_the_method_and_credentials_of_the_skill() {
        let (request, arguments) = command("method = \"GET\"");
        assert_eq!(
            (request.as_str(), arguments.as_str()),
            ("/skills/desk/find/invoke", r"-G --data-urlencode 'q=it'\''s'")
        );
        let (_, arguments) = command("access = \"restricted\", auth = \"api_key\"");
        assert!(
            arguments.starts_with("-H \"X-API-Key: $NUNCIO_KEY\" -H 'content-type: application/json' -d '{"),
            "{arguments}"
        );
        assert!(command("method = \"PUT\"").1.starts_with("-X PUT -H"));
        assert!(command("method = \"DELETE\"").1.starts_with("-X DELETE -G --data-urlencode"));
    }
}
