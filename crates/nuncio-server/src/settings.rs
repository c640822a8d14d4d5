//! The operator's settings: `nuncio.toml`, each key also by an environment variable.
//!
//! A key `limits.body_bytes` is the variable `NUNCIO_LIMITS_BODY_BYTES`. Variables win over the file.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{AgentName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::access::ConfiguredGrant;
use nuncio_engine::invoke::ExecutionLimits;
use nuncio_http::network::Network;
use serde::Deserialize;
use toml::{Table, Value};

use crate::error::StartError;
use crate::telemetry::LogFormat;

mod a2h;
mod access;
mod anp;
mod issuer;
mod registry;
mod retention;

pub use a2h::{A2hSettings, RelaySetting};
pub use access::{AccessSettings, LoopbackAccess};
pub use anp::AnpSettings;
pub(crate) use issuer::check_url;
pub use issuer::{Algorithm, Audiences, IntrospectionSetting, IssuerSetting, IssuerUrl, SignatureSettings};
pub use registry::RegistrySettings;
pub use retention::RetentionSettings;
pub(crate) use retention::days;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How much of everything.
    pub limits: LimitSettings,
    pub access: AccessSettings,
    pub http: HttpSettings,
    /// Pages on other origins.
    pub cors: CorsSettings,
    /// Requests going out.
    pub outbound: OutboundSettings,
    pub log: LogSettings,
    pub metrics: MetricsSettings,
    /// Telling callers that their executions are over.
    pub webhooks: WebhookSettings,
    pub provider: ProviderSettings,
    /// Permissions given here rather than by `nuncio grant`.
    pub grant: Vec<GrantSetting>,
    pub issuer: Vec<IssuerSetting>,
    /// Signatures over requests.
    pub signatures: SignatureSettings,
    /// Skills of other hosts.
    pub registry: RegistrySettings,
    /// Dealings with other agents.
    pub anp: AnpSettings,
    pub a2h: A2hSettings,
    /// How long things are kept.
    pub retention: RetentionSettings,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// How large a request's body may be.
    pub body_bytes: usize,
    /// How many bytes of bodies the process holds at once.
    pub body_bytes_in_flight: usize,
    /// How long it may take to arrive.
    pub body_seconds: u64,
    /// How long a request's head may take to arrive.
    pub header_seconds: u64,
    /// How long the other end of a connection may leave what is written to it unread.
    pub write_seconds: u64,
    /// How many connections are held at once.
    pub connections: usize,
    /// How many connections of one address may be open on which no caller was identified yet.
    pub connections_per_address: usize,
    /// How many requests a minute one key may send.
    pub requests_per_minute: u32,
    /// How long one turn may take.
    pub turn_seconds: u64,
    /// How often one turn may ask its brain.
    pub turn_steps: u32,
    /// How long an approval waits for an answer.
    pub approval_seconds: u64,
    /// How many calls of one tool run at once.
    pub calls_per_tool: usize,
    /// How many bytes one caller may store; `local` may store any number.
    pub bytes_per_caller: u64,
    /// How many executions may be unfinished on the whole server.
    pub executions: usize,
    pub executions_per_skill: usize,
    pub executions_per_caller: usize,
    /// How many of one caller run at once.
    pub running_per_caller: usize,
    /// How long an execution may take if its skill does not say.
    pub execution_seconds: u64,
    /// How long an execution is kept once it is over, if its skill does not say.
    pub keep_hours: u64,
    /// How long running turns may go on when the server stops.
    pub shutdown_seconds: u64,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            body_bytes: 8 * 1024 * 1024,
            body_bytes_in_flight: 256 * 1024 * 1024,
            body_seconds: 30,
            header_seconds: 10,
            write_seconds: 30,
            connections: 16_384,
            connections_per_address: 1024,
            requests_per_minute: 12_000,
            turn_seconds: 600,
            turn_steps: 32,
            approval_seconds: 300,
            calls_per_tool: 32,
            bytes_per_caller: 1 << 30,
            executions: 100_000,
            executions_per_skill: 20_000,
            executions_per_caller: 10_000,
            running_per_caller: 256,
            execution_seconds: 600,
            keep_hours: 24,
            shutdown_seconds: 30,
        }
    }
}

impl LimitSettings {
    #[must_use]
    pub fn engine(&self) -> nuncio_engine::Limits {
        nuncio_engine::Limits {
            turn: Duration::from_secs(self.turn_seconds),
            steps: self.turn_steps,
            approval: Duration::from_secs(self.approval_seconds),
            calls_per_tool: self.calls_per_tool,
            bytes_per_caller: self.bytes_per_caller,
            executions: ExecutionLimits {
                open: self.executions,
                open_per_skill: self.executions_per_skill,
                open_per_caller: self.executions_per_caller,
                running_per_skill: self.calls_per_tool,
                running_per_caller: self.running_per_caller,
                timeout: Duration::from_secs(self.execution_seconds),
                keep: Duration::from_secs(self.keep_hours * 3600),
            },
            ..nuncio_engine::Limits::default()
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// The variable that holds the secret shared with those who are called back.
    pub secret_env: Option<String>,
    pub secret_file: Option<std::path::PathBuf>,
}

impl WebhookSettings {
    /// The secret, if there is one.
    pub fn secret(&self) -> Result<Option<String>, StartError> {
        secret_of("webhooks", "secret", self.secret_env.as_deref(), self.secret_file.as_deref())
    }
}

/// A secret that a variable or a file holds; none where neither is named. `table` and `key` say where they are named.
fn secret_of(table: &str, key: &str, env: Option<&str>, file: Option<&Path>) -> Result<Option<String>, StartError> {
    let (suffix, secret) = match (env, file) {
        (Some(name), _) => ("env", std::env::var(name).map_err(|_| format!("the variable {name} is not set"))),
        (None, Some(path)) => {
            let secret = fs::read_to_string(path);
            ("file", secret.map_err(|error| format!("{} cannot be read: {error}", path.display())))
        }
        (None, None) => return Ok(None),
    };
    match secret.map(|secret| secret.trim_end().to_owned()) {
        Ok(secret) if secret.is_empty() => Err("it holds nothing".to_owned()),
        other => other,
    }
    .map(Some)
    .map_err(|message| StartError::new(Code::ConfigInvalid, format!("{table}.{key}_{suffix}: {message}")))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// Name of the provider; the host name by default.
    pub name: Option<String>,
    pub url: Option<url::Url>,
    /// How to reach them.
    pub contact: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Addresses and networks of the proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Origins whose pages may use a server that is open to `local`; `*` for all.
    pub origins: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutboundSettings {
    /// Hosts and networks that may be reached although they are not public.
    pub allow: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Log level: `error`, `warn`, `info`, `debug`, or a filter by module.
    pub level: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSettings {
    /// Whether anyone may read `/metrics` without a key.
    pub open: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantSetting {
    /// To whom: `anonymous`, `key:ID`, `oauth:ISSUER#SUBJECT`, `did:…`.
    pub principal: Principal,
    /// For which agent; all when absent.
    pub agent: Option<AgentName>,
    /// Which scopes; all when absent.
    pub scopes: Option<Vec<ScopeId>>,
}

impl GrantSetting {
    #[must_use]
    pub fn standing(&self) -> ConfiguredGrant {
        ConfiguredGrant {
            principal: self.principal.clone(),
            agent: self.agent.clone(),
            scopes: self.scopes.clone().map_or(KeyScopes::All, KeyScopes::Only),
        }
    }
}

/// Every key that can be set, and so every variable that is read.
const KEYS: &[&str] = &[
    "limits.body_bytes",
    "limits.body_bytes_in_flight",
    "limits.body_seconds",
    "limits.header_seconds",
    "limits.write_seconds",
    "limits.connections",
    "limits.connections_per_address",
    "limits.requests_per_minute",
    "limits.turn_seconds",
    "limits.turn_steps",
    "limits.approval_seconds",
    "limits.calls_per_tool",
    "limits.bytes_per_caller",
    "limits.executions",
    "limits.executions_per_skill",
    "limits.executions_per_caller",
    "limits.running_per_caller",
    "limits.execution_seconds",
    "limits.keep_hours",
    "limits.shutdown_seconds",
    "webhooks.secret_env",
    "webhooks.secret_file",
    "provider.name",
    "provider.url",
    "provider.contact",
    "access.loopback",
    "http.trusted_proxies",
    "cors.origins",
    "outbound.allow",
    "anp.drafting",
    "a2h.reauth_on_widening",
    "a2h.scopes",
    "a2h.allow_loopback_webhooks",
    "registry.follow",
    "registry.interval_seconds",
    "registry.register",
    "registry.accept",
    "registry.check_seconds",
    "registry.max_agents",
    "registry.max_agents_per_host",
    "log.level",
    "log.format",
    "metrics.open",
    "retention.sessions_days",
    "retention.audit_days",
    "grant",
    "issuer",
    "signatures.allow_bare",
];

impl Settings {
    /// Reads the file, then the variables. A missing file is no fault unless it was asked for.
    pub fn load(file: &Path, required: bool, variable: impl Fn(&str) -> Option<String>) -> Result<Self, StartError> {
        let wrong = |message: String| StartError::new(Code::ConfigInvalid, message);
        let mut table = match fs::read_to_string(file) {
            Ok(text) => text.parse::<Table>().map_err(|error| wrong(format!("{}: {error}", file.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound && !required => Table::new(),
            Err(error) => return Err(wrong(format!("{} cannot be read: {error}", file.display()))),
        };
        let mut variables = BTreeMap::new();
        for key in KEYS {
            let name = format!("NUNCIO_{}", key.to_uppercase().replace('.', "_"));
            if let Some(text) = variable(&name) {
                put(&mut table, key, read_variable(key, &text));
                variables.insert(*key, name);
            }
        }
        let settings: Self = serde_path_to_error::deserialize(table).map_err(|error| {
            let (key, why) = (error.path().to_string(), error.inner().message());
            // A variable may hold a whole list.
            let holds =
                |known: &str| key.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
            let place = match variables.iter().find(|(known, _)| holds(known)) {
                Some((_, name)) => name.clone(),
                None => format!("{}: {key}", file.display()),
            };
            let why = ["usize", "u64", "u32"].iter().fold(why.to_owned(), |why, number| {
                why.replace(&format!("expected {number}"), "expected a whole number")
            });
            wrong(format!("{place}: {why}"))
        })?;
        settings.check().map_err(wrong)?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        let limits = &self.limits;
        let positive: [(&str, u64); 15] = [
            ("limits.executions", limits.executions as u64),
            ("limits.executions_per_skill", limits.executions_per_skill as u64),
            ("limits.executions_per_caller", limits.executions_per_caller as u64),
            ("limits.running_per_caller", limits.running_per_caller as u64),
            ("limits.execution_seconds", limits.execution_seconds),
            ("limits.keep_hours", limits.keep_hours),
            ("limits.body_bytes", limits.body_bytes as u64),
            ("limits.header_seconds", limits.header_seconds),
            ("limits.write_seconds", limits.write_seconds),
            ("limits.connections", limits.connections as u64),
            ("limits.connections_per_address", limits.connections_per_address as u64),
            ("limits.requests_per_minute", u64::from(limits.requests_per_minute)),
            ("limits.turn_steps", u64::from(limits.turn_steps)),
            ("limits.calls_per_tool", limits.calls_per_tool as u64),
            ("limits.bytes_per_caller", limits.bytes_per_caller),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => Err(format!("{key} must be at least 1")),
            None => self.registry.check().and_then(|()| self.check_issuers()),
        }
    }

    fn check_issuers(&self) -> Result<(), String> {
        for (number, issuer) in self.issuer.iter().enumerate() {
            issuer.check().map_err(|why| format!("issuer[{number}]: {why}"))?;
            if self.issuer[..number].iter().any(|other| other.url == issuer.url) {
                return Err(format!("issuer[{number}].url: {} is named twice", issuer.url.as_str()));
            }
        }
        Ok(())
    }
}

/// The keys that hold a list of texts; in a variable it may be written with commas.
const TEXT_LISTS: &[&str] =
    &["http.trusted_proxies", "cors.origins", "outbound.allow", "registry.follow", "registry.register"];

/// A variable's text as TOML would have it: a list may be written with commas, a text bare.
fn read_variable(key: &str, text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    match parsed {
        Some(list @ Value::Array(_)) => list,
        _ if TEXT_LISTS.contains(&key) => {
            Value::Array(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect())
        }
        Some(value) => value,
        None => Value::from(text),
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn load(text: &str, variables: &[(&str, &str)]) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nuncio.toml");
        fs::write(&file, text).unwrap();
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Settings::load(&file, true, variable)
            .map_err(|error| error.message.replace(&file.display().to_string(), "nuncio.toml"))
    }

    #[test]
    fn environment_variables_override_the_settings_file() {
        let file = "[limits]\nturn_steps = 5\nbody_bytes = 10\n[cors]\norigins = [\"https://a.example\"]";
        let settings = load(
            file,
            &[
                ("NUNCIO_LIMITS_TURN_STEPS", "7"),
                ("NUNCIO_CORS_ORIGINS", "https://b.example, https://c.example"),
                ("NUNCIO_LOG_FORMAT", "json"),
                ("NUNCIO_METRICS_OPEN", "true"),
                ("NUNCIO_HTTP_TRUSTED_PROXIES", "127.0.0.1, 10.0.0.0/8"),
                ("NUNCIO_GRANT", "[{ principal = \"anonymous\", scopes = [\"rooms:read\"] }]"),
            ],
        )
        .unwrap();
        assert_eq!((settings.limits.turn_steps, settings.limits.body_bytes), (7, 10));
        assert_eq!(settings.cors.origins, ["https://b.example", "https://c.example"]);
        assert_eq!(settings.log.format, LogFormat::Json);
        assert!(settings.metrics.open);
        let proxies = settings.http.trusted_proxies.iter().map(ToString::to_string);
        assert_eq!(proxies.collect::<Vec<_>>(), ["127.0.0.1/32", "10.0.0.0/8"]);
        assert_eq!(settings.grant[0].principal, Principal::Anonymous);
    }

    #[test]
    fn every_setting_is_documented_in_the_settings_page() {
        let page = include_str!("../../../docs/settings.md");
        let said = |key: &&&str| {
            let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
            let begin = if table.is_empty() { Some(0) } else { page.find(&format!("[{table}]")) };
            let listed = |page: &str| page.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(name));
            begin.is_some_and(|begin| listed(&page[begin..])) || page.contains(&format!("[[{name}]]"))
        };
        let missing: Vec<_> = KEYS.iter().filter(|key| !said(key)).collect();
        assert!(missing.is_empty(), "docs/settings.md does not say {missing:?}");
    }

    #[test]
    fn invalid_setting_is_reported_by_name() {
        assert!(load("[limits]\nturn_step = 5", &[]).unwrap_err().contains("turn_step"));
        let wrong = load("", &[("NUNCIO_LIMITS_BODY_BYTES", "many")]).unwrap_err();
        assert_eq!(wrong, "NUNCIO_LIMITS_BODY_BYTES: invalid type: string \"many\", expected a whole number");
        assert!(load("", &[("NUNCIO_GRANT", "[{ principal = \"root\" }]")]).unwrap_err().starts_with("NUNCIO_GRANT: "));
        let steps = load("", &[("NUNCIO_LIMITS_TURN_STEPS", "many")]).unwrap_err();
        assert!(
            steps.starts_with("NUNCIO_LIMITS_TURN_STEPS: ") && steps.ends_with("expected a whole number"),
            "{steps}"
        );
        assert!(load("[limits]\nbody_bytes = []", &[]).unwrap_err().starts_with("nuncio.toml: limits.body_bytes: "));
        assert_eq!(load("[limits]\ncalls_per_tool = 0", &[]).unwrap_err(), "limits.calls_per_tool must be at least 1");
        assert!(load("[[grant]]\nprincipal = \"root\"", &[]).unwrap_err().contains("grant[0].principal"));
        let proxy = load("[http]\ntrusted_proxies = [\"proxy.internal\"]", &[]).unwrap_err();
        assert!(proxy.contains("http.trusted_proxies[0]") && proxy.contains("proxy.internal"), "{proxy}");
    }

    #[test]
    fn missing_settings_file_is_an_error_only_if_named_explicitly() {
        let nowhere = Path::new("/nonexistent/nuncio.toml");
        assert!(Settings::load(nowhere, true, |_| None).is_err());
        assert!(Settings::load(nowhere, false, |_| None).is_ok());
    }
}
