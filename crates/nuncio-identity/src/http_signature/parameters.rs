//! Parser for `Signature-Input`, `Signature` and `Accept-Signature`: the subset of RFC 8941 that these fields need. The
//! parser keeps the raw text, because that text is what was signed.

use std::borrow::Cow;

use crate::encoding::from_base64;
use crate::error::DidAuthError;
use crate::keys::VerifyingKey;

const MAX_FIELD_BYTES: usize = 8 * 1024;
const MAX_LABELS: usize = 8;
const MAX_COMPONENTS: usize = 32;
const MAX_PARAMETERS: usize = 16;

/// One member of `Signature-Input`: the covered components and the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignatureInput {
    pub label: String,
    /// The text of the member after `label=`, byte for byte as received.
    pub raw: String,
    /// Components that the signature covers, in order.
    pub components: Vec<String>,
    /// Time of signing, in seconds since the Unix epoch.
    pub created: Option<i64>,
    /// Expiry of the signature, in seconds since the Unix epoch.
    pub expires: Option<i64>,
    pub nonce: Option<String>,
    pub keyid: Option<String>,
    pub alg: Option<String>,
}

pub(crate) type StructuredFieldError = &'static str;

impl SignatureInput {
    /// Parses all members of `Signature-Input` or `Accept-Signature`. Components with parameters are refused: ANP uses
    /// none.
    pub fn read_all(text: &str) -> Result<Vec<Self>, &'static str> {
        let mut members: Vec<Self> = Vec::new();
        let mut parser = StructuredFieldParser::new(text)?;
        loop {
            let label = parser.key()?;
            if members.iter().any(|member| member.label == label) {
                return Err("a label occurs twice");
            }
            if members.len() >= MAX_LABELS {
                return Err("there are too many signatures");
            }
            parser.expect(b'=')?;
            members.push(parser.inner_list(label)?);
            if !parser.next_member()? {
                return Ok(members);
            }
        }
    }

    /// Returns the member that a verifier checks: `sig1`, or the only one.
    ///
    /// # Errors
    /// The field is malformed, or has several members and none is `sig1`.
    pub(crate) fn read(text: &str) -> Result<Self, StructuredFieldError> {
        let mut members = Self::read_all(text)?;
        if let Some(at) = members.iter().position(|member| member.label == super::LABEL) {
            return Ok(members.swap_remove(at));
        }
        let only = members.pop().ok_or("there is no signature")?;
        if members.is_empty() { Ok(only) } else { Err("there are several signatures, but none is labelled sig1") }
    }

    /// Checks that `alg`, if given, is the algorithm of the key.
    pub(crate) fn check_algorithm(&self, key: &VerifyingKey) -> Result<(), DidAuthError> {
        match self.alg.as_deref().is_some_and(|alg| !key.algorithm().answers_to(alg)) {
            true => Err(DidAuthError::Signature("alg is not the algorithm of the key")),
            false => Ok(()),
        }
    }

    /// Writes the parameters in the order that every ANP verifier accepts.
    pub(crate) fn write(components: &[&str], created: i64, expires: Option<i64>, nonce: &str, keyid: &str) -> String {
        let covered = components.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" ");
        let expires = expires.map(|expires| format!(";expires={expires}")).unwrap_or_default();
        format!("({covered});created={created}{expires};nonce={};keyid={}", quoted(nonce), quoted(keyid))
    }
}

/// Returns the signature with this label from a `Signature` value.
pub(crate) fn read_signature(text: &str, label: &str) -> Result<Vec<u8>, StructuredFieldError> {
    let mut parser = StructuredFieldParser::new(text)?;
    let mut found = None;
    let mut count = 0;
    loop {
        let key = parser.key()?;
        parser.expect(b'=')?;
        let bytes = parser.bytes()?;
        count += 1;
        if count > MAX_LABELS {
            return Err("there are too many signatures");
        }
        if key == label && found.replace(bytes).is_some() {
            return Err("a label occurs twice");
        }
        if !parser.next_member()? {
            return found.ok_or("Signature and Signature-Input have different labels");
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

enum StructuredFieldItem<'a> {
    Integer(i64),
    Text(Cow<'a, str>),
    /// A token, boolean or byte sequence, whose value is skipped, because no used parameter has that type.
    Other,
}

struct StructuredFieldParser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> StructuredFieldParser<'a> {
    fn new(text: &'a str) -> Result<Self, StructuredFieldError> {
        if text.len() > MAX_FIELD_BYTES {
            return Err("the field is too long");
        }
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            return Err("the field is not printable ASCII");
        }
        let mut parser = Self { text: text.trim(), at: 0 };
        parser.spaces();
        Ok(parser)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, byte: u8) -> Result<(), StructuredFieldError> {
        if self.take(byte) { Ok(()) } else { Err("the field is not well formed") }
    }

    fn spaces(&mut self) {
        while self.take(b' ') {}
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.peek().is_some_and(&keep) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    /// Consumes a comma before the next member; returns false at the end of the text.
    fn next_member(&mut self) -> Result<bool, StructuredFieldError> {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
        if self.at == self.text.len() {
            return Ok(false);
        }
        self.expect(b',')?;
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
        Ok(true)
    }

    fn key(&mut self) -> Result<String, StructuredFieldError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'*') {
            return Err("a name must begin with a lower-case letter");
        }
        let keep =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*');
        Ok(self.take_while(keep).to_owned())
    }

    fn inner_list(&mut self, label: String) -> Result<SignatureInput, StructuredFieldError> {
        let from = self.at;
        let mut input = SignatureInput { label, ..SignatureInput::default() };
        self.expect(b'(')?;
        self.spaces();
        while !self.take(b')') {
            let name = self.text()?.into_owned();
            if self.peek() == Some(b';') {
                return Err("components with parameters are not supported");
            }
            if input.components.contains(&name) {
                return Err("a component is covered twice");
            }
            if input.components.len() >= MAX_COMPONENTS {
                return Err("too many components are covered");
            }
            input.components.push(name);
            if self.peek() != Some(b')') && !self.take(b' ') {
                return Err("components must be separated by spaces");
            }
            self.spaces();
        }
        let mut seen: Vec<String> = Vec::new();
        while self.take(b';') {
            self.spaces();
            let name = self.key()?;
            if seen.contains(&name) || seen.len() >= MAX_PARAMETERS {
                return Err("a parameter occurs twice, or there are too many");
            }
            let value = if self.take(b'=') { Some(self.item()?) } else { None };
            if let Some(value) = value {
                input.set(&name, value)?;
            }
            seen.push(name);
        }
        input.raw = self.text[from..self.at].to_owned();
        Ok(input)
    }

    fn item(&mut self) -> Result<StructuredFieldItem<'a>, StructuredFieldError> {
        match self.peek() {
            Some(b'"') => self.text().map(StructuredFieldItem::Text),
            Some(b':') => self.bytes().map(|_| StructuredFieldItem::Other),
            Some(b'-' | b'0'..=b'9') => {
                let digits = self.take_while(|byte| byte == b'-' || byte.is_ascii_digit());
                let fits = digits.trim_start_matches('-').len() <= 15;
                digits
                    .parse()
                    .ok()
                    .filter(|_| fits)
                    .map(StructuredFieldItem::Integer)
                    .ok_or("a number is not well formed")
            }
            Some(b'?') => {
                self.at += 1;
                if self.take(b'0') || self.take(b'1') {
                    Ok(StructuredFieldItem::Other)
                } else {
                    Err("a boolean is not well formed")
                }
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Ok(StructuredFieldItem::Other)
            }
            _ => Err("a parameter has no value after ="),
        }
    }

    fn text(&mut self) -> Result<Cow<'a, str>, StructuredFieldError> {
        self.expect(b'"')?;
        let plain = self.take_while(|byte| !matches!(byte, b'"' | b'\\' | b'\t'));
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            match self.peek() {
                Some(b'\\') => {
                    self.at += 1;
                    let escaped = self.peek().filter(|byte| matches!(byte, b'"' | b'\\'));
                    text.push(char::from(escaped.ok_or("only quotes and backslashes may be escaped")?));
                    self.at += 1;
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\t') | None => return Err("a string is not terminated"),
                Some(byte) => {
                    text.push(char::from(byte));
                    self.at += 1;
                }
            }
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StructuredFieldError> {
        self.expect(b':')?;
        let text = self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.expect(b':')?;
        from_base64(text).ok_or("bytes are not well formed base64")
    }
}

impl SignatureInput {
    fn set(&mut self, name: &str, value: StructuredFieldItem<'_>) -> Result<(), StructuredFieldError> {
        match (name, value) {
            ("created", StructuredFieldItem::Integer(value)) => self.created = Some(value),
            ("expires", StructuredFieldItem::Integer(value)) => self.expires = Some(value),
            ("nonce", StructuredFieldItem::Text(value)) => self.nonce = Some(value.into_owned()),
            ("keyid", StructuredFieldItem::Text(value)) => self.keyid = Some(value.into_owned()),
            ("alg", StructuredFieldItem::Text(value)) => self.alg = Some(value.into_owned()),
            ("created" | "expires" | "nonce" | "keyid" | "alg", _) => return Err("a parameter is of the wrong type"),
            _ => {}
        }
        Ok(())
    }
}
