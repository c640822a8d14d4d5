//! Facts about this host for published documents, and the check that its agents can be described in every protocol.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nuncio_auth::TrustedIssuers;
use nuncio_core::ErrorCode;
use nuncio_core::agent::{Agent, Skill, SkillAuth, Tool};
use nuncio_core::manifest::ScopePresets;
use nuncio_skill::project::{OAuthEndpoints, SkillHostInfo};
use nuncio_skill::server::OAuthEndpointLookup;
use nuncio_skill::validate::validate;
use url::Url;

use crate::dids::Dids;
use crate::error::OperatorError;
use crate::fronts::fronts;
use crate::settings::Settings;

mod files;

pub(crate) use files::{AgentInformationFiles, published_document};

type OAuthEndpointsByIssuer = Arc<RwLock<HashMap<Option<Url>, OAuthEndpoints>>>;

#[derive(Debug, Clone)]
pub(crate) struct HostDescription {
    pub(crate) host: SkillHostInfo,
    issuers: Arc<TrustedIssuers>,
    /// OAuth endpoints of the issuers that skills name.
    endpoints: OAuthEndpointsByIssuer,
    timeout: Duration,
    pub(crate) files: Arc<AgentInformationFiles>,
    pub(crate) dids: Dids,
    /// The preset scopes, for which devices have their own texts.
    pub(crate) presets: Arc<ScopePresets>,
}

impl HostDescription {
    /// A host whose URLs begin with `base`.
    pub(crate) fn new(
        base: &str,
        settings: &Settings,
        issuers: Arc<TrustedIssuers>,
        dids: Dids,
    ) -> Result<Self, OperatorError> {
        let host_name = || Url::parse(base).ok().and_then(|url| url.host_str().map(str::to_owned));
        let name = settings.provider.name.clone().or_else(host_name).unwrap_or_else(|| "nuncio".to_owned());
        let host = SkillHostInfo {
            base: base.trim_end_matches('/').to_owned(),
            name,
            url: settings.provider.url.as_ref().map(ToString::to_string),
            contact: settings.provider.contact.clone(),
        };
        let timeout = Duration::from_secs(settings.limits.execution_seconds);
        let presets = settings.a2h.rules()?.presets;
        Ok(Self { host, issuers, endpoints: Arc::default(), timeout, files: Arc::default(), dids, presets })
    }

    /// A lookup, by issuer, of the OAuth endpoints that skill documents name.
    pub(crate) fn issuers(&self) -> Arc<OAuthEndpointLookup> {
        let endpoints = Arc::clone(&self.endpoints);
        Arc::new(move |issuer| endpoints.read().unwrap_or_else(PoisonError::into_inner).get(&issuer.cloned()).cloned())
    }

    /// Checks, before an agent is served, that everything it offers has a valid description, and creates its DID. Keeps
    /// its information files and the OAuth endpoints of its skills for the documents.
    pub(crate) async fn admit(&self, agent: &Agent, folder: Option<&Path>) -> Result<(), OperatorError> {
        self.files
            .read(&self.host.base, agent, folder)
            .map_err(|why| OperatorError::new(ErrorCode::AgentFileInvalid, format!("agent {}: {why}", agent.name)))?;
        check_documents(agent, &self.presets)?;
        for (tool, skill) in nuncio_skill::project::skills(agent) {
            self.admit_skill(agent, tool, skill).await?;
        }
        self.dids.admit(&agent.name).await
    }

    async fn admit_skill(&self, agent: &Agent, tool: Option<&Tool>, skill: &Skill) -> Result<(), OperatorError> {
        let wrong = |why: String| {
            let message = format!("agent {}: the skill {} cannot be described: {why}", agent.name, skill.id);
            OperatorError::new(ErrorCode::AgentFileInvalid, message)
        };
        let oauth = match &skill.auth {
            SkillAuth::OAuth2 { issuer } => Some(self.find_endpoints(issuer.as_ref()).await.map_err(wrong)?),
            _ => None,
        };
        let descriptor = self.host.descriptor(agent, tool, skill, oauth.as_ref(), self.timeout);
        let report = validate(nuncio_skill::validate::serialize(&descriptor).as_bytes());
        if report.valid { Ok(()) } else { Err(wrong(report.to_string())) }
    }

    async fn find_endpoints(&self, issuer: Option<&Url>) -> Result<OAuthEndpoints, String> {
        let found = self.issuers.describe(issuer).await?;
        let endpoints = OAuthEndpoints {
            authorization_url: found.authorization_url.to_string(),
            token_url: found.token_url.to_string(),
        };
        let mut endpoints_by_issuer = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        endpoints_by_issuer.insert(issuer.cloned(), endpoints.clone());
        Ok(endpoints)
    }
}

/// Checks that every protocol can describe an agent.
pub(crate) fn check_documents(agent: &Agent, presets: &ScopePresets) -> Result<(), OperatorError> {
    fronts()
        .try_for_each(|front| front.check(agent, presets))
        .map_err(|why| OperatorError::new(ErrorCode::AgentFileInvalid, format!("agent {}: {why}", agent.name)))
}
