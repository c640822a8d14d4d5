//! Tags with their hierarchy, and texts as sets of words that can be compared.

/// How many words of one text count.
const MAX_WORDS: usize = 512;

/// Words that say nothing about what is wanted.
const EMPTY_WORDS: [&str; 36] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "i", "in", "is", "it", "its",
    "me", "my", "of", "on", "or", "our", "please", "some", "that", "the", "this", "to", "we", "will", "with", "would",
    "you", "your",
];

/// Endings that do not make another word, the longest first.
const ENDINGS: [&str; 10] = ["ations", "ation", "ings", "ing", "ions", "ion", "ed", "es", "s", "e"];

/// A tag such as `hotel.booking.create`: parts from the general to the particular.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag(Box<[u64]>);

impl Tag {
    /// Reads a tag; nothing when there is nothing in it. Case does not matter.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parts = text.split(['.', ':', '/']).map(str::trim).filter(|part| !part.is_empty());
        let parts: Box<[u64]> = parts.map(|part| hash(part.chars().flat_map(char::to_lowercase))).collect();
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// How well something tagged so answers a wish for `wanted`, out of 1000: the same tag 1000; a tag below
    /// it 900; a tag above it, 600 times the part of the way they share; else nothing.
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

/// The words of some texts, each once. Scripts that do not part words are taken in pairs of signs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Words(Box<[u64]>);

impl Words {
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words = Vec::new();
        for text in texts {
            gather(text, &mut words);
            if words.len() >= MAX_WORDS {
                words.truncate(MAX_WORDS);
                break;
            }
        }
        words.sort_unstable();
        words.dedup();
        Self(words.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of these words the other has, out of 1000.
    pub(super) fn found_in(&self, other: &Self) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let mut theirs = other.0.iter().peekable();
        let mut found = 0;
        for word in &self.0 {
            while theirs.next_if(|it| *it < word).is_some() {}
            found += u32::from(theirs.peek() == Some(&word));
        }
        1000 * found / number(self.0.len())
    }
}

fn gather(text: &str, words: &mut Vec<u64>) {
    let mut word = String::new();
    let mut sign: Option<char> = None;
    let mut paired = false;
    for c in text.chars() {
        if words.len() >= MAX_WORDS {
            return;
        }
        if is_unparted(c) {
            end_word(&mut word, words);
            if let Some(before) = sign {
                words.push(hash([before, c]));
            }
            paired = sign.is_some();
            sign = Some(c);
            continue;
        }
        if let Some(alone) = sign.take().filter(|_| !paired) {
            words.push(hash([alone]));
        }
        paired = false;
        let begins = c.is_uppercase() && word.chars().next_back().is_some_and(char::is_lowercase);
        if begins || !c.is_alphanumeric() {
            end_word(&mut word, words);
        }
        if c.is_alphanumeric() {
            // A capital tells where a word of `camelCase` begins, so it is kept until the word ends.
            word.push(c);
        }
    }
    if let Some(alone) = sign.filter(|_| !paired) {
        words.push(hash([alone]));
    }
    end_word(&mut word, words);
}

fn end_word(word: &mut String, words: &mut Vec<u64>) {
    if word.is_empty() {
        return;
    }
    let plain = word.to_lowercase();
    word.clear();
    if !EMPTY_WORDS.contains(&plain.as_str()) {
        words.push(hash(stem(&plain).chars()));
    }
}

/// The word without its ending, where three letters are left.
fn stem(word: &str) -> &str {
    let cut = |ending: &&str| word.strip_suffix(*ending).filter(|rest| rest.chars().count() >= 3);
    ENDINGS.iter().find_map(cut).unwrap_or(word)
}

/// Scripts whose words are not parted by spaces.
fn is_unparted(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '\u{0e00}'..='\u{0eff}')
}

/// FNV-1a: the same on every machine.
fn hash(chars: impl IntoIterator<Item = char>) -> u64 {
    chars.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, c| {
        u32::from(c)
            .to_le_bytes()
            .into_iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_answer_by_their_hierarchy() {
        let answers = |has: &str, wants: &str| Tag::parse(has).unwrap().answers(&Tag::parse(wants).unwrap());
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
        assert_eq!(Tag::parse(" . / "), None);
    }

    #[test]
    fn words_are_the_same_in_other_forms() {
        let found = |wants: &str, has: &str| Words::of([wants]).found_in(&Words::of([has]));
        assert_eq!(found("Book the rooms", "room booking"), 1000);
        assert_eq!(found("searchRooms", "Search for a room"), 1000);
        assert_eq!(found("make_reservation", "reserve"), 500);
        assert_eq!(found("weather", "room booking"), 0);
        assert_eq!(found("预订客房", "我要预订一间客房"), 666);
        assert_eq!(found("订", "订"), 1000);
        assert_eq!(found("天气", "预订客房"), 0);
        assert!(Words::of(["to the of", "…！"]).is_empty());
    }

    #[test]
    fn long_texts_are_bounded() {
        let long: String = (0..100_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(Words::of([long.as_str()]).0.len(), MAX_WORDS);
        assert!(Words::of(["房".repeat(100_000).as_str()]).0.len() <= MAX_WORDS);
    }
}
