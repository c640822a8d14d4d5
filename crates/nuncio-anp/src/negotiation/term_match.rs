//! Matching of terms: hierarchical tags, and texts as sets of words.

/// Maximum number of words that are compared.
const MAX_WORDS: usize = 512;
/// Initial capacity for the words of a text; most texts have at most this many.
const USUAL_WORDS: usize = 48;
/// Length up to which a text has fewer than `MAX_WORDS` words, because a word takes one byte and a separator.
const SHORT_TEXT_BYTES: usize = 2 * MAX_WORDS - 2;
/// Initial capacity for the parts of a tag; most tags have at most this many.
const USUAL_PARTS: usize = 4;

/// Stop words, which are not compared.
const EMPTY_WORDS: [&[u8]; 36] = [
    b"a", b"an", b"and", b"any", b"are", b"as", b"at", b"be", b"by", b"can", b"do", b"for", b"from", b"i", b"in",
    b"is", b"it", b"its", b"me", b"my", b"of", b"on", b"or", b"our", b"please", b"some", b"that", b"the", b"this",
    b"to", b"we", b"will", b"with", b"would", b"you", b"your",
];

/// Stop words, packed into numbers and sorted for a binary search.
const EMPTY_NUMBERS: [u64; EMPTY_WORDS.len()] = numbers(EMPTY_WORDS);

/// A tag such as `hotel.booking.create`, as hashes of its parts from general to specific.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HashedIntentTag(Vec<u64>);

impl HashedIntentTag {
    /// Parses a tag, ignoring case; `None` if the tag is empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::with_capacity(USUAL_PARTS);
        let mut begin = 0;
        // Separators are single bytes that occur in no multi-byte character.
        for (at, byte) in text.bytes().chain([b'.']).enumerate() {
            if matches!(byte, b'.' | b':' | b'/') {
                let part = text[begin..at].trim();
                parts.extend((!part.is_empty()).then(|| hash_lower(part)));
                begin = at + 1;
            }
        }
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Points for how well this tag matches `wanted`: 1000 if equal; 900 if below `wanted`; 600 times the share of
    /// common parts if above `wanted`; otherwise 0.
    pub(super) fn answers(&self, wanted: &Self) -> u32 {
        let shared = self.0.iter().zip(&wanted.0).take_while(|(one, other)| one == other).count();
        match (shared == self.0.len(), shared == wanted.0.len()) {
            (true, true) => 1000,
            (false, true) => 900,
            (true, false) => 600 * number(shared) / number(wanted.0.len()),
            (false, false) => 0,
        }
    }
}

/// Distinct words of some texts, as hashes. Scripts without spaces are split into pairs of characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HashedWordSet(Box<[u64]>);

impl HashedWordSet {
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words = Vec::with_capacity(USUAL_WORDS);
        gather(texts, |word| {
            words.extend((!is_empty(word)).then(|| hash(stem(word))));
            words.len() < MAX_WORDS
        });
        words.sort_unstable();
        words.dedup();
        Self(words.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Share of the words in this set that the texts contain, out of 1000.
    pub(super) fn found_in<'a>(&self, texts: impl Iterator<Item = &'a str> + Clone) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        // A text this short cannot exceed the word limit, so no counting is needed.
        let is_short = texts.clone().map(str::len).sum::<usize>() <= SHORT_TEXT_BYTES;
        // A bloom filter: most words of a text are rejected by one test.
        let maybe = self.0.iter().fold(0, |all, word| all | bit(*word));
        let mut found = [0; MAX_WORDS / 64];
        let mut room = MAX_WORDS;
        gather(texts, |word| {
            if !is_short && !is_empty(word) {
                room -= 1;
            }
            let hash = hash(stem(word));
            if maybe & bit(hash) != 0
                && let Ok(at) = self.0.binary_search(&hash)
                && !is_empty(word)
            {
                found[at / 64] |= 1_u64 << (at % 64);
            }
            room > 0
        });
        1000 * found.iter().map(|part| part.count_ones()).sum::<u32>() / number(self.0.len())
    }
}

const fn bit(word: u64) -> u64 {
    1 << (word & 63)
}

/// Passes the words of some texts, in lower case, to `take` until `take` returns false.
fn gather<'a>(texts: impl IntoIterator<Item = &'a str>, mut take: impl FnMut(&[u8]) -> bool) {
    for text in texts {
        let has_room = if text.is_ascii() { gather_plain(text, &mut take) } else { gather_any(text, &mut take) };
        if !has_room {
            return;
        }
    }
}

fn gather_any(text: &str, take: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let mut word = String::new();
    let mut sign: Option<char> = None;
    let (mut paired, mut has_room) = (false, true);
    let mut ended = Vec::new();
    for c in text.chars() {
        if is_unparted(c) {
            ended.extend(end(&mut word));
            if let Some(before) = sign {
                ended.push([before, c].iter().collect());
            }
            paired = sign.is_some();
            sign = Some(c);
        } else {
            ended.extend(sign.take().filter(|_| !paired).map(String::from));
            paired = false;
            let begins = c.is_uppercase() && word.chars().next_back().is_some_and(char::is_lowercase);
            if begins || !c.is_alphanumeric() {
                ended.extend(end(&mut word));
            }
            if c.is_alphanumeric() {
                // A capital marks a word boundary in `camelCase`, so case is kept until the word ends.
                word.push(c);
            }
        }
        for word in ended.drain(..) {
            has_room = has_room && take(word.as_bytes());
        }
        if !has_room {
            return false;
        }
    }
    ended.extend(sign.filter(|_| !paired).map(String::from));
    ended.extend(end(&mut word));
    ended.iter().all(|word| take(word.as_bytes()))
}

/// Returns the collected word in lower case and clears the buffer; `None` if the word is empty.
fn end(word: &mut String) -> Option<String> {
    let ended = std::mem::take(word);
    (!ended.is_empty()).then(|| ended.to_lowercase())
}

/// [`gather`] for ASCII texts, the usual case: copies only words with capitals.
fn gather_plain(text: &str, take: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (mut begin, mut capitals, mut before) = (0, false, b' ');
    for at in 0..=bytes.len() {
        let byte = bytes.get(at).copied().unwrap_or(b' ');
        let is_capital = byte.is_ascii_uppercase();
        if (is_capital && !before.is_ascii_lowercase()) || byte.is_ascii_lowercase() || byte.is_ascii_digit() {
            (capitals, before) = (capitals || is_capital, byte);
            continue;
        }
        let word = &bytes[begin..at];
        let has_room = match capitals {
            _ if word.is_empty() => true,
            true => take(&word.to_ascii_lowercase()),
            false => take(word),
        };
        if !has_room {
            return false;
        }
        // A capital letter begins the next word; any other separator belongs to no word.
        (begin, capitals, before) = (if is_capital { at } else { at + 1 }, is_capital, byte);
    }
    true
}

/// Whether a lower-case word is a stop word.
fn is_empty(word: &[u8]) -> bool {
    word.len() < 8 && EMPTY_NUMBERS.binary_search(&as_number(word)).is_ok()
}

/// Removes the longest inflectional ending of a word, if at least three letters remain.
fn stem(word: &[u8]) -> &[u8] {
    fn cut<'a, const N: usize>(word: &'a [u8], ending: &[u8; N]) -> Option<&'a [u8]> {
        let is_letter = |byte: &&u8| **byte & 0xc0 != 0x80;
        let is_enough = |rest: &&[u8]| rest.len() >= 12 || rest.iter().filter(is_letter).count() >= 3;
        word.strip_suffix(ending).filter(is_enough)
    }
    let stem = match word.last() {
        Some(b's') => cut(word, b"ations")
            .or_else(|| cut(word, b"ings"))
            .or_else(|| cut(word, b"ions"))
            .or_else(|| cut(word, b"es"))
            .or_else(|| cut(word, b"s")),
        Some(b'n') => cut(word, b"ation").or_else(|| cut(word, b"ion")),
        Some(b'g') => cut(word, b"ing"),
        Some(b'd') => cut(word, b"ed"),
        Some(b'e') => cut(word, b"e"),
        _ => None,
    };
    stem.unwrap_or(word)
}

/// Packs a short word into a number.
const fn as_number(word: &[u8]) -> u64 {
    let (mut number, mut at) = (0, 0);
    while at < word.len() {
        number = number << 8 | word[at] as u64;
        at += 1;
    }
    number
}

const fn numbers<const N: usize>(words: [&[u8]; N]) -> [u64; N] {
    let mut numbers = [0; N];
    let mut count = 0;
    while count < N {
        // Insertion sort.
        let (number, mut at) = (as_number(words[count]), count);
        while at > 0 && numbers[at - 1] > number {
            numbers[at] = numbers[at - 1];
            at -= 1;
        }
        numbers[at] = number;
        count += 1;
    }
    numbers
}

/// Whether a character belongs to a script that does not separate words by spaces.
fn is_unparted(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '\u{0e00}'..='\u{0eff}')
}

/// Hash that is equal on all machines: as FNV-1a, but over eight bytes at a time, with another factor, and with the
/// high bits mixed in each time.
fn hash(text: &[u8]) -> u64 {
    let step = |hash: u64, part: u64| {
        let mixed = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    };
    let mut chunks = text.chunks_exact(8);
    let part = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_be_bytes);
    let whole = chunks.by_ref().fold(text.len() as u64, |hash, chunk| step(hash, part(chunk)));
    step(whole, as_number(chunks.remainder()))
}

/// Hash of the text in lower case.
fn hash_lower(text: &str) -> u64 {
    match text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        true => hash(text.to_lowercase().as_bytes()),
        false => hash(text.as_bytes()),
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tag_scores_highest_then_subtag_then_parent_tag_and_others_zero() {
        let answers = |has: &str, wants: &str| {
            HashedIntentTag::parse(has).unwrap().answers(&HashedIntentTag::parse(wants).unwrap())
        };
        for (has, wants, points) in [
            ("hotel.booking", "hotel.booking", 1000),
            ("Hotel.Booking", "hotel:booking", 1000),
            ("hotel.booking.create", "hotel.booking", 900),
            ("hotel.booking", "hotel.booking.create", 400),
            ("hotel", "hotel.booking.create", 200),
            ("hotel.search", "hotel.booking", 0),
            ("hotel.bookings", "hotel.booking", 0),
            ("酒店.预订.新建", "酒店.预订", 900),
        ] {
            assert_eq!(answers(has, wants), points, "{has} for {wants}");
        }
        assert_eq!(HashedIntentTag::parse(" . / "), None);
    }

    #[test]
    fn word_match_score_ignores_word_endings_and_stop_words() {
        let found = |wants: &str, has: &str| HashedWordSet::of([wants]).found_in([has].into_iter());
        assert_eq!(found("Book the rooms", "room booking"), 1000);
        assert_eq!(found("searchRooms", "Search for a room"), 1000);
        assert_eq!(found("make_reservation", "reserve"), 500);
        assert_eq!(found("weather", "room booking"), 0);
        assert_eq!(found("预订客房", "我要预订一间客房"), 666);
        assert_eq!(found("订", "订"), 1000);
        assert_eq!(found("天气", "预订客房"), 0);
        assert!(HashedWordSet::of(["to the of", "…！"]).is_empty());
    }

    #[test]
    fn ascii_and_unicode_word_splitting_give_the_same_words() {
        for text in [
            "Book the rooms",
            "searchRooms",
            "HTTPServer isUp",
            "a1B2 c3",
            "x",
            "",
            "  ",
            "makeA reservationNow!",
            "UPPER lower MiXed",
            "snake_case-kebab.dot",
            "ABCdef",
            "bookings, reservations; booked & booking",
        ] {
            // One non-ASCII letter makes the whole text use the Unicode implementation.
            let (plain, other) = (HashedWordSet::of([text]), HashedWordSet::of([format!("{text} é").as_str()]));
            let mut with = plain.0.to_vec();
            with.push(hash("é".as_bytes()));
            with.sort_unstable();
            assert_eq!(*with, *other.0, "{text:?}");
        }
        // Words after `MAX_WORDS` other words are not compared; stop words do not count.
        let filler = "the ".repeat(1000);
        let (short, far) = (format!("{filler} room"), format!("{} room", "x1 ".repeat(MAX_WORDS)));
        let found = |has: &str| HashedWordSet::of(["rooms"]).found_in([has].into_iter());
        assert_eq!((found("room"), found(&short), found(&far)), (1000, 1000, 0));
        let long = "x".repeat(100);
        assert_eq!(HashedWordSet::of([long.as_str()]), HashedWordSet::of([long.to_uppercase().as_str()]));
    }

    #[test]
    fn number_of_words_compared_in_a_long_text_is_limited() {
        let long: String = (0..100_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(HashedWordSet::of([long.as_str()]).0.len(), MAX_WORDS);
        assert!(HashedWordSet::of(["房".repeat(100_000).as_str()]).0.len() <= MAX_WORDS);
    }
}
