//! Encrypted streams: order, integrity and manipulation by the relay.

use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::ids::ConversationId;
use nuncio_identity::seal::{
    NewSealedStream, OpenError, RecipientDevice, RelayMetadata, SealError, SealedStreamPiece, StreamOpener,
    StreamSealError, StreamSealer, padded_len,
};
use proptest::prelude::*;

use crate::seal_fixtures::{TestIdentity, client_id, pair, relay_metadata, send_text, stream, text, text_message};

/// Relay metadata of a stream's first envelope.
fn stream_metadata(new: &NewSealedStream, sender: &TestIdentity) -> RelayMetadata {
    let plaintext = text_message(new.stream.as_str(), "");
    RelayMetadata { content_type: ContentType::System, sender_device: None, ..relay_metadata(&plaintext, sender) }
}

/// Starts a stream and opens its first envelope.
fn start_stream(from: &mut TestIdentity, to: &mut TestIdentity, id: &str) -> (StreamSealer, StreamOpener) {
    let bundle = to.bundle();
    let wants = from.seal_identity.needs_one_time_key(ConversationType::H2a, &bundle).unwrap();
    let key = wants.then(|| to.keys.pop_front().unwrap());
    let addressee = RecipientDevice { bundle: &bundle, one_time_key: key.as_ref() };
    let (envelope, sealer) = StreamSealer::begin(&mut from.seal_identity, stream(id), &[addressee]).unwrap();
    let relay = stream_metadata(&stream(id), from);
    let (opened, opener) =
        StreamOpener::begin(&mut to.seal_identity, &relay, &envelope, stream(id).created_at).unwrap();
    assert_eq!(opened.payload["key"], "", "the payload has no key");
    (sealer, opener.unwrap())
}

#[test]
fn stream_pieces_open_to_the_sealed_texts() {
    for mode in [SealMode::Stateful, SealMode::Stateless] {
        let (mut ada, mut hotel) = pair(mode);
        let (mut sealer, mut opener) = start_stream(&mut hotel, &mut ada, "s1");
        for (number, said) in (1..).zip(["Your", " room", "", " is ready: 您的房间准备好了"]) {
            let piece = sealer.piece(said).unwrap();
            assert_eq!((piece.seq, piece.sealed.len()), (number, padded_len(said.len()) + 16));
            assert_eq!(opener.piece(piece.seq, &piece.sealed).unwrap(), said);
        }
        let end = sealer.end(&client_id("m1")).unwrap();
        assert_eq!(opener.end(end.seq, &end.sealed), Ok(client_id("m1")));
        assert_eq!(sealer.piece("more"), Err(StreamSealError::Over));
        assert_eq!(sealer.end(&client_id("m2")), Err(StreamSealError::Over));
        assert_eq!(opener.end(end.seq, &end.sealed), Err(StreamSealError::Over));
        // Ordinary messages still work after a stream.
        assert_eq!(text(&send_text(&mut hotel, &mut ada, "m1").unwrap()), "m1");
        assert_eq!(text(&send_text(&mut ada, &mut hotel, "m2").unwrap()), "m2");
    }
}

/// Seals four pieces and the end of a stream.
fn five_pieces(sealer: &mut StreamSealer) -> Vec<SealedStreamPiece> {
    let mut pieces: Vec<_> = ["a", "b", "c", "d"].map(|text| sealer.piece(text).unwrap()).into();
    pieces.push(sealer.end(&client_id("m1")).unwrap());
    pieces
}

#[test]
fn repeated_reordered_or_missing_stream_piece_ends_the_stream() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    for (number, (order, expected, found)) in
        [(vec![1, 1], 2, 1), (vec![1, 2, 1], 3, 1), (vec![2], 1, 2), (vec![1, 3], 2, 3)].into_iter().enumerate()
    {
        let (mut sealer, mut opener) = start_stream(&mut hotel, &mut ada, &format!("s{number}"));
        let pieces = five_pieces(&mut sealer);
        let (last, first) = order.split_last().unwrap();
        for seq in first {
            opener.piece(*seq, &pieces[usize::try_from(*seq).unwrap() - 1].sealed).unwrap();
        }
        let refused = opener.piece(*last, &pieces[usize::try_from(*last).unwrap() - 1].sealed);
        assert_eq!(refused, Err(StreamSealError::OutOfOrder { expected, found }), "{order:?}");
        // Nothing more is opened, not even the correct next piece.
        let next = &pieces[usize::try_from(expected).unwrap() - 1];
        assert_eq!(opener.piece(next.seq, &next.sealed), Err(StreamSealError::Over), "{order:?}");
    }
}

#[test]
fn stream_piece_of_another_position_or_stream_is_refused() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let mut number = 0;
    let mut fresh = || {
        number += 1;
        let (mut sealer, opener) = start_stream(&mut hotel, &mut ada, &format!("s{number}"));
        (five_pieces(&mut sealer), opener)
    };
    // Another piece under the number of the expected one.
    let (pieces, mut opener) = fresh();
    assert_eq!(opener.piece(1, &pieces[1].sealed), Err(StreamSealError::Tampered));
    // The end as a piece, and a piece as the end.
    let (pieces, mut opener) = fresh();
    pieces[..4].iter().for_each(|piece| assert!(opener.piece(piece.seq, &piece.sealed).is_ok()));
    assert_eq!(opener.piece(5, &pieces[4].sealed), Err(StreamSealError::Tampered));
    let (pieces, mut opener) = fresh();
    assert_eq!(opener.end(1, &pieces[0].sealed), Err(StreamSealError::Tampered));
    // A piece of another stream.
    let ((pieces, _), (_, mut opener)) = (fresh(), fresh());
    assert_eq!(opener.piece(1, &pieces[0].sealed), Err(StreamSealError::Tampered));
    // An empty piece.
    let (_, mut opener) = fresh();
    assert_eq!(opener.piece(1, &[]), Err(StreamSealError::Tampered));
}

#[test]
fn stream_start_is_opened_once_with_matching_metadata() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let (bundle, key) = (ada.bundle(), ada.keys.pop_front());
    let to = [RecipientDevice { bundle: &bundle, one_time_key: key.as_ref() }];
    let (envelope, _) = StreamSealer::begin(&mut hotel.seal_identity, stream("s1"), &to).unwrap();
    let relay = stream_metadata(&stream("s1"), &hotel);
    let now = stream("s1").created_at;
    let mut refused =
        |relay: &RelayMetadata| StreamOpener::begin(&mut ada.seal_identity, relay, &envelope, now).unwrap_err();
    let elsewhere = ConversationId::parse("conv_2").unwrap();
    for (relay, field) in [
        (RelayMetadata { conversation: elsewhere, ..relay.clone() }, "conversation_id"),
        (RelayMetadata { conversation_type: ConversationType::Group, ..relay.clone() }, "conversation_type"),
        (RelayMetadata { client_id: client_id("s2"), ..relay.clone() }, "client_message_id"),
        (RelayMetadata { content_type: ContentType::Text, ..relay.clone() }, "content_type"),
    ] {
        assert_eq!(refused(&relay), OpenError::Mislabelled { field });
    }
    assert!(StreamOpener::begin(&mut ada.seal_identity, &relay, &envelope, now).unwrap().1.is_some());
    assert_eq!(StreamOpener::begin(&mut ada.seal_identity, &relay, &envelope, now).unwrap_err(), OpenError::Replayed);
    // A system message that does not start a stream.
    let mut plaintext = text_message("r1", "");
    plaintext.content_type = ContentType::System;
    plaintext.payload = serde_json::json!({"type": "system", "event": "other"});
    let envelope = hotel.seal(&plaintext, &mut ada).unwrap();
    let relay = RelayMetadata { client_id: client_id("r1"), ..relay };
    assert!(StreamOpener::begin(&mut ada.seal_identity, &relay, &envelope, now).unwrap().1.is_none());
}

#[test]
fn person_cannot_start_a_stream() {
    let (mut ada, hotel) = pair(SealMode::Stateless);
    let bundle = hotel.bundle();
    let to = [RecipientDevice { bundle: &bundle, one_time_key: None }];
    let refused = StreamSealer::begin(&mut ada.seal_identity, stream("s1"), &to).unwrap_err();
    assert!(matches!(refused, SealError::Mismatched(_)), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stream_piece_with_a_flipped_bit_is_refused(said in "\\PC{0,600}", place in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let (mut ada, mut hotel) = pair(SealMode::Stateless);
        let (mut sealer, mut opener) = start_stream(&mut hotel, &mut ada, "s1");
        let mut piece = sealer.piece(&said).unwrap();
        let place = place.index(piece.sealed.len());
        piece.sealed[place] ^= 1 << bit;
        prop_assert_eq!(opener.piece(piece.seq, &piece.sealed), Err(StreamSealError::Tampered));
    }
}
