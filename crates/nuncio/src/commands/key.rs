//! `nuncio key`: creates, lists, revokes and rotates API keys.

use anstream::{eprintln, println};
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::PersonName;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::{KeyExpiry, KeyKind, KeyRole};
use nuncio_server::admin::replies::{KeyInfo, KeyList, KeyWithSecret, RevokedKey, UserList};
use nuncio_server::admin::{AdminCommand, KeyCreationCommand, KeyRotationCommand, ServerReplyOrDataDir};
use nuncio_server::{KeylessAccess, SystemClock};
use owo_colors::OwoColorize as _;

use super::confirm::confirm;
use super::consumer::{print_note, wrapped};
use super::operator::{
    ask_or_lock, carry_out, carry_out_in, minute_text, moment, parse_scopes, parsed, run_command, span_seconds,
};
use crate::cli::{DataDirCommand, DataDirOption, KeySubcommand};
use crate::output::{fitted_list, text, text_of_all, text_or_dash};

/// Effect of the first key on a server that is open to its machine until then.
const CLOSES_SERVER: &str = "This is the first key, and it closes the server: from then on every request needs a key, also from this machine, and revoking the key does not open it again. To keep this machine's access without a key, first set loopback = \"open\" below [access] in nuncio.toml and restart the server.";

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<KeySubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        KeySubcommand::Create { name, person, scopes, signing, operator, expires, yes } => {
            let person = person.map(|name| parsed(PersonName::parse(&name))).transpose()?;
            let term = expires.map(|text| parsed(key_term(&text))).transpose()?;
            let scopes = parse_scopes(&scopes)?;
            let is_new = matches!(data.path.try_exists(), Ok(false));
            let effect = announce_closing(&data, yes, json).await?;
            let command = KeyCreationCommand { name, person: person.clone(), scopes, signing, operator, term };
            run_command(&data, AdminCommand::KeyCreate(command), json, |created: KeyWithSecret| {
                print_secret(&created, format!("Keep it: it is not shown again. {effect}").trim_end());
                if is_new {
                    print_note(&format!(
                        "no server runs with the data directory {0}, which is new; the key works only at a server that is started with --data {0}",
                        data.path.display()
                    ));
                }
            })
            .await?;
            if let Some(person) = person.filter(|_| !json) {
                note_missing_account(&data, &person).await;
            }
            Ok(())
        }
        KeySubcommand::List => {
            run_command(&data, AdminCommand::KeyList, json, |list: KeyList| {
                if list.keys.is_empty() {
                    println!("There are no keys.");
                } else {
                    fitted_list(&["ID", "NAME", "STATE", "EXPIRES (UTC)"], 1, list.keys.iter().map(key_row));
                }
                if let Some(state) = list.access {
                    println!("\n{}", wrapped(state.describe(), ""));
                }
            })
            .await
        }
        KeySubcommand::Revoke { key } => {
            run_command(&data, AdminCommand::KeyRevoke { which: key }, json, |reply: RevokedKey| {
                println!("Revoked {}. Requests still need a key.", reply.revoked.id);
            })
            .await
        }
        KeySubcommand::Rotate { key, expires, overlap } => {
            let term = expires.map(|text| parsed(key_term(&text))).transpose()?;
            let overlap_seconds = overlap.map(|text| parsed(overlap_seconds(&text))).transpose()?.unwrap_or(0);
            let command = AdminCommand::KeyRotate(KeyRotationCommand { which: key, term, overlap_seconds });
            run_command(&data, command, json, |rotated: KeyWithSecret| {
                let old = match &rotated.info.previous {
                    Some(previous) => format!("The old secret is valid until {}.", previous.until),
                    None => "The old secret no longer works.".to_owned(),
                };
                let id = &rotated.info.id;
                print_secret(&rotated, &format!("{id} has a new secret. Keep it: it is not shown again. {old}"));
            })
            .await
        }
    }
}

/// Effect of a new key while no server runs.
const NEEDS_KEY: &str = "A server with this data directory needs a key for every request, unless [access] loopback in nuncio.toml or --open says otherwise.";

/// Effect of the first key while no server runs.
const CLOSES_LATER: &str = "This is the first key of this data directory. From then on a server with it needs a key for every request, also from this machine, and revoking the key does not open it again. To keep this machine's access without a key, set loopback = \"open\" below [access] in nuncio.toml.";

/// Announces that the first key closes a server that is open until then, or one that is started later: asks in a
/// terminal, otherwise prints a note.
/// Returns the effect of a new key on requests, for the note after it is created.
async fn announce_closing(data: &DataDirOption, yes: bool, json: bool) -> anyhow::Result<&'static str> {
    let reply = match ask_or_lock(data, &AdminCommand::KeyList).await? {
        ServerReplyOrDataDir::Server(reply) => reply,
        // The lock ends with this command.
        ServerReplyOrDataDir::ThisProcess(data) => carry_out_in(data, AdminCommand::KeyList).await?,
    };
    let (announcement, effect) = match serde_json::from_value::<KeyList>(reply).ok().and_then(|list| list.access) {
        Some(KeylessAccess::OpenUntilFirstKey) => (CLOSES_SERVER, "From now on every request needs a key."),
        Some(KeylessAccess::StoppedWithoutKeys) => (CLOSES_LATER, NEEDS_KEY),
        Some(KeylessAccess::StoppedWithKeys) => return Ok(NEEDS_KEY),
        Some(KeylessAccess::OpenBySetting) => return Ok("Programs on this machine still need none."),
        Some(KeylessAccess::OpenToAll) => return Ok("The server still serves requests without a key (--open)."),
        _ => return Ok(""),
    };
    if !yes {
        eprintln!("{}", wrapped(announcement, ""));
        if confirm("Create the key?", json).await? == Some(false) {
            anyhow::bail!("no key was created");
        }
    }
    Ok(effect)
}

/// Prints a note if the person of a new key has no account. The key was created, so a failure to find that out is
/// ignored.
async fn note_missing_account(data: &DataDirOption, person: &PersonName) {
    let listed = carry_out(data, AdminCommand::UserList).await.ok();
    let users = listed.and_then(|reply| serde_json::from_value::<UserList>(reply).ok());
    if users.is_some_and(|list| !list.users.iter().any(|user| user.name == *person)) {
        print_note(&format!("no account named {person}; invite them with `nuncio user invite {person}`"));
    }
}

/// Prints the secret of a key alone on standard output, so that it can be piped.
fn print_secret(key: &KeyWithSecret, note: &str) {
    println!("{}", key.secret);
    eprintln!("{}", note.dimmed());
    if let Some(end) = key.info.expires_at {
        eprintln!("{}", format!("It expires at {end}.").dimmed());
    }
}

/// Table row of a key, and the line below it.
fn key_row(key: &KeyInfo) -> (Vec<String>, String) {
    let state = match key.expires_at {
        _ if key.revoked_at.is_some() => "revoked",
        Some(end) if end <= SystemClock.now() => "expired",
        _ => "valid",
    };
    let kind = match key.kind {
        KeyKind::Bearer => "bearer",
        KeyKind::Signing { .. } => "signing",
    };
    let role = if key.role == KeyRole::Operator { "operator" } else { "app" };
    let scopes = match &key.scopes {
        KeyScopes::All => "all".to_owned(),
        KeyScopes::Only(scopes) => text_of_all(scopes),
    };
    let person = key.person.as_ref().map(|person| format!(", person: {}", text(person))).unwrap_or_default();
    let is_replaced_secret_valid = |until: &Timestamp| key.revoked_at.is_none() && *until > SystemClock.now();
    let previous = key.previous.as_ref().map(|previous| previous.until).filter(is_replaced_secret_valid);
    let previous =
        previous.map(|until| format!(", previous secret valid until {}", minute_text(until))).unwrap_or_default();
    let details =
        format!("{kind}, {role}, created {}{person}, scopes: {scopes}{previous}", minute_text(key.created_at));
    let expires = key.expires_at.map_or_else(|| "never".to_owned(), minute_text);
    (vec![text(&key.id), text_or_dash(key.name.as_ref()), state.to_owned(), expires], details)
}

/// Parses a key expiry: a duration or a time.
fn key_term(text: &str) -> Result<KeyExpiry, String> {
    match span_seconds(text) {
        Some(seconds) => Ok(KeyExpiry::Seconds(seconds)),
        None => moment(text).map(KeyExpiry::Until).map_err(|_| {
            format!(
                "--expires {text:?}: write a duration such as 90m, 12h or 30d, or a time such as 2027-01-01T00:00:00Z"
            )
        }),
    }
}

fn overlap_seconds(text: &str) -> Result<u64, String> {
    span_seconds(text).ok_or_else(|| format!("--overlap {text:?}: write a duration such as 30m, 12h or 3d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_row_names_the_end_of_a_previous_secret_only_while_it_is_valid() {
        let key = |until: Timestamp, revoked_at: Option<Timestamp>| {
            let past = Timestamp::from_millis(0);
            key_row(
                &serde_json::from_value(serde_json::json!({
                    "id": "key_1", "kind": "bearer", "name": "app", "scopes": "all", "role": "app", "person": null,
                    "created_at": past, "rotated_at": past, "expires_at": null, "lifetime_seconds": null,
                    "previous": {"until": until}, "revoked_at": revoked_at,
                }))
                .unwrap(),
            )
            .1
        };
        let (past, future) = (Timestamp::from_millis(0), Timestamp::from_millis(4_102_444_800_000));
        assert!(key(future, None).ends_with(", scopes: all, previous secret valid until 2100-01-01 00:00"));
        assert!(key(past, None).ends_with(", scopes: all"));
        assert!(key(future, Some(past)).ends_with(", scopes: all"));
    }

    #[test]
    fn key_expiry_accepts_a_duration_or_a_time_and_refuses_other_texts() {
        for (text, seconds) in [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("0d", 0)] {
            assert_eq!(key_term(text), Ok(KeyExpiry::Seconds(seconds)), "{text}");
        }
        let new_year = Timestamp::from_millis(1_798_761_600_000);
        for text in ["2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00", "2027-01-01"] {
            assert_eq!(key_term(text), Ok(KeyExpiry::Until(new_year)), "{text}");
        }
        for wrong in ["", "d", "30", "-1d", "+1d", "1.5h", "30 d", "30w", "soon", "99999999999999999999d", "2027-13-01"]
        {
            let refused = key_term(wrong).unwrap_err();
            assert!(refused.contains(&format!("{wrong:?}")) && refused.contains("30d"), "{refused}");
        }
    }
}
