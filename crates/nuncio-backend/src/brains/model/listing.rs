//! Asks a model's server for its list of models, for `nuncio lint --connect`: a request that checks the key and costs
//! nothing.

use std::time::Duration;

use nuncio_core::agent::{Agent, ModelProvider};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::parser::{error_message, short};
use super::{API_KEY_NAME, ModelBrain, provider};
use crate::fetch::cause;
use crate::runners::secrets::{self, SecretValues};
use crate::within;

/// Size limit of the list, in bytes.
const MAX_LIST: usize = 4 * 1024 * 1024;

impl ModelBrain {
    /// Says what the server answers to a request for its models; an error if conversations would fail.
    pub(crate) async fn check_server(&self, agent: &Agent, limit: Duration) -> Result<String, String> {
        let mut secrets = SecretValues::default();
        if let Some(name) = &self.spec.key {
            let base_dir = self.services.programs.base_dir(&agent.name);
            secrets.add(API_KEY_NAME, &secrets::read_one(agent, &base_dir, name).await?);
        }
        let mut headers = provider::headers(self.spec.provider, secrets.get(API_KEY_NAME))?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = self.services.http.get(provider::models_address(&self.spec)?).headers(headers);
        let answer = async {
            let response = request.send().await.map_err(|error| format!("cannot be reached: {}", cause(&error)))?;
            let status = response.status();
            Ok((status, read_body(response).await))
        };
        let answer = within(&*self.services.clock, limit, answer).await;
        let (status, body) = answer.unwrap_or_else(|| Err(format!("did not answer within {limit:?}")))?;
        self.judge(status, &body).map_err(|why| secrets.redact(&why))
    }

    fn judge(&self, status: StatusCode, body: &[u8]) -> Result<String, String> {
        let body = serde_json::from_slice::<Value>(body).map_err(|_| short(&String::from_utf8_lossy(body)));
        if status.is_success() {
            let models = body.ok().and_then(|body| body["data"].as_array().cloned());
            return Ok(models.map_or_else(|| not_checked("it sent none"), |models| self.describe(&models)));
        }
        let detail = body.as_ref().map_or_else(Clone::clone, error_message);
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.spec.key.is_some() => {
                Err(format!("refuses the key with status {status}{detail}"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.spec.options.key.is_some() => {
                Ok("wants a key, which each session gives; key and model were not checked".to_owned())
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(format!("wants a key (`key` below [brain]); it answered with status {status}{detail}"))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                Ok(not_checked(&format!("it answered with status {status}")))
            }
            _ => Err(format!("answered a request for its models with status {status}{detail}")),
        }
    }

    fn describe(&self, models: &[Value]) -> String {
        let model = &self.spec.model;
        // Some servers list a model with a version, such as `qwen3:latest`, or in a folder, such as `models/gemini`.
        let is_same = |id: &str| {
            let id = id.strip_prefix("models/").unwrap_or(id);
            id.strip_prefix(model.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-', '@']))
        };
        let is_listed = models.iter().filter_map(|listed| listed["id"].as_str()).any(is_same);
        // OpenRouter shows its list to everyone.
        let accepts = self.spec.key.is_some() && self.spec.provider != ModelProvider::OpenRouter;
        let key = if accepts { "accepts the key and " } else { "" };
        match is_listed {
            true => format!("{key}has the model {model:?}"),
            false => format!("{key}lists {} models, but not {model:?}; check its name", models.len()),
        }
    }
}

fn not_checked(why: &str) -> String {
    format!("was asked for its models, and {why}; key and model were not checked")
}

/// Reads at most [`MAX_LIST`] bytes; a longer list is no JSON and counts as none.
async fn read_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() < MAX_LIST
    {
        body.extend_from_slice(&chunk);
    }
    body
}
