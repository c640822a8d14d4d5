//! Reads TOML tables key by key: a missing, mistyped or unknown key becomes a fault, and reading continues.
//!
//! `None` means "absent" for an optional key, and "a fault was reported" for a required one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reference;
use super::similar;
use super::source::{AgentFileSource, FilePosition, cut};
use nuncio_core::ids::InvalidName;

/// A TOML table that records which of its keys were read.
pub(super) struct TomlTableReader<'a> {
    pub(super) position: FilePosition<'a>,
    entries: &'a DeTable<'a>,
    known: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<&'static str>>,
}

/// A TOML value with its position in the file.
pub(super) struct LocatedTomlValue<'a> {
    pub(super) position: FilePosition<'a>,
    pub(super) value: &'a DeValue<'a>,
}

impl<'a> TomlTableReader<'a> {
    pub(super) fn root(source: &'a AgentFileSource<'a>, entries: &'a DeTable<'a>) -> Self {
        Self::new(source.root(), entries)
    }

    fn new(position: FilePosition<'a>, entries: &'a DeTable<'a>) -> Self {
        Self { position, entries, known: RefCell::default(), refused: RefCell::default() }
    }

    /// The value of an optional key.
    pub(super) fn item(&self, key: &'static str) -> Option<LocatedTomlValue<'a>> {
        self.know(key);
        self.peek(key)
    }

    /// The value of a required key. `what` describes the expected value in the fault.
    pub(super) fn required(&self, key: &'static str, what: &str) -> Option<LocatedTomlValue<'a>> {
        self.item(key).or_else(|| self.missing(key, what))
    }

    /// Whether the table has the key. Does not mark the key as read.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The value of a key. Does not mark the key as read.
    pub(super) fn peek(&self, key: &str) -> Option<LocatedTomlValue<'a>> {
        self.entries.get(key).map(|value| LocatedTomlValue::new(&self.position, key, value))
    }

    /// Reads a required, non-empty text.
    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        self.required(key, "a text")?.text().map(str::to_owned)
    }

    /// Reads an optional text, which must not be empty.
    pub(super) fn optional_text(&self, key: &'static str) -> Option<String> {
        self.item(key)?.text().map(str::to_owned)
    }

    pub(super) fn name<T>(&self, key: &'static str, parse: NameParser<T>) -> Option<T> {
        self.required(key, "a text")?.name(parse)
    }

    /// Reads a required key whose value is one of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let listed = similar::list(words.iter().map(|(word, _)| *word));
        self.required(key, &format!("one of {listed}"))?.choice(words)
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        self.item(key)?.boolean()
    }

    /// Reads an optional whole number within a range.
    pub(super) fn whole_number(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.item(key)?.whole_number(range)
    }

    /// Reads the optional table `[key]`.
    pub(super) fn table(&self, key: &'static str) -> Option<TomlTableReader<'a>> {
        self.item(key)?.table()
    }

    /// Reads the tables `[[key]]`. The value of `name`, if present, identifies each table in faults.
    pub(super) fn tables(&self, key: &'static str, name: &str) -> Vec<TomlTableReader<'a>> {
        let Some(item) = self.item(key) else {
            return Vec::new();
        };
        let DeValue::Array(tables) = item.value else {
            item.wrong_kind::<()>(&format!("any number of sections, each beginning with [[{key}]]"));
            return Vec::new();
        };
        let read = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let own_name = value.get_ref().as_table().and_then(|table| table.get(name));
            let own_name = own_name.and_then(|name| name.get_ref().as_str());
            let position = match own_name {
                Some(own_name) => item.position.named(value.span().start, own_name),
                None => item.position.numbered(value.span().start, index),
            };
            LocatedTomlValue { position, value: value.get_ref() }.table()
        };
        tables.iter().enumerate().filter_map(read).collect()
    }

    /// The tables under `[[key]]` that have a name. Does not mark the tables as read.
    pub(super) fn peek_named(&self, key: &'static str, name: &str) -> Vec<(&'a str, TomlTableReader<'a>)> {
        let Some(item) = self.peek(key) else {
            return Vec::new();
        };
        let sections = item.value.as_array().into_iter().flat_map(|array| array.iter());
        let read = |section: &'a Spanned<DeValue<'a>>| {
            let entries = section.get_ref().as_table()?;
            let own_name = entries.get(name)?.get_ref().as_str()?;
            let position = item.position.named(section.span().start, own_name);
            Some((own_name, TomlTableReader::new(position, entries)))
        };
        sections.filter_map(read).collect()
    }

    /// Selects the one key of several that is present. No such key or more than one is a fault.
    pub(super) fn one_of(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().for_each(|key| self.know(key));
        let listed = similar::list(keys.iter().copied());
        let mut given = keys.iter().filter(|key| self.has(key));
        let Some(first) = given.next() else {
            return self.position.reject(format!("has none of {listed}"), "needed: one of them");
        };
        for second in given {
            if let Some(position) = self.key_position(second) {
                position
                    .fault(format!("not allowed together with {first:?}"), format!("allowed: only one of {listed}"));
            }
        }
        Some(first)
    }

    /// Reads an optional list. `what` describes the expected list in the fault.
    pub(super) fn list(&self, key: &'static str, what: &str) -> Option<Vec<LocatedTomlValue<'a>>> {
        self.item(key)?.list(what)
    }

    /// All keys with their values in file order, for tables whose keys are names.
    pub(super) fn entries(&self) -> Vec<(&'a str, LocatedTomlValue<'a>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let read = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key: &'a std::borrow::Cow<'a, str> = key.get_ref();
            let position = self.position.entry(value.span().start, &segment(key));
            (key.as_ref(), LocatedTomlValue { position, value: value.get_ref() })
        };
        entries.into_iter().map(read).collect()
    }

    pub(super) fn missing<T>(&self, key: &str, what: &str) -> Option<T> {
        self.position.here(key).reject("missing", format!("needed: {what}"))
    }

    /// Reports a key that is not allowed in this table, with the reason.
    pub(super) fn refuse(&self, key: &'static str, why: &str) {
        self.assert_listed(key);
        self.refused.borrow_mut().push(key);
        if let Some(position) = self.key_position(key) {
            position.fault("not allowed here", why);
        }
    }

    /// Reads an optional key; without it the value is `default`.
    pub(super) fn read_or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&LocatedTomlValue<'a>) -> Option<T>,
    ) -> Option<T> {
        self.item(key).map_or(Some(default), |item| read(&item))
    }

    /// Reports the keys that were never read.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (key, _) in self.entries {
            let word = key.get_ref().as_ref();
            if known.contains(&word) || self.refused.borrow().contains(&word) {
                continue;
            }
            if let Some(position) = self.key_position(word) {
                let help = similar::help(word, "allowed", known.iter().copied());
                position.fault("unknown key", help);
            }
        }
    }

    fn know(&self, key: &'static str) {
        self.assert_listed(key);
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    /// Fails in debug builds if the reference does not list the key.
    fn assert_listed(&self, key: &str) {
        let table = self.position.path();
        debug_assert!(reference::has_key(table, key), "`reference` lists no key {key:?} of {table:?}");
    }

    /// Position of the key in the file, not of its value.
    pub(super) fn key_position(&self, key: &str) -> Option<FilePosition<'a>> {
        let (found, _) = self.entries.get_key_value(key)?;
        Some(self.position.inside(found.span().start, &segment(key)))
    }
}

pub(super) type NameParser<T> = fn(&str) -> Result<T, InvalidName>;

impl<'a> LocatedTomlValue<'a> {
    fn new(outer: &FilePosition<'a>, key: &str, value: &'a Spanned<DeValue<'a>>) -> Self {
        let position = outer.inside(value.span().start, &segment(key));
        Self { position, value: value.get_ref() }
    }

    /// The TOML value as a non-empty text; another value is a fault.
    pub(super) fn text(&self) -> Option<&'a str> {
        let text = self.any_text()?;
        if text.trim().is_empty() {
            return self.position.reject("found an empty text", "allowed: a non-empty text");
        }
        Some(text)
    }

    /// The TOML value as a text, possibly empty; another value is a fault.
    pub(super) fn any_text(&self) -> Option<&'a str> {
        self.value.as_str().or_else(|| self.wrong_kind("a text"))
    }

    pub(super) fn name<T>(&self, parse: NameParser<T>) -> Option<T> {
        match parse(self.any_text()?) {
            Ok(name) => Some(name),
            Err(InvalidName { what, found, rule }) => {
                self.position.reject(format!("{found:?} is not {what}"), format!("allowed: {rule}"))
            }
        }
    }

    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let path = self.position.path();
        debug_assert!(reference::has_words(path, words), "`reference` lists other words for {path:?}");
        let text = self.any_text()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        found.or_else(|| {
            let help = similar::help(text, "allowed", words.iter().map(|(word, _)| *word));
            self.position.reject(format!("found {:?}", cut(text)), help)
        })
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.wrong_kind("true or false"))
    }

    pub(super) fn whole_number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let path = self.position.path();
        debug_assert!(reference::has_range(path, &range), "`reference` lists another range for {path:?}");
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(digits) = self.value else {
            return self.wrong_kind(&allowed);
        };
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        let found = || format!("found {}", cut(&digits.to_string()));
        number.or_else(|| self.position.reject(found(), format!("allowed: {allowed}")))
    }

    /// The TOML value as a number within a range, whole or not; another value is a fault.
    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let path = self.position.path();
        debug_assert!(reference::has_number_range(path, &range), "`reference` lists another range for {path:?}");
        let allowed = format!("a number from {} to {}", range.start(), range.end());
        let (number, found) = match self.value {
            DeValue::Integer(digits) => {
                let number = i32::from_str_radix(digits.as_str(), digits.radix()).ok();
                (number.map(f64::from), digits.to_string())
            }
            DeValue::Float(number) => (number.as_str().parse().ok(), number.as_str().to_owned()),
            _ => return self.wrong_kind(&allowed),
        };
        let number = number.filter(|number| range.contains(number));
        number.or_else(|| self.position.reject(format!("found {}", cut(&found)), format!("allowed: {allowed}")))
    }

    pub(super) fn table(&self) -> Option<TomlTableReader<'a>> {
        if let DeValue::Table(entries) = self.value {
            return Some(TomlTableReader::new(self.position.clone(), entries));
        }
        self.wrong_kind(match self.value {
            DeValue::Array(array) if is_sections(array) => "a single table, in single brackets",
            _ => "a table",
        })
    }

    pub(super) fn list(&self, what: &str) -> Option<Vec<LocatedTomlValue<'a>>> {
        let DeValue::Array(values) = self.value else {
            return self.wrong_kind(what);
        };
        let read = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| LocatedTomlValue {
            position: self.position.numbered(value.span().start, index),
            value: value.get_ref(),
        };
        Some(values.iter().enumerate().map(read).collect())
    }

    /// The TOML value as a non-empty list of distinct, non-empty texts; another value is a fault.
    pub(super) fn distinct_texts(&self) -> Option<Vec<String>> {
        let mut seen = BTreeSet::new();
        let mut texts = Vec::new();
        for item in self.some_list("a list of texts")? {
            let text = item.text()?;
            if !seen.insert(text) {
                return item.position.reject(format!("{:?} is listed twice", cut(text)), "allowed: each once");
            }
            texts.push(text.to_owned());
        }
        Some(texts)
    }

    /// The TOML value as a non-empty list; another value is a fault.
    pub(super) fn some_list(&self, what: &str) -> Option<Vec<LocatedTomlValue<'a>>> {
        let items = self.list(what)?;
        if items.is_empty() {
            return self.position.reject("found an empty list", format!("allowed: {what}, not empty"));
        }
        Some(items)
    }

    /// Reports a TOML value of the wrong type.
    pub(super) fn wrong_kind<T>(&self, allowed: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(text) => format!("found the text {:?}", cut(text)),
            DeValue::Integer(number) => format!("found the number {}", cut(&number.to_string())),
            DeValue::Float(number) => format!("found the number {}", cut(number.as_str())),
            DeValue::Boolean(value) => format!("found {value}"),
            DeValue::Datetime(date) => format!("found the date or time {date}"),
            DeValue::Array(array) if is_sections(array) => "found a list of sections".to_owned(),
            DeValue::Array(_) => "found a list".to_owned(),
            DeValue::Table(_) => "found a table".to_owned(),
        };
        self.position.reject(found, format!("allowed: {allowed}"))
    }
}

/// Whether a TOML array was written as `[[…]]` rather than `[…, …]`.
fn is_sections(array: &toml::de::DeArray<'_>) -> bool {
    !array.is_empty() && array.iter().all(|item| item.get_ref().is_table())
}

/// A TOML key, quoted where TOML needs quotes.
fn segment(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.len() <= 80 && key.bytes().all(bare) {
        return key.to_owned();
    }
    format!("{:?}", cut(key))
}
