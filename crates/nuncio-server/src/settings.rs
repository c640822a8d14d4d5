//! The operator's settings, from `nuncio.toml` and environment variables. The key `limits.body_bytes` is the variable
//! `NUNCIO_LIMITS_BODY_BYTES`; variables take precedence over the file.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use nuncio_auth::settings::{IssuerSetting, RequestSignatureSettings};
use nuncio_backend::runners::McpStartOptions;
use nuncio_core::ErrorCode;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{AgentName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::access::ConfiguredGrant;
use nuncio_engine::drafting::ProtocolDraftingPolicy;
use nuncio_engine::invoke::ExecutionLimits;
use nuncio_http::network::IpNetwork;
use serde::Deserialize;
use toml::{Table, Value};

use crate::error::OperatorError;
use crate::memory;
use crate::telemetry::LogFormat;

mod a2h;
mod access;
mod registry;

pub use a2h::{A2hSettings, RemoteRelaySetting};
pub use access::{AccessSettings, LoopbackAccess};
pub use registry::RegistrySettings;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address of a PostgreSQL database; without one, everything is stored in the data directory.
    pub store: Option<String>,
    pub limits: LimitSettings,
    pub access: AccessSettings,
    pub http: HttpSettings,
    /// Which pages on other origins may use the server.
    pub cors: CorsSettings,
    /// Limits and exceptions for requests to other servers.
    pub outbound: OutboundSettings,
    pub log: LogSettings,
    pub metrics: MetricsSettings,
    /// Callbacks about finished executions.
    pub webhooks: WebhookSettings,
    pub provider: ProviderContactSettings,
    /// Permissions granted by the settings instead of `nuncio grant`.
    pub grant: Vec<GrantSetting>,
    pub issuer: Vec<IssuerSetting>,
    pub signatures: RequestSignatureSettings,
    /// Followed domains, and the directory of agents of other hosts.
    pub registry: RegistrySettings,
    pub anp: AnpSettings,
    pub a2h: A2hSettings,
    pub retention: RetentionSettings,
}

/// Declares the limits with their default values. Limits with `min 1` must not be zero.
macro_rules! limits {
    ($(#[doc = $about:literal] $name:ident: $type:ty = $default:expr $(, min $min:literal)?;)*) => {
        #[derive(Debug, Clone, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitSettings {
            $(#[doc = $about] pub $name: $type,)*
        }

        impl Default for LimitSettings {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl LimitSettings {
            const KEYS: &[&str] = &[$(concat!("limits.", stringify!($name)),)*];

            fn check(&self) -> Result<(), String> {
                $($(if self.$name < $min {
                    return Err(format!(concat!("limits.", stringify!($name), " must be at least {}"), $min));
                })?)*
                Ok(())
            }
        }
    };
}

limits! {
    /// Size limit of one request body.
    body_bytes: usize = 8 * 1024 * 1024, min 1;
    /// Limit in bytes of all request bodies in memory at once.
    body_bytes_in_flight: usize = 256 * 1024 * 1024;
    /// Time limit for the arrival of a whole request body.
    body_seconds: u64 = 30;
    /// Time limit for the arrival of a request's head.
    header_seconds: u64 = 10, min 1;
    /// Time that the peer of a connection may leave written data unread.
    write_seconds: u64 = 30, min 1;
    /// Limit of open connections.
    connections: usize = 16_384, min 1;
    /// Limit of open connections of one address on which no caller was identified yet.
    connections_per_address: usize = 1024, min 1;
    /// Number of requests that one caller may send per minute.
    requests_per_minute: u32 = 12_000, min 1;
    /// Time limit of a turn.
    turn_seconds: u64 = 600;
    /// Limit of brain steps in one turn.
    turn_steps: u32 = 32, min 1;
    /// Time that an approval waits for an answer; then the call is denied.
    approval_seconds: u64 = 300;
    /// Limit of concurrent calls of one tool.
    calls_per_tool: usize = 32, min 1;
    /// Bytes that one caller may store; `local` has no limit.
    bytes_per_caller: u64 = 1 << 30, min 1;
    /// Memory for recent conversations, in bytes.
    conversation_cache_bytes: usize = memory::default_conversation_cache();
    /// Limit of unfinished executions on the whole server.
    executions: usize = 100_000, min 1;
    /// Limit of unfinished executions of one skill.
    executions_per_skill: usize = 20_000, min 1;
    /// Limit of unfinished executions of one caller.
    executions_per_caller: usize = 10_000, min 1;
    /// Limit of concurrently running executions of one caller.
    running_per_caller: usize = 256, min 1;
    /// Time limit of an execution whose skill sets no limit.
    execution_seconds: u64 = 600, min 1;
    /// Time that a finished execution is stored if its skill sets no time.
    keep_hours: u64 = 24, min 1;
    /// Time limit for the start of an MCP server's program, which may download packages first.
    mcp_start_seconds: u64 = McpStartOptions::TIMEOUT.as_secs(), min 1;
    /// Time that running turns have to finish when the server stops.
    shutdown_seconds: u64 = 30;
}

impl LimitSettings {
    #[must_use]
    pub fn mcp_start(&self) -> McpStartOptions {
        McpStartOptions { timeout: Duration::from_secs(self.mcp_start_seconds), stderr: None }
    }

    #[must_use]
    pub fn engine(&self) -> nuncio_engine::EngineLimits {
        nuncio_engine::EngineLimits {
            turn: Duration::from_secs(self.turn_seconds),
            steps: self.turn_steps,
            approval: Duration::from_secs(self.approval_seconds),
            calls_per_tool: self.calls_per_tool,
            bytes_per_caller: self.bytes_per_caller,
            conversation_cache: self.conversation_cache_bytes,
            executions: ExecutionLimits {
                open: self.executions,
                open_per_skill: self.executions_per_skill,
                open_per_caller: self.executions_per_caller,
                running_per_skill: self.calls_per_tool,
                running_per_caller: self.running_per_caller,
                timeout: Duration::from_secs(self.execution_seconds),
                keep: Duration::from_secs(self.keep_hours * 3600),
            },
            ..nuncio_engine::EngineLimits::default()
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// The environment variable with the secret that receivers of callbacks verify signatures with.
    pub secret_env: Option<String>,
    pub secret_file: Option<std::path::PathBuf>,
}

impl WebhookSettings {
    /// Reads the secret, if the settings name one.
    pub fn secret(&self) -> Result<Option<String>, OperatorError> {
        read_secret("webhooks", "secret", self.secret_env.as_deref(), self.secret_file.as_deref())
    }
}

/// Reads a secret from a variable or a file; `None` if neither is set. `table` and `key` are the setting for error
/// messages.
fn read_secret(
    table: &str,
    key: &str,
    env: Option<&str>,
    file: Option<&Path>,
) -> Result<Option<String>, OperatorError> {
    let (suffix, secret) = match (env, file) {
        (Some(name), _) => ("env", std::env::var(name).map_err(|_| format!("the variable {name} is not set"))),
        (None, Some(path)) => {
            let secret = fs::read_to_string(path);
            ("file", secret.map_err(|error| format!("{} cannot be read: {error}", path.display())))
        }
        (None, None) => return Ok(None),
    };
    match secret.map(|secret| secret.trim_end().to_owned()) {
        Ok(secret) if secret.is_empty() => Err("it is empty".to_owned()),
        other => other,
    }
    .map(Some)
    .map_err(|message| OperatorError::new(ErrorCode::ConfigInvalid, format!("{table}.{key}_{suffix}: {message}")))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderContactSettings {
    /// Name of the provider; the host name by default.
    pub name: Option<String>,
    pub url: Option<url::Url>,
    /// Contact address of the provider.
    pub contact: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Addresses and networks of the proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNetwork>,
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
    /// Log format: `text` or `json`.
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

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnpSettings {
    /// Whether agents draft protocols with callers that no interface fits, and who accepts the drafts for the agent.
    pub drafting: ProtocolDraftingPolicy,
}

/// Ages after which data is deleted. Data without a setting is never deleted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Days without a turn after which a session is deleted.
    pub sessions_days: Option<NonZeroU32>,
    /// Days after which an audit record is deleted.
    pub audit_days: Option<NonZeroU32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantSetting {
    /// The receiver of the grant: `anonymous`, `key:ID`, `oauth:ISSUER#SUBJECT`, `did:…`.
    pub principal: Principal,
    /// The agent that the grant applies to; all agents if absent.
    pub agent: Option<AgentName>,
    /// The granted scopes; all scopes if absent.
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

/// Every key outside of `[limits]` that can be set in the file or by a variable.
const OTHER_KEYS: &[&str] = &[
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
    "store",
    "metrics.open",
    "retention.sessions_days",
    "retention.audit_days",
    "grant",
    "issuer",
    "signatures.allow_bare",
];

fn keys() -> impl Iterator<Item = &'static str> {
    LimitSettings::KEYS.iter().chain(OTHER_KEYS).copied()
}

impl Settings {
    /// Reads the file, then the variables. A missing file is an error only if it is `required`.
    pub fn load(file: &Path, required: bool, variable: impl Fn(&str) -> Option<String>) -> Result<Self, OperatorError> {
        let wrong = |message: String| OperatorError::new(ErrorCode::ConfigInvalid, message);
        let mut table = match fs::read_to_string(file) {
            Ok(text) => text.parse::<Table>().map_err(|error| wrong(format!("{}: {error}", file.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound && !required => Table::new(),
            Err(error) => return Err(wrong(format!("{} cannot be read: {error}", file.display()))),
        };
        let mut variables = BTreeMap::new();
        for key in keys() {
            let name = format!("NUNCIO_{}", key.to_uppercase().replace('.', "_"));
            if let Some(text) = variable(&name) {
                put(&mut table, key, read_variable(key, &text));
                variables.insert(key, name);
            }
        }
        let settings: Self = serde_path_to_error::deserialize(table).map_err(|error| {
            let (key, why) = (error.path().to_string(), error.inner().message());
            // A variable may set a whole list, and the error is then in one of its entries.
            let contains =
                |set: &str| key.strip_prefix(set).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
            let source = match variables.iter().find(|(set, _)| contains(set)) {
                Some((_, name)) => name.clone(),
                None => format!("{}: {key}", file.display()),
            };
            let why = ["usize", "u64", "u32"].iter().fold(why.to_owned(), |why, number| {
                why.replace(&format!("expected {number}"), "expected a whole number")
            });
            wrong(format!("{source}: {why}"))
        })?;
        settings.check().map_err(wrong)?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        self.limits.check()?;
        self.registry.check()?;
        for (number, issuer) in self.issuer.iter().enumerate() {
            issuer.check().map_err(|why| format!("issuer[{number}]: {why}"))?;
            if self.issuer[..number].iter().any(|other| other.url == issuer.url) {
                return Err(format!("issuer[{number}].url: {} is listed twice", issuer.url.as_str()));
            }
        }
        Ok(())
    }
}

/// Keys with lists of texts, which a variable may write with commas.
const TEXT_LISTS: &[&str] =
    &["http.trusted_proxies", "cors.origins", "outbound.allow", "registry.follow", "registry.register"];

/// Converts the text of an environment variable to a TOML value. Keys in [`TEXT_LISTS`] may be written with commas,
/// texts without quotes.
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
        let is_documented = |key: &&str| {
            let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
            let begin = if table.is_empty() { Some(0) } else { page.find(&format!("[{table}]")) };
            let listed = |page: &str| page.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(name));
            begin.is_some_and(|begin| listed(&page[begin..])) || page.contains(&format!("[[{name}]]"))
        };
        let missing: Vec<_> = keys().filter(|key| !is_documented(key)).collect();
        assert!(missing.is_empty(), "docs/settings.md does not describe {missing:?}");
    }

    #[test]
    fn error_for_an_invalid_setting_names_the_setting_or_variable() {
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
    fn missing_settings_file_is_an_error_only_if_it_is_required() {
        let nowhere = Path::new("/nonexistent/nuncio.toml");
        assert!(Settings::load(nowhere, true, |_| None).is_err());
        assert!(Settings::load(nowhere, false, |_| None).is_ok());
    }

    const VALID_ISSUER: &str = "url = \"https://id.example/tenant\"\naudience = \"https://api.example\"\n";

    fn issuer_error(rest: &str) -> String {
        load(&format!("[[issuer]]\n{rest}"), &[]).unwrap_err()
    }

    #[test]
    fn issuer_setting_has_defaults_and_is_replaced_by_the_environment_variable() {
        let settings = load(&format!("[[issuer]]\n{VALID_ISSUER}"), &[]).unwrap();
        let issuer = &settings.issuer[0];
        assert_eq!(issuer.url.as_str(), "https://id.example/tenant");
        assert!(issuer.audience.contains("https://api.example") && !issuer.audience.contains("https://api.example/"));
        assert_eq!((issuer.leeway_seconds, issuer.algorithms.len()), (60, 3));
        let variable = "[{ url = \"http://localhost:1\", audience = [\"a\", \"b\"], algorithms = [\"PS256\"] }]";
        let settings = load(&format!("[[issuer]]\n{VALID_ISSUER}"), &[("NUNCIO_ISSUER", variable)]).unwrap();
        assert_eq!((settings.issuer.len(), settings.issuer[0].url.as_str()), (1, "http://localhost:1"));
        assert!(load("", &[("NUNCIO_SIGNATURES_ALLOW_BARE", "true")]).unwrap().signatures.allow_bare);
    }

    #[test]
    fn insecure_or_incomplete_issuer_settings_are_refused() {
        for algorithm in ["none", "HS256", "RS1", "rs256"] {
            let error = issuer_error(&format!("{VALID_ISSUER}algorithms = [\"{algorithm}\"]"));
            assert!(error.contains("issuer[0].algorithms[0]"), "{error}");
        }
        assert!(issuer_error("url = \"https://id.example\"").contains("audience"));
        assert!(issuer_error("url = \"https://id.example\"\naudience = []").contains("an audience is required"));
        assert!(issuer_error("url = \"http://id.example\"\naudience = \"a\"").contains("https:"));
        assert!(issuer_error("url = \"https://id.example/?x\"\naudience = \"a\"").contains("must not have a query"));
        assert!(issuer_error(&format!("{VALID_ISSUER}leeway_seconds = 301")).contains("at most 300"));
        assert!(issuer_error(&format!("{VALID_ISSUER}token_url = \"http://id.example/token\"")).contains("https:"));
        assert!(
            issuer_error(&format!("{VALID_ISSUER}introspection = {{ client_id = \"x\" }}"))
                .contains("one of client_secret_env")
        );
        let twice = load(&format!("[[issuer]]\n{VALID_ISSUER}[[issuer]]\n{VALID_ISSUER}"), &[]).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
    }
}
