//! Conversations and their members.

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{CONVERSATION, Conversation, ConversationType};
use nuncio_core::ids::{AgentId, ConversationId, PersonName};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::principal::Principal;

use crate::access::Caller;
use crate::consent_error::ConsentError;
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::not_found;
use crate::ports::store::relay::MemberConversation;
use crate::ports::store::{Change, Conflict, RelayChange, StoreError};
use crate::relay::RelayService;

const MAX_PAGE_SIZE: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    pub kind: ConversationType,
    /// Members of the new conversation besides its creator.
    pub with: Vec<RelayParty>,
}

impl RelayService {
    /// Creates a conversation, or returns the existing one of a pair; the flag says whether it is new.
    pub async fn open_conversation(
        &self,
        by: &Caller,
        new: NewConversation,
    ) -> Result<(MemberConversation, bool), ConsentError> {
        let me = member(by)?;
        let with = new.with.into_iter().chain([me.clone()]).collect();
        let members = Conversation::members(new.kind, with).map_err(|why| {
            ConsentError::new(ErrorCode::BadRequest, format!("these members cannot have this conversation: {why}"))
        })?;
        self.may_talk(&me, &members).await?;
        let conversation = Conversation {
            id: ConversationId::parse(&self.context.timed_name(CONVERSATION))?,
            kind: new.kind,
            members,
            created_by: me.clone(),
            created_at: self.context.now(),
            revision: 0,
        };
        let pair = conversation.pair();
        if let Some(pair) = &pair
            && let Some(known) = self.store.conversation_of_pair(pair).await?
        {
            return Ok((self.conversation_for(by, &known.id).await?, false));
        }
        let most = self.context.limits.relay.conversations_per_member;
        if self.store.conversations_of(&me, None, most).await?.len() >= most {
            return Err(ConsentError::limit("conversations of this member", most));
        }
        let mut changes: Vec<Change> = vec![RelayChange::CreateConversation(conversation.clone()).into()];
        changes.extend(self.member_change_mail(&conversation, &[]));
        match (self.mailbox.commit_and_notify(changes).await, pair) {
            // Both members created the conversation at the same moment; the stored one is used.
            (Err(StoreError::Conflict(Conflict::Exists)), Some(pair)) => {
                let known = self.store.conversation_of_pair(&pair).await?;
                let id = known.map_or(conversation.id, |known| known.id);
                Ok((self.conversation_for(by, &id).await?, false))
            }
            (done, _) => {
                done?;
                Ok((MemberConversation { conversation, last_seq: 0, read_seq: 0 }, true))
            }
        }
    }

    /// A conversation of the caller, with the caller's read position.
    pub async fn conversation_for(&self, by: &Caller, id: &ConversationId) -> Result<MemberConversation, ConsentError> {
        let me = member(by)?;
        Ok(self.store.member_view(id, &me).await?.ok_or_else(|| not_found::conversation(id.as_str()))?)
    }

    /// Conversations of the caller with an id above `after`, ordered by id; at most `limit`, and never more than 100.
    pub async fn conversations(
        &self,
        by: &Caller,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<MemberConversation>, ConsentError> {
        Ok(self.store.conversations_of(&member(by)?, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Changes the members of a group: every member may add and leave, only its creator removes others.
    pub async fn change_members(
        &self,
        by: &Caller,
        id: &ConversationId,
        add: &[RelayParty],
        remove: &[RelayParty],
    ) -> Result<Conversation, ConsentError> {
        let me = member(by)?;
        loop {
            let before = self.conversation_for(by, id).await?.conversation;
            if before.kind != ConversationType::Group {
                let message = "only groups can change their members; a conversation of two cannot";
                return Err(ConsentError::new(ErrorCode::BadRequest, message));
            }
            if before.created_by != me && remove.iter().any(|gone| *gone != me) {
                let message =
                    format!("only {}, who created the group, can remove other members", before.created_by.id());
                return Err(ConsentError::new(ErrorCode::PermissionDenied, message));
            }
            let stay = before.members.iter().filter(|one| !remove.contains(one)).chain(add).cloned().collect();
            let members = match Conversation::members(ConversationType::Group, stay) {
                Ok(members) => members,
                // Leaving a group is always possible, even if too few members remain.
                Err(_) if add.is_empty() && *remove == [me.clone()] => {
                    before.members.iter().filter(|one| **one != me).cloned().collect()
                }
                Err(why) => return Err(ConsentError::new(ErrorCode::BadRequest, why.to_string())),
            };
            let added: Vec<_> = members.iter().filter(|one| !before.has(one)).cloned().collect();
            self.may_talk(&me, &added).await?;
            if members == before.members {
                return Ok(before);
            }
            let gone: Vec<_> = before.members.iter().filter(|one| !members.contains(one)).cloned().collect();
            let after = Conversation { members, revision: before.revision + 1, ..before };
            let mut changes: Vec<Change> = vec![RelayChange::UpdateConversation(after.clone()).into()];
            changes.extend(self.member_change_mail(&after, &gone));
            if self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Moved)? {
                return Ok(after);
            }
        }
    }

    /// Advances the caller's read position in a conversation; it never goes back. In a conversation of two, both
    /// members are notified.
    pub async fn read_conversation(
        &self,
        by: &Caller,
        id: &ConversationId,
        seq: u64,
    ) -> Result<MemberConversation, ConsentError> {
        let me = member(by)?;
        let held = self.conversation_for(by, id).await?;
        let seq = seq.min(held.last_seq);
        if seq <= held.read_seq {
            return Ok(held);
        }
        let read = RelayChange::ReadConversation { conversation: id.clone(), reader: me.clone(), seq };
        let mut changes = vec![read.into()];
        // No notifications in groups, where every read would notify all members.
        if let Some(other) = held.conversation.other(&me) {
            let notification = Notification::Read { conversation: id.clone(), reader: me.clone(), seq };
            changes.extend([other, &me].map(|recipient| self.mailbox.mail_change(recipient, notification.clone())));
        }
        self.mailbox.commit_and_notify(changes).await?;
        Ok(MemberConversation { read_seq: seq, ..held })
    }

    /// Checks that the members exist, and that `me` has a relation with each of them: a person with the agents, an
    /// agent with the people. The other members need no relation among themselves.
    async fn may_talk(&self, me: &RelayParty, members: &[RelayParty]) -> Result<(), ConsentError> {
        let people: Vec<_> = members.iter().filter_map(person).collect();
        for name in &people {
            if self.person_store.person(name).await?.is_none() {
                let message = format!("there is no account named {name} on this server");
                return Err(ConsentError::new(ErrorCode::PersonNotFound, message));
            }
        }
        for agent in members.iter().filter_map(agent) {
            self.accounts.account(agent).await?;
            let deals = match me {
                RelayParty::Person(me) => self.relation_store.relation_between(me, agent).await?.is_some(),
                RelayParty::Agent(_) => true,
            };
            if !deals {
                return Err(relation_required(agent));
            }
        }
        if let RelayParty::Agent(agent) = me {
            for name in people {
                if self.relation_store.relation_between(name, agent).await?.is_none() {
                    return Err(relation_required(agent));
                }
            }
        }
        Ok(())
    }

    /// Changes that notify the owner and the other member of each of their pair conversations of changed keys.
    pub(crate) async fn key_change_mail(&self, owner: &RelayParty) -> Result<Vec<Change>, EngineError> {
        let notification = Notification::KeysChanged { owner: owner.clone() };
        let held = self.store.conversations_of(owner, None, usize::MAX).await?;
        let others = held.iter().filter_map(|held| held.conversation.other(owner));
        let recipients = [owner].into_iter().chain(others);
        Ok(recipients.map(|recipient| self.mailbox.mail_change(recipient, notification.clone())).collect())
    }

    fn member_change_mail<'a>(
        &'a self,
        conversation: &'a Conversation,
        gone: &'a [RelayParty],
    ) -> impl Iterator<Item = Change> + 'a {
        conversation.members.iter().chain(gone).map(|one| {
            self.mailbox.mail_change(one, Notification::ConversationChanged { conversation: conversation.id.clone() })
        })
    }
}

/// The caller as a conversation member.
pub(crate) fn member(by: &Caller) -> Result<RelayParty, ConsentError> {
    RelayParty::try_from(by.principal.clone()).map_err(|_| {
        let message = match &by.principal {
            Principal::Anonymous => {
                "a credential is missing: send the access token of a device or of an agent".to_owned()
            }
            other => format!("{other} cannot take part in conversations; only people and agents can"),
        };
        ConsentError::new(ErrorCode::Unauthorized, message)
    })
}

pub(super) fn relation_required(agent: &AgentId) -> ConsentError {
    let message =
        format!("the person has no active relation with agent {agent}; they must grant it a permission first");
    ConsentError::new(ErrorCode::RelationRequired, message)
}

pub(crate) fn person(member: &RelayParty) -> Option<&PersonName> {
    match member {
        RelayParty::Person(name) => Some(name),
        RelayParty::Agent(_) => None,
    }
}

pub(crate) fn agent(member: &RelayParty) -> Option<&AgentId> {
    match member {
        RelayParty::Agent(id) => Some(id),
        RelayParty::Person(_) => None,
    }
}
