//! Races for the last room between threads with their own connections, and between processes that serve MCP on stdio.

use std::{
    path::{Path, PathBuf},
    sync::Barrier,
    thread,
};

use nuncio_demo::hotel::{HotelDatabase, HotelError, RoomType};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    booking::{free, request},
    client::{Client, exit_process, text},
};

const THREADS: usize = 32;
const PROCESSES: usize = 8;

#[test]
fn exactly_one_of_32_threads_books_the_last_suite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hotel.db");
    let start = Barrier::new(THREADS);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let guests: Vec<_> = (0..THREADS)
            .map(|guest| {
                let (file, start) = (&file, &start);
                scope.spawn(move || {
                    // All threads open the file at once, so that its creation is part of the race.
                    start.wait();
                    let mut ledger = HotelDatabase::open(file).unwrap();
                    if guest == 0 {
                        ledger.reserve(&request("room-401", "2026-12-01", "2026-12-31")).unwrap();
                    }
                    start.wait();
                    let suites = free(&ledger, "2026-12-10", "2026-12-15", Some(RoomType::Suite));
                    assert!(suites.len() <= 1, "the other suite is booked");
                    start.wait();
                    // All stays include the night of the 12th.
                    let (check_in, check_out) = [("10", "13"), ("12", "15"), ("12", "13"), ("08", "18")][guest % 4];
                    let (check_in, check_out) = (format!("2026-12-{check_in}"), format!("2026-12-{check_out}"));
                    ledger.reserve(&request("room-402", &check_in, &check_out))
                })
            })
            .collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).collect()
    });

    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let taken = outcomes.iter().filter(|outcome| matches!(outcome, Err(HotelError::RoomTaken { .. }))).count();
    println!("{THREADS} threads wanted the last suite: {won} got it, {taken} were told it is taken");
    assert_eq!((won, taken), (1, THREADS - 1));
    assert_eq!(confirmed(&file, "room-402"), 1);
}

#[test]
fn concurrent_threads_book_each_of_three_deluxe_rooms_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hotel.db");
    drop(HotelDatabase::open(&file).unwrap());
    let start = Barrier::new(THREADS);
    let booked: usize = thread::scope(|scope| {
        let guests: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut ledger = HotelDatabase::open(&file).unwrap();
                    start.wait();
                    // Search and book until one attempt succeeds or no room is free.
                    loop {
                        let offers = free(&ledger, "2026-12-24", "2026-12-26", Some(RoomType::Deluxe));
                        let Some(offer) = offers.first() else {
                            return 0;
                        };
                        let wanted = request(&offer.room.room_id, "2026-12-24", "2026-12-26");
                        match ledger.reserve(&wanted) {
                            Ok(_) => return 1,
                            Err(HotelError::RoomTaken { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).sum()
    });
    assert_eq!(booked, 3, "the hotel has three deluxe rooms");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_8_processes_books_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hotel.db");
    // All processes start on a file that does not exist yet.
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..PROCESSES {
        let file = file.clone();
        starting.spawn(async move { Client::in_process("race::helper_process_serves_the_hotel", &file).await });
    }
    let desks = starting.join_all().await;

    let mut calls = tokio::task::JoinSet::new();
    let (clients, processes): (Vec<_>, Vec<_>) = desks.into_iter().unzip();
    for client in clients {
        calls.spawn(async move {
            let arguments = json!({
                "room_id": "room-402", "check_in": "2026-12-10", "check_out": "2026-12-15",
                "guest_name": "Grace Hopper", "guests": 4
            });
            let result = client.call("make_reservation", arguments).await;
            client.disconnect().await;
            let said = text(&result).to_owned();
            (result.is_error == Some(false), said)
        });
    }
    let outcomes = calls.join_all().await;
    let won = outcomes.iter().filter(|(booked, _)| *booked).count();
    println!("{PROCESSES} processes wanted one suite: {won} got it");
    assert_eq!(won, 1, "{outcomes:?}");
    for (booked, said) in &outcomes {
        assert!(*booked || said.starts_with("room-402 is already taken"), "{said}");
    }
    assert_eq!(confirmed(&file, "room-402"), 1);
    for mut process in processes {
        assert!(process.wait().await.unwrap().success(), "a hung-up server ends well");
    }
}

/// Not a test: the server program that the test above starts as child processes.
#[tokio::test(flavor = "multi_thread")]
async fn helper_process_serves_the_hotel() {
    if let Some(db) = std::env::var_os("NUNCIO_DEMO_DB") {
        exit_process(&nuncio_demo::hotel(&PathBuf::from(db)).await);
    }
}

fn confirmed(file: &Path, room_id: &str) -> i64 {
    let sql = "SELECT count(*) FROM reservation WHERE room_id = ?1 AND status = 'confirmed'";
    Connection::open(file).unwrap().query_row(sql, [room_id], |row| row.get(0)).unwrap()
}
