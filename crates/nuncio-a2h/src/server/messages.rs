//! `/a2h/conversations/{id}/messages` and `/a2h/messages/{id}/claim`: sealed messages, each accepted once and in order.

use axum::extract::{Request, State};
use http::{StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::conversation::{ConversationMessage, MessageRef};
use nuncio_core::ids::{ConversationId, MessageId};
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_engine::consent::ConsentError;
use nuncio_engine::not_found;
use nuncio_engine::relay::PostedMessage;
use nuncio_engine::{AuthenticationMethod, Caller, EngineError};

use super::conversations::conversation_id;
use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, answer, data, participant};
use crate::error::A2hError;
use crate::lift;
use crate::wire::Page;
use crate::wire::event::Event;
use crate::wire::message::{MessageView, PostedMessageView, ToolCallClaimRequest, ToolCallClaimView};

/// Messages per read from the store; few, because messages may be large.
const MESSAGES_PER_READ: usize = 16;
/// Limit of sealed bytes per response; a larger message is returned alone.
pub(super) const MAX_SEALED: usize = 2 * 1024 * 1024;

/// `POST /a2h/conversations/{id}/messages`: stores and relays a sealed message.
pub(super) async fn send(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (_, by) = participant(&request)?;
    let id = conversation_id(&id)?;
    let body = a2h.message_body(request).await?;
    let new = lift::post(&body)?;
    // The message is a copy, so the memory of the body is released before the write.
    drop(body);
    let PostedMessage { posted, again } = a2h.engine.relay().post_message(&by, &id, new).await?;
    let view = PostedMessageView {
        message_id: posted.reference().id().map_err(EngineError::from)?,
        conversation_id: posted.conversation,
        conversation_seq: posted.seq,
        client_message_id: posted.post.client_id,
        created_at: posted.at,
    };
    Ok(data(if again { StatusCode::OK } else { StatusCode::CREATED }, view))
}

/// `GET /a2h/conversations/{id}/messages?after_seq=&limit=`: messages of a conversation, oldest first.
pub(super) async fn list(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (_, by) = participant(&request)?;
    let id = conversation_id(&id)?;
    let wanted = PagedListQuery::of(&request)?;
    let after = wanted.number("after_seq")?.unwrap_or(0);
    let (found, more) = a2h.messages_within(&by, &id, after, wanted.limit).await?;
    let next_cursor = found.last().filter(|_| more).map(|posted| posted.seq.to_string());
    let views: Result<Vec<_>, _> = found.into_iter().map(MessageView::of).collect();
    Ok(answer(StatusCode::OK, &Page { data: views.map_err(EngineError::from)?, next_cursor }))
}

/// `POST /a2h/messages/{id}/claim`: reserves a tool call for the calling device.
pub(super) async fn claim(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (_, by) = participant(&request)?;
    // The body is optional.
    let body: ToolCallClaimRequest = match request.headers().contains_key(header::CONTENT_TYPE) {
        true => lift::strict(&a2h.body(request).await?)?,
        false => ToolCallClaimRequest::default(),
    };
    if let (Some(named), AuthenticationMethod::Device(device)) = (&body.device_id, &by.authentication)
        && named != device
    {
        let message = format!(
            "a device can claim a call only for itself: the token belongs to {device}, but device_id is {named}"
        );
        return Err(A2hError::new(ErrorCode::PermissionDenied, message));
    }
    let message_id = MessageId::parse(&id).map_err(|_| not_found::tool_call(&id))?;
    let claim = a2h.engine.relay().claim_message(&by, &message_id).await?;
    Ok(data(StatusCode::OK, ToolCallClaimView { message_id, device_id: claim.device, claimed_at: claim.at }))
}

impl A2hServerState {
    /// Messages numbered above `after`, limited in count and size, and whether there are more.
    pub(super) async fn messages_within(
        &self,
        by: &Caller,
        id: &ConversationId,
        mut after: u64,
        limit: usize,
    ) -> Result<(Vec<ConversationMessage>, bool), ConsentError> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        loop {
            let count = MESSAGES_PER_READ.min(limit + 1 - found.len());
            let next = self.engine.relay().messages_after(by, id, after, count).await?;
            let is_last = next.len() < count;
            for posted in next {
                bytes += posted.post.envelope.len();
                if found.len() == limit || (bytes > MAX_SEALED && !found.is_empty()) {
                    return Ok((found, true));
                }
                after = posted.seq;
                found.push(posted);
            }
            if is_last {
                return Ok((found, false));
            }
        }
    }

    /// Wire form of a queued notification; `None` if its message was deleted.
    pub(super) async fn event(
        &self,
        to: &RelayParty,
        mailed: QueuedNotification,
    ) -> Result<Option<Event>, EngineError> {
        let message = match &mailed.notification {
            Notification::Message { conversation, seq } => {
                let message_ref = MessageRef { conversation: conversation.clone(), seq: *seq };
                self.engine.relay().relayed(&message_ref).await?
            }
            _ => None,
        };
        Ok(Event::of(to, mailed, message))
    }
}
