//! Validated values: stays, names, ids, amounts.

use nuncio_demo::hotel::{EuroCents, GuestName, HotelError, MAX_NIGHTS, ReservationId, Stay};

#[test]
fn date_that_is_not_an_existing_yyyy_mm_dd_is_refused() {
    for wrong in [
        "",
        "tomorrow",
        "2026-2-3",
        "20261203",
        "2026-12-03T10:00",
        "2026-12-03 ",
        "+2026-12-0",
        "2026-02-30",
        "2026-13-01",
        "2026-00-10",
        "2026/12/03",
        "03-12-2026",
        "２026-12-3",
        "0000-00-00",
    ] {
        let first = Stay::parse(wrong, "2026-12-04");
        assert!(matches!(first, Err(HotelError::BadDate { field: "check_in", .. })), "{wrong:?}");
        let second = Stay::parse("2026-12-01", wrong);
        assert!(matches!(second, Err(HotelError::BadDate { field: "check_out", .. })), "{wrong:?}");
    }
}

#[test]
fn stay_must_have_one_to_thirty_nights() {
    let nights = |out| Stay::parse("2028-02-01", out).map(|stay| stay.nights());
    assert_eq!(nights("2028-02-02").unwrap(), 1);
    // 2028 is a leap year.
    assert_eq!(nights("2028-03-01").unwrap(), 29);
    assert_eq!(nights("2028-03-02").unwrap(), MAX_NIGHTS);
    assert!(matches!(nights("2028-03-03"), Err(HotelError::TooLong { nights: 31 })));
    assert!(matches!(nights("9999-12-31"), Err(HotelError::TooLong { .. })));
    assert!(matches!(nights("2028-02-01"), Err(HotelError::NoNights { .. })));
    assert!(matches!(nights("2028-01-31"), Err(HotelError::NoNights { .. })));
}

#[test]
fn nights_of_a_stay_exclude_the_check_out_date() {
    let stay = Stay::parse("2026-12-30", "2027-01-02").unwrap();
    let nights: Vec<String> = stay.each_night().map(|night| night.to_string()).collect();
    assert_eq!(nights, ["2026-12-30", "2026-12-31", "2027-01-01"]);
}

#[test]
fn reservation_id_parsing_maps_o_to_0_and_l_to_1_and_ignores_case() {
    for byte in 0..=255 {
        let id = ReservationId::from_random([byte; 6]);
        assert!(!id.as_str()[3..].contains(['I', 'L', 'O', 'U']), "{id}");
        assert_eq!(id.as_str().parse::<ReservationId>().unwrap(), id);
    }
    let spoken: ReservationId = " gh-7ko1lx ".parse().unwrap();
    assert_eq!(spoken.as_str(), "GH-7K011X");
    for wrong in ["", "GH-", "7K3QXM", "GH-7K3QX", "GH-7K3QXMM", "GH-7K3QXU", "GH-7K3QX…", "HG-7K3QXM"] {
        assert!(wrong.parse::<ReservationId>().is_err(), "{wrong:?}");
    }
}

#[test]
fn guest_name_must_be_one_line_of_1_to_200_characters() {
    assert_eq!("  李 小龙 ".parse::<GuestName>().unwrap().as_str(), "李 小龙");
    assert!("é".repeat(200).parse::<GuestName>().is_ok());
    for wrong in ["", "   ", "Ada\nLovelace", "Ada\u{7f}", &"é".repeat(201)] {
        assert!(wrong.parse::<GuestName>().is_err(), "{wrong:?}");
    }
}

#[test]
fn amounts_in_cents_are_serialised_as_exact_euros() {
    let written = |cents| serde_json::to_string(&EuroCents::new(cents)).unwrap();
    assert_eq!(written(29_800), "298");
    assert_eq!(written(9_450), "94.5");
    assert_eq!(written(9_449), "94.49");
    assert_eq!(written(1), "0.01");
    assert_eq!(EuroCents::from_euros(94).times(3), EuroCents::new(28_200));
    for cents in 0..100_000 {
        let number: f64 = written(cents).parse().unwrap();
        assert_eq!((number * 100.0).round() as i64, cents);
    }
}
