//! A stay: the nights between two dates.

use jiff::{ToSpan, civil::Date};
use serde::Serialize;

use super::HotelError;

/// Maximum length of a stay, in nights.
pub const MAX_NIGHTS: u32 = 30;

/// One to [`MAX_NIGHTS`] nights from the evening of `check_in` to the morning of `check_out`. The night of `check_out`
/// is not part of the stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stay {
    #[serde(serialize_with = "iso")]
    check_in: Date,
    #[serde(serialize_with = "iso")]
    check_out: Date,
    nights: u32,
}

impl Stay {
    /// Creates a stay between two dates, which may be in the past.
    ///
    /// # Errors
    ///
    /// Fails if the stay has no night or more than [`MAX_NIGHTS`].
    pub fn new(check_in: Date, check_out: Date) -> Result<Self, HotelError> {
        let days = check_in.duration_until(check_out).as_hours() / 24;
        let nights = u32::try_from(days).unwrap_or(0);
        match nights {
            0 => Err(HotelError::NoNights { check_in, check_out }),
            1..=MAX_NIGHTS => Ok(Self { check_in, check_out, nights }),
            _ => Err(HotelError::TooLong { nights }),
        }
    }

    /// Creates a stay between two dates written `YYYY-MM-DD`.
    pub fn parse(check_in: &str, check_out: &str) -> Result<Self, HotelError> {
        Self::new(date("check_in", check_in)?, date("check_out", check_out)?)
    }

    #[must_use]
    pub fn check_in(&self) -> Date {
        self.check_in
    }

    #[must_use]
    pub fn check_out(&self) -> Date {
        self.check_out
    }

    #[must_use]
    pub fn nights(&self) -> u32 {
        self.nights
    }

    /// Nights of the stay, each given as the date of its evening.
    pub fn each_night(&self) -> impl Iterator<Item = Date> + use<> {
        let end = self.check_out;
        self.check_in.series(1.day()).take_while(move |night| *night < end)
    }
}

fn date(field: &'static str, value: &str) -> Result<Date, HotelError> {
    // `Date` also parses times, zones and bare digits; the tools accept only `YYYY-MM-DD`.
    let shaped = value.len() == 10
        && value.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shaped.then(|| value.parse().ok()).flatten().ok_or_else(|| HotelError::BadDate { field, value: value.to_owned() })
}

fn iso<S: serde::Serializer>(date: &Date, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(date)
}
