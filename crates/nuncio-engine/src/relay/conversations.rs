//! Who talks with whom.

use nuncio_core::Code;
use nuncio_core::conversation::{CONVERSATION, Conversation, ConversationType};
use nuncio_core::happening::{Notification, Recipient};
use nuncio_core::ids::{AgentId, ConversationId, PersonName};
use nuncio_core::principal::Principal;

use crate::Engine;
use crate::access::Caller;
use crate::consent::ConsentError;
use crate::ports::entropy::timed_name;
use crate::ports::store::relay::Held;
use crate::ports::store::{Change, Conflict, ConsentChange, RelayChange, StoreError};

/// How many conversations are listed at once.
const PAGE: usize = 100;

/// A conversation somebody wants to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    /// Of which type.
    pub kind: ConversationType,
    /// With whom; whoever begins it takes part as well.
    pub with: Vec<Recipient>,
}

impl Engine {
    /// Begins a conversation, or finds the one the two have. Says whether it is new.
    ///
    /// # Errors
    /// The members do not fit, somebody is not there, or person and agent do not deal with each other.
    pub async fn open_conversation(&self, by: &Caller, new: NewConversation) -> Result<(Held, bool), ConsentError> {
        let me = member(by)?;
        let with = new.with.into_iter().chain([me.clone()]).collect();
        let members = Conversation::members(new.kind, with)
            .map_err(|why| ConsentError::new(Code::BadRequest, format!("these cannot talk like that: {why}")))?;
        self.may_talk(&me, &members).await?;
        let conversation = Conversation {
            id: ConversationId::parse(&timed_name(self.entropy(), CONVERSATION, self.now()))?,
            kind: new.kind,
            members,
            created_by: me.clone(),
            created_at: self.now(),
            revision: 0,
        };
        let pair = conversation.pair();
        if let Some(pair) = &pair
            && let Some(known) = self.store().conversation_of_pair(pair).await?
        {
            return Ok((self.held_conversation(by, &known.id).await?, false));
        }
        let most = self.limits().relay.conversations_per_member;
        if self.store().conversations_of(&me, None, most).await?.len() >= most {
            return Err(ConsentError::limit("conversations of this member", most));
        }
        let mut changes: Vec<Change> = vec![RelayChange::CreateConversation(conversation.clone()).into()];
        changes.extend(self.tell_members(&conversation, &[]));
        match (self.commit_telling(changes).await, pair) {
            // Both began at the same moment: there is one.
            (Err(StoreError::Conflict(Conflict::Exists)), Some(pair)) => {
                let known = self.store().conversation_of_pair(&pair).await?;
                let id = known.map_or(conversation.id, |known| known.id);
                Ok((self.held_conversation(by, &id).await?, false))
            }
            (done, _) => {
                done?;
                Ok((Held { conversation, last_seq: 0, read_seq: 0 }, true))
            }
        }
    }

    /// A conversation, as the caller sees it.
    ///
    /// # Errors
    /// The caller takes part in no such conversation.
    pub async fn held_conversation(&self, by: &Caller, id: &ConversationId) -> Result<Held, ConsentError> {
        let me = member(by)?;
        self.store().held(id, &me).await?.ok_or_else(|| unknown(id))
    }

    /// The caller's conversations by id, those behind `after`.
    ///
    /// # Errors
    /// The caller is neither a person nor an agent.
    pub async fn conversations(
        &self,
        by: &Caller,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<Held>, ConsentError> {
        Ok(self.store().conversations_of(&member(by)?, after, limit.min(PAGE)).await?)
    }

    /// Others take part in a group: whoever is in it adds; who began it takes out, and everyone themselves.
    ///
    /// # Errors
    /// It is no group of the caller's, or the members do not fit.
    pub async fn change_members(
        &self,
        by: &Caller,
        id: &ConversationId,
        add: &[Recipient],
        remove: &[Recipient],
    ) -> Result<Conversation, ConsentError> {
        let me = member(by)?;
        loop {
            let before = self.held_conversation(by, id).await?.conversation;
            if before.kind != ConversationType::Group {
                let message = "only groups change who takes part; two stay two";
                return Err(ConsentError::new(Code::BadRequest, message));
            }
            if before.created_by != me && remove.iter().any(|gone| *gone != me) {
                let message = format!("only {}, who began the group, takes others out", before.created_by.id());
                return Err(ConsentError::new(Code::PermissionDenied, message));
            }
            let stay = before.members.iter().filter(|one| !remove.contains(one)).chain(add).cloned().collect();
            let members = match Conversation::members(ConversationType::Group, stay) {
                Ok(members) => members,
                // Nobody is kept in a group, however few stay.
                Err(_) if add.is_empty() && *remove == [me.clone()] => {
                    before.members.iter().filter(|one| **one != me).cloned().collect()
                }
                Err(why) => return Err(ConsentError::new(Code::BadRequest, why.to_string())),
            };
            let added: Vec<_> = members.iter().filter(|one| !before.has(one)).cloned().collect();
            self.may_talk(&me, &added).await?;
            if members == before.members {
                return Ok(before);
            }
            let gone: Vec<_> = before.members.iter().filter(|one| !members.contains(one)).cloned().collect();
            let after = Conversation { members, revision: before.revision + 1, ..before };
            let mut changes: Vec<Change> = vec![RelayChange::UpdateConversation(after.clone()).into()];
            changes.extend(self.tell_members(&after, &gone));
            match self.commit_telling(changes).await {
                Err(StoreError::Conflict(Conflict::Moved)) => {}
                other => {
                    other?;
                    return Ok(after);
                }
            }
        }
    }

    /// The caller has read up to that number.
    ///
    /// # Errors
    /// The caller takes part in no such conversation.
    pub async fn read_conversation(&self, by: &Caller, id: &ConversationId, seq: u64) -> Result<Held, ConsentError> {
        let me = member(by)?;
        let held = self.held_conversation(by, id).await?;
        let seq = seq.min(held.last_seq);
        if seq <= held.read_seq {
            return Ok(held);
        }
        let read = RelayChange::ReadConversation { conversation: id.clone(), reader: me.clone(), seq };
        let mut changes = vec![read.into()];
        // In a group everyone would be told of everyone; there it is looked up.
        if let Some(other) = held.conversation.other(&me) {
            let happening = Notification::Read { conversation: id.clone(), reader: me.clone(), seq };
            changes.extend([other, &me].map(|recipient| self.tell(recipient, happening.clone())));
        }
        self.commit_telling(changes).await?;
        Ok(Held { read_seq: seq, ..held })
    }

    /// Whether one may talk with these: people are there, and agents deal with whoever brings them in.
    async fn may_talk(&self, me: &Recipient, members: &[Recipient]) -> Result<(), ConsentError> {
        let people: Vec<_> = members.iter().filter_map(person).collect();
        for name in &people {
            if self.store().person(name).await?.is_none() {
                return Err(ConsentError::new(
                    Code::PersonNotFound,
                    format!("nobody named {name} has an account here"),
                ));
            }
        }
        for agent in members.iter().filter_map(agent) {
            self.account(agent).await?;
            let deals = match me {
                Recipient::Person(me) => self.store().relation_between(me, agent).await?.is_some(),
                Recipient::Agent(_) => true,
            };
            if !deals {
                return Err(relation_required(agent));
            }
        }
        if let Recipient::Agent(agent) = me {
            for name in people {
                if self.store().relation_between(name, agent).await?.is_none() {
                    return Err(relation_required(agent));
                }
            }
        }
        Ok(())
    }

    pub(super) fn tell(&self, recipient: &Recipient, happening: Notification) -> Change {
        ConsentChange::PutMail { recipient: recipient.clone(), at: self.now(), happening }.into()
    }

    fn tell_members<'a>(
        &'a self,
        conversation: &'a Conversation,
        gone: &'a [Recipient],
    ) -> impl Iterator<Item = Change> + 'a {
        conversation
            .members
            .iter()
            .chain(gone)
            .map(|one| self.tell(one, Notification::ConversationChanged { conversation: conversation.id.clone() }))
    }
}

/// Who takes part, where someone asks.
pub(super) fn member(by: &Caller) -> Result<Recipient, ConsentError> {
    Recipient::try_from(by.principal.clone()).map_err(|_| {
        let message = match &by.principal {
            Principal::Anonymous => "say who asks, with the access token of a device or an agent's own".to_owned(),
            other => format!("{other} has no conversations here; people and agents have"),
        };
        ConsentError::new(Code::Unauthorized, message)
    })
}

pub(super) fn unknown(id: &ConversationId) -> ConsentError {
    ConsentError::new(Code::ConversationNotFound, format!("you take part in no conversation {id}"))
}

pub(super) fn relation_required(agent: &AgentId) -> ConsentError {
    let message = format!("the person does not deal with agent {agent} now; they allow it something first");
    ConsentError::new(Code::RelationRequired, message)
}

pub(super) fn person(member: &Recipient) -> Option<&PersonName> {
    match member {
        Recipient::Person(name) => Some(name),
        Recipient::Agent(_) => None,
    }
}

pub(super) fn agent(member: &Recipient) -> Option<&AgentId> {
    match member {
        Recipient::Agent(id) => Some(id),
        Recipient::Person(_) => None,
    }
}
