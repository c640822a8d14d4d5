//! Taking a request for an execution: who asks, what for, and the answer that it is on disk.

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nuncio_core::Code;
use nuncio_core::agent::{Skill, SkillAuth};
use nuncio_engine::invoke::{Refusal, Submitted};
use nuncio_engine::skills::Barred;
use nuncio_engine::{Caller, Credential, Engine, EngineError, Identity};
use nuncio_http::{CredentialPlace, idempotency_key, is_json, report_caller};
use url::form_urlencoded;

use super::executions::{answer, asked_wait};
use super::{Checked, SkillError, Skills, by_key, caller, nobody, not_found};
use crate::lift::{self, Head};
use crate::wire::{Credentials, InvocationRequest};

/// How long a query with inputs may be.
const MAX_QUERY: usize = 8 * 1024;

/// `POST /skills/{id}/invoke`, and the method the skill itself declares.
pub(super) async fn invoke(skills: &Skills, id: &str, request: Request) -> Result<Response, SkillError> {
    let (parts, body) = request.into_parts();
    let (method, headers) = (&parts.method, &parts.headers);
    let identity = parts.extensions.get::<Identity>();
    // What is wrong with a request is not told before it is known that the skill exists for whoever asks;
    // and as much is done for one that does not exist, so that nobody can tell the two apart.
    let bytes = skills.bodies.read(&skills.engine, &parts.extensions, body, CredentialPlace::Body).await;
    let mut read = lift::read(bytes.as_deref().unwrap_or_default());
    let credentials = read.as_mut().ok().and_then(InvocationRequest::take_credentials);
    let asks = Asks::of(caller(headers, identity, &skills.engine));
    let signed = skills.custom.check(&parts, bytes.as_deref().unwrap_or_default()).await;
    // Looked up without regard to who asks, only to know how they may say who they are.
    let named = skills.engine.any_skill(id);
    let proof = Proof { headers, signed, credentials: credentials.as_ref() };
    let by_skill = named.as_deref().and_then(|offered| proof.by(&offered.skill().auth, &asks, &skills.engine));
    let asks_here = by_skill.as_ref().unwrap_or(&asks);
    let offered = skills.engine.skill(asks_here.known(), id).ok_or_else(|| match &asks {
        Asks::Wrong(error) => error.clone().into(),
        Asks::Known(_) | Asks::Nobody => not_found(id),
    })?;

    let skill = offered.skill();
    if *method != Method::POST && method.as_str() != skill.method.as_str() {
        return Err(SkillError::method(&allowed(skill)));
    }
    let mut caller = match by_skill.unwrap_or(asks) {
        Asks::Known(caller) => caller,
        Asks::Nobody => nobody(identity),
        Asks::Wrong(error) if skill.auth == SkillAuth::None => return Err(error.into()),
        Asks::Wrong(error) => return Err(unknown(skills, skill, Some(&error))),
    };
    report_caller(&parts.extensions, &caller.principal)?;
    if let Some(request) = request_of(identity).filter(|request| caller.request.as_deref() != Some(request)) {
        caller.request = Some(request.to_owned());
    }
    // Whether they may is worth more than what is wrong with the request.
    let barred = |barred| barred_answer(skills, skill, &caller, barred);
    skills.engine.may_use(&caller, &offered).map_err(barred)?;

    let bytes = bytes?;
    let wait = asked_wait(headers);
    let head = head(headers)?;
    let in_query = takes_query(skill, method);
    let lifted = if in_query {
        let query = parts.uri.query().unwrap_or_default();
        if query.len() > MAX_QUERY {
            return Err(SkillError::query_too_long(MAX_QUERY));
        }
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        lift::query(id, pairs, &skills.descriptor_of(&offered).inputs, head)
    } else {
        is_json(headers)?;
        read.and_then(|request| lift::body(id, request, head))
    };
    let submission = lifted.map_err(|report| SkillError::invalid(&report))?;
    let schema = offered.tool.as_ref().map(|tool| tool.input.source());
    // What a body said is read again should it be told back, which is rare.
    let queried = in_query.then(|| submission.inputs.clone());
    let submitted = match wait {
        None => skills.engine.submit(&caller, submission).await,
        Some(wait) => skills.engine.submit_until(&caller, submission, skills.engine.now().after(wait)).await,
    };
    let Submitted { execution, again } = submitted.map_err(|refusal| match refusal {
        Refusal::Barred(why) => barred(why),
        Refusal::Inputs(faults) => {
            let inputs = queried.or_else(|| lift::read(&bytes).ok().map(|request| request.inputs)).unwrap_or_default();
            SkillError::invalid(&lift::input_faults(&faults, &inputs, schema))
        }
        Refusal::Full(full) => SkillError::full(full),
        Refusal::Engine(error) => error.into(),
    })?;
    let is_answer = wait.is_some() && execution.state.is_over();
    let status = if is_answer { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = answer(skills, status, &execution, wait);
    if again {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Who asks.
enum Asks {
    Known(Caller),
    Nobody,
    /// Someone whose key, token or signature is not valid; why.
    Wrong(EngineError),
}

impl Asks {
    fn of(caller: Result<Option<Caller>, EngineError>) -> Self {
        match caller {
            Ok(Some(caller)) => Self::Known(caller),
            Ok(None) => Self::Nobody,
            Err(error) => Self::Wrong(error),
        }
    }

    fn of_key(caller: Result<Caller, EngineError>) -> Self {
        Self::of(caller.map(Some))
    }

    fn of_wrong_signature(why: &str) -> Self {
        Self::Wrong(EngineError::new(Code::Unauthorized, why))
    }

    /// Whether the caller is known by a credential.
    fn is_proven(&self) -> bool {
        matches!(self, Self::Known(caller) if caller.credential != Credential::None)
    }

    fn known(&self) -> Option<&Caller> {
        match self {
            Self::Known(caller) => Some(caller),
            Self::Nobody | Self::Wrong(_) => None,
        }
    }
}

/// What a request carries to say who sent it.
struct Proof<'a> {
    headers: &'a HeaderMap,
    signed: Checked,
    credentials: Option<&'a Credentials>,
}

impl Proof<'_> {
    /// Who asks, by what a skill takes before what all take; none if it is not there. The body counts where no
    /// header says anything.
    fn by(&self, auth: &SkillAuth, asks: &Asks, engine: &Engine) -> Option<Asks> {
        match (auth, &self.signed) {
            (SkillAuth::Custom, Checked::Known(signer)) => return Some(Asks::Known(signer.clone())),
            (SkillAuth::Custom, Checked::Invalid(why)) => return Some(Asks::of_wrong_signature(why)),
            // A wrong signature is refused even where nothing had to be shown.
            (_, Checked::Invalid(why)) if !asks.is_proven() => return Some(Asks::of_wrong_signature(why)),
            _ => {}
        }
        let SkillAuth::ApiKey { header } = auth else { return None };
        if let Some(key) = self.headers.get(header) {
            return Some(Asks::of_key(by_key(engine, key.as_bytes())));
        }
        match (asks, self.credentials.and_then(|credentials| credentials.text("api_key"))) {
            (Asks::Nobody, Some(key)) => Some(Asks::of_key(by_key(engine, key.as_bytes()))),
            _ => None,
        }
    }
}

/// Whether the inputs are in the query. A body is always taken, by POST.
fn takes_query(skill: &Skill, method: &Method) -> bool {
    skill.method.has_query() && method.as_str() == skill.method.as_str()
}

fn allowed(skill: &Skill) -> String {
    match skill.method.as_str() {
        "POST" => "POST".to_owned(),
        other => format!("{other}, POST"),
    }
}

fn head(headers: &HeaderMap) -> Result<Head, EngineError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().map(str::to_owned)).transpose();
    let text = |name: &str| text(name).map_err(|_| lift::bad_header(name));
    let traceparent = text("traceparent")?.as_deref().and_then(lift::traceparent);
    Ok(Head {
        idempotency_key: idempotency_key(headers)?.map(str::to_owned),
        trace_id: text("x-skill-trace-id")?
            .map(lift::own_trace_id)
            .transpose()?
            .or_else(|| traceparent.as_deref().and_then(lift::trace_id)),
        traceparent,
        priority: text("x-skill-priority")?,
        timeout_ms: text("x-skill-timeout-ms")?,
    })
}

fn request_of(identity: Option<&Identity>) -> Option<&str> {
    match identity {
        Some(Identity::Known(caller)) => caller.request.as_deref(),
        _ => None,
    }
}

fn barred_answer(skills: &Skills, skill: &Skill, caller: &Caller, barred: Barred) -> SkillError {
    match barred {
        Barred::NotFound => not_found(skill.id.as_str()),
        Barred::Unknown => unknown(skills, skill, None),
        Barred::Ungranted { required, granted } => {
            SkillError::forbidden(&required, &granted, matches!(caller.credential, Credential::Token { .. }))
        }
    }
}

/// The skill wants to know who asks, and how; why what it was told does not do.
fn unknown(skills: &Skills, skill: &Skill, why: Option<&EngineError>) -> SkillError {
    let oauth = match &skill.auth {
        SkillAuth::OAuth2 { issuer } => (skills.issuers)(issuer.as_ref()),
        _ => None,
    };
    SkillError::auth_required(skill, oauth.as_ref(), &skills.host.base, why)
}

impl Skills {
    /// The caller by whichever header some skill here takes keys in.
    pub(super) fn by_any_key_header(&self, headers: &HeaderMap) -> Option<Caller> {
        headers
            .values()
            .filter_map(|value| value.to_str().ok())
            .filter(|value| value.starts_with("nk_"))
            .find_map(|key| self.engine.caller_by_key(key))
    }
}
