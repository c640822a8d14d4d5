//! Key backups under a passphrase.

use std::num::NonZeroU32;

use nuncio_core::bundle::SealMode;
use nuncio_identity::seal::backup::{self, Argon2Params, KeyBackup, KeyBackupError};

use crate::seal_fixtures::{TestIdentity, device, person};

const PHRASE: &str = "correct horse battery";

fn made() -> (TestIdentity, KeyBackup) {
    let ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let backup = backup::seal(&ada.seal_identity, PHRASE, Argon2Params::LEAST).unwrap();
    (ada, backup)
}

#[test]
fn key_backup_restores_the_same_keys() {
    let ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let backup = backup::seal(&ada.seal_identity, PHRASE, Argon2Params::RECOMMENDED).unwrap();
    let written = serde_json::to_value(&backup).unwrap();
    assert_eq!(written["argon2_params"], serde_json::json!({"m": 65536, "t": 3, "p": 4}));
    let backup: KeyBackup = serde_json::from_value(written).unwrap();
    let restored = backup::open(&backup, PHRASE).unwrap();
    assert_eq!(restored.signing_key(), ada.seal_identity.signing_key());
    assert_eq!(restored.device(), &device("phone"));
    assert_eq!(backup.public_key, ada.bundle().keys.hpke_key);
}

#[test]
fn backup_with_wrong_passphrase_or_any_change_does_not_open() {
    let (_, good) = made();
    assert_eq!(backup::open(&good, "correct horse batterx").unwrap_err(), KeyBackupError::Refused);
    let (_, other) = made();
    let swapped = |text: &str| format!("{}{}", if text.starts_with('A') { "B" } else { "A" }, &text[1..]);
    for (changed, error) in [
        (KeyBackup { device_id: device("laptop"), ..good.clone() }, KeyBackupError::Refused),
        (KeyBackup { public_key: other.public_key, ..good.clone() }, KeyBackupError::Refused),
        (KeyBackup { signing_public_key: other.signing_public_key, ..good.clone() }, KeyBackupError::Refused),
        (KeyBackup { argon2_salt: other.argon2_salt.clone(), ..good.clone() }, KeyBackupError::Refused),
        (
            KeyBackup { backup_a: good.backup_b.clone(), backup_b: good.backup_a.clone(), ..good.clone() },
            KeyBackupError::Refused,
        ),
        (KeyBackup { backup_a: swapped(&good.backup_a), ..good.clone() }, KeyBackupError::Refused),
        (KeyBackup { backup_b: swapped(&good.backup_b), ..good.clone() }, KeyBackupError::Refused),
        (KeyBackup { backup_b: "AAAA".to_owned(), ..good.clone() }, KeyBackupError::Damaged),
        (KeyBackup { argon2_salt: "AAAA".to_owned(), ..good.clone() }, KeyBackupError::Damaged),
        (
            KeyBackup { argon2_params: Argon2Params { t: number(3), ..Argon2Params::LEAST }, ..good.clone() },
            KeyBackupError::Refused,
        ),
    ] {
        assert_eq!(backup::open(&changed, PHRASE).unwrap_err(), error, "{changed:?}");
    }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[test]
fn backup_with_unsafe_argon2_parameters_is_refused() {
    let (ada, good) = made();
    let Argon2Params { m, t, p } = Argon2Params::LEAST;
    for params in [
        Argon2Params { m: number(8), t, p },
        Argon2Params { m: NonZeroU32::MAX, t, p },
        Argon2Params { m, t: number(1), p },
        Argon2Params { m, t: NonZeroU32::MAX, p },
        Argon2Params { m, t, p: number(255) },
    ] {
        let changed = KeyBackup { argon2_params: params, ..good.clone() };
        assert_eq!(backup::open(&changed, PHRASE).unwrap_err(), KeyBackupError::Params(params));
        assert_eq!(backup::seal(&ada.seal_identity, PHRASE, params), Err(KeyBackupError::Params(params)));
    }
    assert_eq!(backup::seal(&ada.seal_identity, "too short", Argon2Params::LEAST), Err(KeyBackupError::Short));
}
