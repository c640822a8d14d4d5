//! Registers an agent with a directory (ANP-08 §5). The directory's description names the endpoint.

use bytes::Bytes;
use nuncio_identity::Did;
use serde_json::Value;
use url::Url;

use super::AnpClient;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::exchange::{AuthTiming, ClientRequest, status_error};
use super::target::UserNamedHost;
use crate::directory::PROFILE;
use crate::wire::RegistrationRequest;

const MAX_RESPONSE_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryRegistrationReceipt {
    /// URL of the directory's registration endpoint.
    pub at: Url,
    /// Id of the entry that the directory assigned.
    pub id: Option<String>,
}

impl AnpClient {
    /// Registers the agent with this description URL at a directory. The registration endpoint comes from the
    /// directory's own verified description.
    pub async fn register(
        &self,
        directory: &Url,
        description: &Url,
    ) -> Result<DirectoryRegistrationReceipt, ClientError> {
        let did = Did::new(directory.host_str().unwrap_or_default(), directory.port(), &[]).map_err(|why| {
            ClientError::new(ClientErrorReason::BadTarget, format!("{} has no DID: {why}", display_url(directory)))
                .advice("name a directory by its host name")
        })?;
        let named_host = UserNamedHost::by(directory);
        let described = self.describe_did(&did, named_host).await?;
        described.checks.ensure_trusted()?;
        let interfaces = described.description.interfaces.iter().flatten();
        let mut offers = interfaces.filter(|it| it.profile.as_deref() == Some(PROFILE));
        let endpoint = offers.find_map(|it| it.extra.get("endpoint")?.as_str());
        let Some(at) = endpoint.and_then(|text| Url::parse(text).ok()).filter(|url| described.is_on_own_host(url))
        else {
            let message = format!("{} names no endpoint for registrations", display_url(&described.url));
            return Err(
                ClientError::new(ClientErrorReason::CannotUse, message).advice("it does not accept registrations")
            );
        };
        let registration = RegistrationRequest { url: Some(description.to_string()), did: None };
        let request = ClientRequest {
            url: &at,
            named_host: &described.named_host,
            body: serde_json::to_vec(&registration).ok().map(Bytes::from),
            auth_timing: AuthTiming::AtOnce,
            max_bytes: MAX_RESPONSE_BYTES,
            timeout: self.http.timeout,
        };
        let answer = self.http.exchange(&request).await?;
        let response: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if !matches!(answer.status, 200 | 201) {
            let why = response["error"]["message"].as_str();
            return Err(match why {
                Some(why) if answer.status != 401 => {
                    let message =
                        format!("{} does not list {}: {}", display_url(&at), display_url(description), plain(why));
                    ClientError::new(ClientErrorReason::Forbidden, message).answered(answer.status)
                }
                _ => status_error(&at, &answer, self.http.signer.is_some()),
            });
        }
        Ok(DirectoryRegistrationReceipt { id: response["id"].as_str().map(plain), at })
    }
}
