//! Sends JSON-RPC calls to a method's server and to an agent's message service.

use std::time::Duration;

use bytes::Bytes;
use nuncio_engine::ports::entropy::random_name;
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::describe::VerifiedAgentDescription;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::exchange::{AuthTiming, AuthenticatingHttpClient, ClientRequest, json_body};
use super::remote_method::RemoteMethod;
use super::target::UserNamedHost;
use crate::wire::{AnpResponse, MAX_REQUEST_BYTES};

const MAX_RESPONSE_BYTES: usize = 4 << 20;

impl AnpClient {
    /// Calls a method. Fails before sending if a check of the agent failed or the arguments are invalid.
    pub async fn call(
        &self,
        agent: &VerifiedAgentDescription,
        operation: &RemoteMethod,
        arguments: &Map<String, Value>,
        timeout: Option<Duration>,
    ) -> Result<Value, ClientError> {
        agent.checks.ensure_trusted()?;
        operation.check(arguments)?;
        let id = random_name(&*self.entropy, "");
        let request = json!({"jsonrpc": "2.0", "id": id, "method": operation.name, "params": arguments});
        self.http.post(&operation.server, &agent.named_host, &request, AuthTiming::AtOnce, timeout).await
    }
}

impl AuthenticatingHttpClient {
    /// Sends a JSON-RPC request and returns its result.
    pub(super) async fn post(
        &self,
        url: &Url,
        named_host: &UserNamedHost,
        request: &Value,
        auth_timing: AuthTiming,
        timeout: Option<Duration>,
    ) -> Result<Value, ClientError> {
        let body = Bytes::from(request.to_string());
        if body.len() > MAX_REQUEST_BYTES {
            let message = format!("the request has more than {MAX_REQUEST_BYTES} bytes");
            return Err(ClientError::new(ClientErrorReason::BadArguments, message));
        }
        let timeout = timeout.unwrap_or(self.timeout);
        let outgoing =
            ClientRequest { url, named_host, body: Some(body), auth_timing, max_bytes: MAX_RESPONSE_BYTES, timeout };
        let answer = self.exchange(&outgoing).await?;
        let id = &request["id"];
        // Some software sends a JSON-RPC error with an HTTP error status.
        if answer.status >= 400
            && let Ok(AnpResponse::Error { error, .. }) = AnpResponse::read(&answer.body, MAX_RESPONSE_BYTES, id)
        {
            return Err(ClientError::rpc_failure(url, error).answered(answer.status));
        }
        let body = json_body(url, &answer, self.signer.is_some())?;
        match AnpResponse::read(body, MAX_RESPONSE_BYTES, id) {
            Ok(AnpResponse::Result { result, .. }) => Ok(result),
            Ok(AnpResponse::Error { error, .. }) => Err(ClientError::rpc_failure(url, error)),
            Err(why) => Err(ClientError::new(
                ClientErrorReason::InvalidDocument,
                format!("{}: {}", display_url(url), plain(&why)),
            )),
        }
    }
}
