//! Webhooks of agents: secret and delivery log for owners, and the bodies of webhook calls.

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::notification::RelayParty;
use nuncio_engine::accounts::{WaitingDelivery, WebhookCall};
use nuncio_engine::ports::store::relay::WebhookDeliveryLogEntry;

use super::agents::agent_id;
use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, answer, caller, data};
use crate::wire::webhook::{
    SecretText, WaitingWebhookDeliveryView, WebhookBody, WebhookDeliveriesView, WebhookDeliveryView, WebhookHealthView,
    WebhookSecretView,
};

/// Event type and body of a webhook call; `None` if its message was deleted.
#[must_use]
pub fn call_body(call: &WebhookCall) -> Option<(String, Vec<u8>)> {
    let recipient = RelayParty::Agent(call.delivery.agent.clone());
    let body = WebhookBody::of(&recipient, call.delivery.mailed.clone(), call.message.clone())?;
    let bytes = serde_json::to_vec(&body).ok()?;
    Some((body.kind, bytes))
}

/// `POST /a2h/agents/{id}/webhook-secret:rotate`: replaces the secret that signs webhook calls.
pub(super) async fn rotate_secret(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let by = caller(&request)?;
    let secret = a2h.engine.accounts().rotate_webhook_secret(&by, &agent_id(&id)?).await?;
    Ok(data(StatusCode::OK, WebhookSecretView { webhook_secret: SecretText(secret.text()) }))
}

/// `GET /a2h/agents/{id}/deliveries?cursor=&limit=`: log of webhook deliveries to an agent.
pub(super) async fn deliveries(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let by = caller(&request)?;
    let id = agent_id(&id)?;
    let wanted = PagedListQuery::of(&request)?;
    let before = wanted.cursor(|text| text.parse().ok())?;
    let mut found = a2h.engine.accounts().delivery_log(&by, &id, before, wanted.limit + 1).await?;
    let more = found.len() > wanted.limit;
    found.truncate(wanted.limit);
    let next_cursor = found.last().filter(|_| more).map(|last| last.seq.to_string());
    let webhook = a2h.engine.accounts().webhook(&by, &id).await?.map(|webhook| WebhookHealthView {
        state: webhook.state,
        failing_since: webhook.failing_since,
        probe_at: webhook.probe_at,
        waiting: webhook.waiting.map(waiting),
    });
    let view = WebhookDeliveriesView { data: found.into_iter().map(finished_delivery).collect(), next_cursor, webhook };
    Ok(answer(StatusCode::OK, &view))
}

fn finished_delivery(logged: WebhookDeliveryLogEntry) -> WebhookDeliveryView {
    let WebhookDeliveryLogEntry { seq, delivery_id, kind, at, attempts, delivered, outcome } = logged;
    WebhookDeliveryView { seq, delivery_id, kind, at, attempts, delivered, outcome }
}

fn waiting(delivery: WaitingDelivery) -> WaitingWebhookDeliveryView {
    let WaitingDelivery { delivery_id, created_at, attempts, due } = delivery;
    WaitingWebhookDeliveryView { delivery_id, created_at, attempts, next_attempt_at: due }
}
