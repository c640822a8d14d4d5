//! Booking rules of the hotel ledger.

use nuncio_demo::hotel::{
    BookingRequest, HotelDatabase, HotelError, Reservation, ReservationStatus, RoomOffer, RoomSearch, RoomType, Stay,
};
use tempfile::TempDir;

fn hotel() -> (HotelDatabase, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (HotelDatabase::open(&folder.path().join("hotel.db")).unwrap(), folder)
}

pub(crate) fn request(room_id: &str, check_in: &str, check_out: &str) -> BookingRequest {
    BookingRequest {
        room_id: room_id.to_owned(),
        stay: Stay::parse(check_in, check_out).unwrap(),
        guest_name: "Ada Lovelace".parse().unwrap(),
        guests: 2,
    }
}

pub(crate) fn free(
    ledger: &HotelDatabase,
    check_in: &str,
    check_out: &str,
    room_type: Option<RoomType>,
) -> Vec<RoomOffer> {
    let stay = Stay::parse(check_in, check_out).unwrap();
    ledger.search(&RoomSearch { stay, guests: 1, room_type }).unwrap()
}

fn book(ledger: &mut HotelDatabase, check_in: &str, check_out: &str) -> Result<Reservation, HotelError> {
    ledger.reserve(&request("room-203", check_in, check_out))
}

#[test]
fn new_hotel_offers_twelve_rooms_of_four_types_cheapest_first() {
    let (ledger, _folder) = hotel();
    let rooms = free(&ledger, "2026-12-01", "2026-12-04", None);
    assert_eq!(rooms.len(), 12);
    for kind in RoomType::ALL {
        assert!(rooms.iter().any(|offer| offer.room.room_type == kind), "{kind:?}");
        let of_kind = free(&ledger, "2026-12-01", "2026-12-04", Some(kind));
        assert!(of_kind.iter().all(|offer| offer.room.room_type == kind));
    }
    assert!(rooms.is_sorted_by_key(|offer| offer.room.price_per_night));
    for offer in rooms {
        assert_eq!((offer.nights, offer.currency), (3, "EUR"));
        assert_eq!(offer.total, offer.room.price_per_night.times(3));
    }
}

#[test]
fn search_lists_only_rooms_that_are_large_enough() {
    let (ledger, _folder) = hotel();
    let stay = Stay::parse("2026-12-01", "2026-12-02").unwrap();
    for guests in 1..=6 {
        let found = ledger.search(&RoomSearch { stay, guests, room_type: None }).unwrap();
        assert!(found.iter().all(|offer| offer.room.max_guests >= guests));
        assert_eq!(found.is_empty(), guests == 6, "the largest room sleeps five");
    }
}

#[test]
fn booked_room_is_unavailable_exactly_on_nights_of_the_stay() {
    // Relative to a stay from the 10th to the 15th: (check_in, check_out, conflicts).
    let matrix = [
        ("05", "10", false, "ends on the morning the other begins"),
        ("15", "20", false, "begins on the evening the other ends"),
        ("05", "09", false, "well before"),
        ("16", "20", false, "well after"),
        ("10", "15", true, "the same nights"),
        ("09", "11", true, "over the first night"),
        ("14", "16", true, "over the last night"),
        ("14", "15", true, "the last night alone"),
        ("10", "11", true, "the first night alone"),
        ("12", "13", true, "inside"),
        ("08", "18", true, "around"),
        ("10", "18", true, "same beginning, longer"),
        ("08", "15", true, "same end, longer"),
    ];
    for (check_in, check_out, clashes, what) in matrix {
        let (mut ledger, _folder) = hotel();
        book(&mut ledger, "2026-12-10", "2026-12-15").unwrap();
        let (check_in, check_out) = (format!("2026-12-{check_in}"), format!("2026-12-{check_out}"));

        let offered = free(&ledger, &check_in, &check_out, None).iter().any(|offer| offer.room.room_id == "room-203");
        assert_eq!(offered, !clashes, "{what}");

        match book(&mut ledger, &check_in, &check_out) {
            Ok(_) => assert!(!clashes, "{what}"),
            Err(HotelError::RoomTaken { room_id, night }) => {
                assert!(clashes, "{what}");
                assert_eq!(room_id, "room-203");
                let first_shared = check_in.as_str().max("2026-12-10");
                assert_eq!(night.to_string(), first_shared, "{what}");
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

#[test]
fn refused_booking_reserves_no_night() {
    let (mut ledger, _folder) = hotel();
    book(&mut ledger, "2026-12-12", "2026-12-13").unwrap();
    book(&mut ledger, "2026-12-10", "2026-12-15").unwrap_err();
    book(&mut ledger, "2026-12-10", "2026-12-12").unwrap();
    book(&mut ledger, "2026-12-13", "2026-12-15").unwrap();
}

#[test]
fn reservation_lookup_returns_all_details_of_the_booking() {
    let (mut ledger, _folder) = hotel();
    let made = book(&mut ledger, "2027-02-27", "2027-03-02").unwrap();
    assert_eq!(made.room_type, RoomType::Deluxe);
    assert_eq!((made.stay.nights(), made.guests), (3, 2));
    assert_eq!(made.guest_name.as_str(), "Ada Lovelace");
    assert_eq!((made.currency, made.status), ("EUR", ReservationStatus::Confirmed));
    assert_eq!(serde_json::to_value(made.total).unwrap(), 3 * 179);
    assert_eq!(ledger.reservation(&made.reservation_id).unwrap(), made);
}

#[test]
fn stays_in_the_past_and_far_future_can_be_booked() {
    let (mut ledger, _folder) = hotel();
    book(&mut ledger, "1889-05-06", "1889-05-07").unwrap();
    book(&mut ledger, "9999-12-01", "9999-12-31").unwrap();
}

#[test]
fn repeated_cancellation_is_refused_and_frees_no_night() {
    let (mut ledger, _folder) = hotel();
    let first = book(&mut ledger, "2026-12-10", "2026-12-15").unwrap();
    let cancelled = ledger.cancel(&first.reservation_id).unwrap();
    assert_eq!(cancelled, Reservation { status: ReservationStatus::Cancelled, ..first.clone() });
    assert_eq!(ledger.reservation(&first.reservation_id).unwrap(), cancelled);

    let second = book(&mut ledger, "2026-12-10", "2026-12-15").unwrap();
    let again = ledger.cancel(&first.reservation_id).unwrap_err();
    assert!(matches!(again, HotelError::AlreadyCancelled(_)), "{again}");
    // The repeated cancellation of the first reservation did not free the nights of the second one.
    assert_eq!(ledger.reservation(&second.reservation_id).unwrap(), second);
    book(&mut ledger, "2026-12-10", "2026-12-15").unwrap_err();
}

#[test]
fn unknown_room_too_many_guests_and_unknown_reservation_id_are_refused() {
    let (mut ledger, _folder) = hotel();
    let unknown = ledger.reserve(&request("room-999", "2026-12-10", "2026-12-11")).unwrap_err();
    assert!(matches!(unknown, HotelError::UnknownRoom(_)), "{unknown}");

    let crowd = BookingRequest { guests: 4, ..request("room-203", "2026-12-10", "2026-12-11") };
    let crowded = ledger.reserve(&crowd).unwrap_err();
    assert!(matches!(crowded, HotelError::TooManyGuests { max_guests: 3, .. }), "{crowded}");

    let id = "GH-000000".parse().unwrap();
    assert!(matches!(ledger.reservation(&id), Err(HotelError::UnknownReservation(_))));
    assert!(matches!(ledger.cancel(&id), Err(HotelError::UnknownReservation(_))));
    assert_eq!(free(&ledger, "2026-12-10", "2026-12-11", None).len(), 12);
}
