//! Commands of the operator: keys, permissions, people, tasks, identities, records and the store.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum KeySubcommand {
    /// Create a key, which is printed once and never again
    Create {
        /// Name of the key
        #[arg(long)]
        name: Option<String>,
        /// Person that the key belongs to
        #[arg(long)]
        person: Option<String>,
        /// Scope that the key may use (repeatable); all scopes when omitted
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Create a secret that signs requests and is never sent with them
        #[arg(long)]
        signing: bool,
        /// Let the key read the metrics and use the console, as an operator does
        #[arg(long, conflicts_with = "signing")]
        operator: bool,
        /// Expiry: a duration (90m, 12h or 30d) or a time (2027-01-01T00:00:00Z)
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Do not ask before the first key closes a server that is open to this machine
        #[arg(long)]
        yes: bool,
    },
    /// List the keys, and say whether requests without a key are served
    List,
    /// Revoke a key
    Revoke {
        /// Id or name of the key
        key: String,
    },
    /// Give a key a new secret, printed once; id, scopes, grants and sessions stay
    Rotate {
        /// Id or name of the key
        #[arg(value_name = "ID_OR_NAME")]
        key: String,
        /// Expiry of the new secret, as for `create`; when omitted, a key created with a duration gets the same
        /// duration again
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// How long the old secret stays valid, such as 30m, 12h or 3d [default: not at all]
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantSubcommand {
    /// Grant scopes of an agent to a caller
    Create {
        /// The caller: anonymous, key:ID, person:NAME, oauth:ISSUER#SUBJECT or a DID
        principal: String,
        /// Name of the agent
        agent: String,
        /// Scopes to grant
        #[arg(required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// End of the grant: a duration such as 12h or 30d, a day or a time such as 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME", conflicts_with = "once")]
        until: Option<String>,
        /// Grant for one call only
        #[arg(long)]
        once: bool,
    },
    /// List the grants
    List,
    /// Revoke a grant
    Revoke {
        /// Id of the grant
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserSubcommand {
    /// Invite a person, or another device of a person; the link is printed once and never again
    Invite {
        /// The person's name on this server: letters, digits, '_', '-', '.' and '@'
        name: String,
        /// How long the link is valid, such as 30m, 12h or 3d [default: 7d]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List the people with an account
    List,
    /// List a person's devices
    Devices {
        /// The person's name
        name: String,
    },
    /// Erase a person's data, which cannot be undone; the audit record and the ledgers stay verifiable
    Forget {
        /// The person's name
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Remove a device of a person, or all of them
    #[command(
        group = ArgGroup::new("which").args(["device", "all"]).required(true),
        override_usage = "nuncio user revoke [OPTIONS] <NAME> <DEVICE|--all>"
    )]
    Revoke {
        /// The person's name
        name: String,
        /// Id of the device
        device: Option<String>,
        /// All devices of the person
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentSubcommand {
    /// Show the number that you and a person compare, to be sure that nobody intercepts your messages
    SafetyNumber {
        /// Name of the agent
        name: String,
        /// Name of the person
        person: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApproveSubcommand {
    /// List the calls that wait for approval
    List,
    /// Allow a call to run once, with the arguments shown
    Allow {
        /// Id of the approval
        id: String,
    },
    /// Deny a call
    Deny {
        /// Id of the approval
        id: String,
        /// Reason, which the agent gets
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskSubcommand {
    /// List the open tasks
    List,
    /// Show a task: what to do, its details, and the form of the result
    Show {
        /// Id of the task
        id: String,
    },
    /// Take a task, so that others see who is working on it
    Take {
        /// Id of the task
        id: String,
        /// Take the task even if another person has it
        #[arg(long)]
        over: bool,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Return a task to the inbox
    GiveBack {
        /// Id of the task
        id: String,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Finish a task with its result
    #[command(
        after_help = "Examples:\n  nuncio task finish ID weight_kg=2.4 shelf=B7 damaged=false\n  nuncio task finish ID --output '{\"weight_kg\": 2.4, \"shelf\": \"B7\"}'\n  nuncio task finish ID --output - < result.json\n  nuncio task finish ID \"The parcel is at the desk.\"   # where it is one text"
    )]
    Finish {
        /// Id of the task
        id: String,
        /// The result, field by field: NAME=VALUE, PART.NAME=VALUE; or the text, for a task without a form
        #[arg(value_name = "NAME=VALUE", conflicts_with = "output")]
        fields: Vec<String>,
        /// The result as JSON; `-` reads standard input
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Refuse a task; the requester is notified
    Refuse {
        /// Id of the task
        id: String,
        /// Reason, which the requester gets
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
}

/// The person who acts on a task.
#[derive(Debug, Args)]
pub(crate) struct TaskActor {
    /// Your name as others see it [default: your login name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrySubcommand {
    /// Follow a domain: its skills are listed at /registry/skills and read again periodically
    Follow {
        /// Domain, such as example.com or localhost:7400
        domain: String,
    },
    /// Stop following a domain
    Unfollow {
        /// Domain that is followed
        domain: String,
    },
    /// List the followed domains and their state
    List,
    /// List an agent of another host at /registry/agents after verifying its description
    Add {
        /// URL of the agent's description, or its DID
        target: String,
    },
    /// Remove an agent of another host from the directory
    Remove {
        /// Id, DID or description URL of the agent
        which: String,
    },
    /// List the agents of other hosts in the directory, and the directories that list this server's agents
    Agents,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DidSubcommand {
    /// Show the DIDs of the service and of every agent
    Show {
        /// Show only this agent's DID
        agent: Option<String>,
    },
    /// Link a DID to a person, whose permissions its requests then use
    Link {
        /// The DID to link
        did: String,
        /// Name of the person
        #[arg(long, value_name = "NAME")]
        person: String,
    },
    /// Remove the link of a DID to a person
    Unlink {
        /// The linked DID
        did: String,
    },
    /// List the DIDs that are linked to people
    Links,
    /// Make a new key; an agent then gets a new DID, which its old DID document names
    #[command(
        after_help = "Examples:\n  nuncio did rotate hotel                          # the agent's key leaked\n  nuncio did rotate --service                      # the server's own key did\n  nuncio did rotate --to https://new.example.com   # the address changed\n\nWhen the server's own key changes, the tokens that it issued stop working.\nStop the server before you change its address."
    )]
    #[command(group = ArgGroup::new("which").args(["agent", "service", "to"]).required(true))]
    Rotate {
        /// Name of the agent
        agent: Option<String>,
        /// Rotate the key of this server itself
        #[arg(long)]
        service: bool,
        /// Move all DIDs to another public URL
        #[arg(long, value_name = "URL", value_parser = super::absolute_url)]
        to: Option<url::Url>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditSubcommand {
    /// List the audit records, newest first
    #[command(
        after_help = "Examples:\n  nuncio audit list --since 24h\n  nuncio audit list --agent hotel --tool book_room --limit 20\n  nuncio audit list --caller my-app     # the name of a key"
    )]
    List {
        /// Only records of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only calls of this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only records of this caller: the name or id of a key, a person, an account of this machine, or a principal
        /// such as local or did:…
        #[arg(long, value_name = "CALLER")]
        caller: Option<String>,
        /// Only records since then: a duration (90m, 12h or 3d), a day (2026-01-31) or a time (2026-01-31T12:00:00Z)
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// List the records after this number, oldest first, to read the whole log page by page
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// Maximum number of records, at most 1000
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Verify that no record was changed, removed or inserted
    Verify,
    /// Delete old records; the remaining ones stay verifiable
    Prune {
        /// Delete records that ended before this day (2026-01-31) or time (2026-01-31T12:00:00Z)
        #[arg(long, value_name = "TIME")]
        before: String,
    },
    /// Show everything recorded about a call, verify that it agrees, and name changed records
    Explain {
        /// Id of the call, or the number of its record in `nuncio audit list`
        call: String,
        /// Also compare with a device's record, from `nuncio device audit --json`
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreSubcommand {
    /// Check the database and its write-ahead file for damage, completely
    Check,
    /// Show which store this is, its size per table and its oldest unfinished work
    Status,
    /// Replace the secret key: everything that it encrypts is encrypted under a new one, also while the server runs
    #[command(
        after_help = "The new key takes the place of the old file. Copy it to where you keep it\napart from backups."
    )]
    Rekey,
    /// Copy a store into an empty one, which is used from then on; the first one does not open any more
    #[command(
        after_help = "Stop the server first. An interrupted copy is continued by the same command.\nThe settings and the folder programs/ are not copied. A copy in PostgreSQL is\nused with the data directory of its source, and --data names that of a source\nin PostgreSQL."
    )]
    Copy {
        /// Data directory or postgres:// address to copy from
        from: String,
        /// Data directory or postgres:// address to copy to, which must be empty
        to: String,
    },
}
