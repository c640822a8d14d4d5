//! The ledger's database file: created once, kept when reopened, and never taken over from another program.

use std::{fs, path::Path};

use nuncio_demo::hotel::{HotelDatabase, HotelError, ReservationStatus};
use rusqlite::Connection;

use crate::booking::{free, request};

#[test]
fn ledger_is_created_with_its_folder_and_keeps_reservations_when_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data/demo/hotel.db");
    let made = HotelDatabase::open(&file).unwrap().reserve(&request("room-203", "2026-12-10", "2026-12-12"));
    let made = made.unwrap();

    let again = HotelDatabase::open(&file).unwrap();
    assert_eq!(again.reservation(&made.reservation_id).unwrap().status, ReservationStatus::Confirmed);
    assert_eq!(free(&again, "2026-12-10", "2026-12-12", None).len(), 11, "furnished once");
}

#[test]
fn database_schema_refuses_double_booking_of_a_night() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hotel.db");
    let made = HotelDatabase::open(&file).unwrap().reserve(&request("room-203", "2026-12-10", "2026-12-12"));
    let id = made.unwrap().reservation_id;

    let raw = Connection::open(&file).unwrap();
    let twice = raw.execute(
        "INSERT INTO room_night (room_id, night, reservation_id) VALUES ('room-203', '2026-12-11', ?1)",
        [id.as_str()],
    );
    assert!(twice.unwrap_err().to_string().contains("UNIQUE constraint failed"));
    let mode: String = raw.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn file_that_is_not_a_ledger_of_this_version_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("other.db");
    Connection::open(&database).unwrap().execute_batch("CREATE TABLE diary (entry TEXT)").unwrap();
    assert_untouched(&database, |error| matches!(error, HotelError::NotALedger(_)));

    let newer = folder.path().join("newer.db");
    drop(HotelDatabase::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert_untouched(&newer, |error| matches!(error, HotelError::NotALedger(_)));

    let text = folder.path().join("letter.txt");
    fs::write(&text, "Dear guest, ".repeat(100)).unwrap();
    assert_untouched(&text, |error| matches!(error, HotelError::Ledger(_)));
}

fn assert_untouched(file: &Path, expected: impl Fn(&HotelError) -> bool) {
    let before = fs::read(file).unwrap();
    let error = HotelDatabase::open(file).unwrap_err();
    assert!(expected(&error), "{error:?}");
    assert_eq!(fs::read(file).unwrap(), before);
}
