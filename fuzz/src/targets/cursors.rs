//! Event ids, cursors, ids and times: an accepted text is written back unchanged, and what a text means stays the same
//! when it is written and read again. The cursors of A2H are ids and numbers.

use nuncio_aap::EventId;
use nuncio_anp::directory::DirectorySearchQuery;
use nuncio_core::ids::{
    AgentId, ClientMessageId, ConversationId, DeviceId, PersonName, RelationId, ScopeId, SessionId,
};
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::ListingId;
use nuncio_engine::ports::store::SessionCursor;
use nuncio_identity::{Did, DidUrl};
use nuncio_skill::registry::RegistryQuery;

macro_rules! unchanged {
    ($text:expr, $($name:ty),*) => {$(
        if let Ok(id) = <$name>::parse($text) {
            assert_eq!(id.as_str(), $text, stringify!($name));
        }
    )*};
}

pub fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    if let Some(id) = EventId::parse(text) {
        assert_eq!(EventId::parse(&format!("{}.{}", id.turn, id.event)), Some(id));
    }
    if let Some(cursor) = SessionCursor::parse(text) {
        assert_eq!(SessionCursor::parse(&cursor.to_string()), Some(cursor));
    }
    unchanged!(
        text,
        AgentId,
        ClientMessageId,
        ConversationId,
        DeviceId,
        ListingId,
        PersonName,
        RelationId,
        ScopeId,
        SessionId
    );
    if let Ok(time) = Timestamp::try_from(text.to_owned()) {
        assert_eq!(Timestamp::try_from(time.to_string()), Ok(time));
    }
    if let Ok(did) = Did::parse(text) {
        assert_eq!(Did::parse(did.as_str()).as_ref(), Ok(&did));
        assert!(did.resolution_url().starts_with("https://"));
    }
    if let Ok(url) = DidUrl::parse(text) {
        assert_eq!(DidUrl::parse(&url.to_string()), Ok(url));
    }
    let parameters = || text.split('&').filter_map(|pair| pair.split_once('='));
    let _ = RegistryQuery::read(parameters());
    let _ = DirectorySearchQuery::read(parameters());
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "2.7",
        "18446744073709551615.18446744073709551615",
        " 1.0 ",
        "MTc5NDc0MDQwMDAwMC9zZXNfMW03a3plMXcwMmZ5cGh3ZXRtYzVueXJrMXRqcDk",
        "LTEvc2VzXzE",
        "reg_0123456789abcdef01234567",
        "cursor=https://hotel.example/ad.json&limit=1&capability=book&tag=hotel.booking",
        "ses_1m7kze1w02fyphwetmc5nyrk1tjp9",
        "conv_1",
        "filesystem:read",
        "ada@example.com",
        "2026-06-27T12:00:00.123Z",
        "2026-06-27T12:00:00+02:00",
        "cursor=https://example.com hotel/book&limit=10&type=task&tag=a&q=rooms",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    seeds.extend(crate::seeds::texts_in(include_str!(
        "../../../crates/nuncio-identity/tests/data/resolution_urls.json"
    )));
    seeds
}
