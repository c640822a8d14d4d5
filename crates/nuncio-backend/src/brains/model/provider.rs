//! Addresses and API dialects of model providers.

use nuncio_core::agent::{ModelBrainSpec, ModelProvider};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::anthropic;

/// Approximate number of UTF-8 bytes per token; right for English, too many for Chinese.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelApiDialect {
    OpenAi,
    Anthropic,
}

pub(super) fn interface(provider: ModelProvider) -> ModelApiDialect {
    match provider {
        ModelProvider::Anthropic => ModelApiDialect::Anthropic,
        _ => ModelApiDialect::OpenAi,
    }
}

/// URL of the provider's completion endpoint.
pub(crate) fn address(spec: &ModelBrainSpec) -> Result<Url, String> {
    endpoint(
        spec,
        match interface(spec.provider) {
            ModelApiDialect::OpenAi => "chat/completions",
            ModelApiDialect::Anthropic => "messages",
        },
    )
}

/// URL of the provider's list of models.
pub(super) fn models_address(spec: &ModelBrainSpec) -> Result<Url, String> {
    let mut url = endpoint(spec, "models")?;
    if interface(spec.provider) == ModelApiDialect::Anthropic {
        // Without a limit, a page has 20 models.
        url.set_query(Some("limit=1000"));
    }
    Ok(url)
}

fn endpoint(spec: &ModelBrainSpec, endpoint: &str) -> Result<Url, String> {
    let mut url = match &spec.base_url {
        Some(url) => url.clone(),
        None => Url::parse(default_base_url(spec.provider)).map_err(|error| error.to_string())?,
    };
    let path = format!("{}/{endpoint}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn default_base_url(provider: ModelProvider) -> &'static str {
    match provider {
        ModelProvider::OpenAi => "https://api.openai.com/v1",
        ModelProvider::Anthropic => "https://api.anthropic.com/v1",
        ModelProvider::Gemini => "https://generativelanguage.googleapis.com/v1beta/openai",
        ModelProvider::Ollama => "http://localhost:11434/v1",
        ModelProvider::OpenRouter => "https://openrouter.ai/api/v1",
        ModelProvider::DeepSeek => "https://api.deepseek.com",
        ModelProvider::Mistral => "https://api.mistral.ai/v1",
        ModelProvider::Groq => "https://api.groq.com/openai/v1",
    }
}

/// Size in bytes of the history that fits into the model's context window.
pub(super) fn window(spec: &ModelBrainSpec) -> usize {
    let tokens = spec.window_tokens.unwrap_or(match spec.provider {
        // Ollama's default context size.
        ModelProvider::Ollama => 8_000,
        _ => 100_000,
    });
    usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

/// HTTP headers of a request to the provider.
pub(super) fn headers(provider: ModelProvider, key: Option<&str>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(reqwest::header::CONTENT_TYPE, json);
    headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let (name, key) = match interface(provider) {
        ModelApiDialect::OpenAi => (reqwest::header::AUTHORIZATION, key.map(|key| format!("Bearer {key}"))),
        ModelApiDialect::Anthropic => {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
            (HeaderName::from_static("x-api-key"), key.map(str::to_owned))
        }
    };
    if let Some(key) = key {
        let mut key = HeaderValue::try_from(key)
            .map_err(|_| "its key contains characters that are not allowed in a header".to_owned())?;
        key.set_sensitive(true);
        headers.insert(name, key);
    }
    Ok(headers)
}
