//! Encoding of D-Bus messages, limited to the types that the used services need.
//!
//! Format: <https://dbus.freedesktop.org/doc/dbus-specification.html#message-protocol-marshaling>

/// Byte order mark of this machine.
const ORDER: u8 = if cfg!(target_endian = "little") { b'l' } else { b'B' };
/// Type signature of [`Arg::Secret`].
const SECRET: &str = "(oayays)";
/// Limit of nested variants.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arg {
    /// `b`
    Bool(bool),
    /// `i`
    I32(i32),
    /// `u`
    U32(u32),
    /// `d`
    F64(f64),
    /// `s`
    Text(String),
    /// `o`
    Path(String),
    /// `g`
    Signature(String),
    /// `as`
    Texts(Vec<String>),
    /// `ao`
    Paths(Vec<String>),
    /// `a{ss}`
    TextMap(Vec<(String, String)>),
    /// `(oayays)`
    Secret(Secret),
    /// `a{sv}`
    Map(Vec<(String, Arg)>),
    /// `v`
    Variant(Box<Arg>),
}

/// Secret of the Secret Service in a plain session.
#[derive(Clone, PartialEq)]
pub(crate) struct Secret {
    pub(crate) session: String,
    pub(crate) value: Vec<u8>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Arg {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn variant(inner: Self) -> Self {
        Self::Variant(Box::new(inner))
    }

    fn signature(&self) -> &'static str {
        match self {
            Self::Bool(_) => "b",
            Self::I32(_) => "i",
            Self::U32(_) => "u",
            Self::F64(_) => "d",
            Self::Text(_) => "s",
            Self::Path(_) => "o",
            Self::Signature(_) => "g",
            Self::Texts(_) => "as",
            Self::Paths(_) => "ao",
            Self::TextMap(_) => "a{ss}",
            Self::Secret(_) => SECRET,
            Self::Map(_) => "a{sv}",
            Self::Variant(_) => "v",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Return,
    Error,
    Signal,
}

/// Message with the header fields that are used here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) serial: u32,
    pub(super) reply_to: Option<u32>,
    pub(super) path: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) member: Option<String>,
    pub(super) error: Option<String>,
    pub(super) to: Option<String>,
    pub(super) body: Vec<Arg>,
}

impl Message {
    pub(super) fn call(serial: u32) -> Self {
        let (path, interface, member, error, to) = (None, None, None, None, None);
        Self { kind: Kind::Call, serial, reply_to: None, path, interface, member, error, to, body: Vec::new() }
    }

    pub(super) fn written(&self) -> Vec<u8> {
        let mut body = Writer::default();
        self.body.iter().for_each(|arg| body.arg(arg));
        let signature: String = self.body.iter().map(Arg::signature).collect();
        let text = |code: u8, text: &Option<String>| Some((code, Arg::Text(text.clone()?)));
        let fields = [
            self.path.clone().map(|path| (1, Arg::Path(path))),
            text(2, &self.interface),
            text(3, &self.member),
            text(4, &self.error),
            self.reply_to.map(|serial| (5, Arg::U32(serial))),
            text(6, &self.to),
            (!signature.is_empty()).then_some((8, Arg::Signature(signature))),
        ];
        let kind = match self.kind {
            Kind::Call => 1,
            Kind::Return => 2,
            Kind::Error => 3,
            Kind::Signal => 4,
        };
        let mut head = Writer(vec![ORDER, kind, 0, 1]);
        head.u32(length(body.0.len()));
        head.u32(self.serial);
        head.array(8, |head| {
            for (code, arg) in fields.iter().flatten() {
                head.pad(8);
                head.0.push(*code);
                head.variant(arg);
            }
        });
        head.pad(8);
        [head.0, body.0].concat()
    }
}

/// Length of the whole message and of its body, from its first sixteen bytes.
pub(super) fn lengths(start: &[u8; 16]) -> Option<(usize, usize)> {
    let mut reader = Reader { bytes: start, at: 4 };
    let body = usize::try_from(reader.u32()?).ok()?;
    reader.at = 12;
    let fields = usize::try_from(reader.u32()?).ok()?;
    let head = fields.checked_add(16)?.checked_next_multiple_of(8)?;
    (start[0] == ORDER).then_some((head.checked_add(body)?, body))
}

/// Parses a message. `None` if the header is invalid; an unsupported body becomes empty, because only its receiver
/// needs it.
pub(super) fn read(bytes: &[u8]) -> Option<Message> {
    let (whole, body) = lengths(bytes.first_chunk()?)?;
    let kind = match bytes[1] {
        1 => Kind::Call,
        2 => Kind::Return,
        3 => Kind::Error,
        4 => Kind::Signal,
        _ => return None,
    };
    let split = whole.checked_sub(body)?;
    let (head, body) = bytes.get(..whole)?.split_at_checked(split)?;
    let mut reader = Reader { bytes: head, at: 8 };
    let mut message = Message { kind, ..Message::call(reader.u32()?) };
    let mut signature = String::new();
    let end = reader.array_end(8)?;
    while reader.at < end {
        reader.pad(8)?;
        let code = reader.byte()?;
        match (code, reader.variant(0)?) {
            (1, Arg::Path(path)) => message.path = Some(path),
            (2, Arg::Text(text)) => message.interface = Some(text),
            (3, Arg::Text(text)) => message.member = Some(text),
            (4, Arg::Text(text)) => message.error = Some(text),
            (5, Arg::U32(serial)) => message.reply_to = Some(serial),
            (6, Arg::Text(text)) => message.to = Some(text),
            (8, Arg::Signature(text)) => signature = text,
            _ => {}
        }
    }
    message.body = Reader { bytes: body, at: 0 }.args(&signature).unwrap_or_default();
    Some(message)
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn pad(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn u32(&mut self, number: u32) {
        self.pad(4);
        self.0.extend(number.to_ne_bytes());
    }

    /// NUL ends a text and is therefore removed from it.
    fn text(&mut self, text: &str) {
        let text: String = text.chars().filter(|c| *c != '\0').collect();
        self.u32(length(text.len()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// The length does not include the padding before the first element.
    fn array(&mut self, element: usize, fill: impl FnOnce(&mut Self)) {
        self.u32(0);
        let place = self.0.len() - 4;
        self.pad(element);
        let start = self.0.len();
        fill(self);
        let size = length(self.0.len() - start);
        self.0[place..place + 4].copy_from_slice(&size.to_ne_bytes());
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn variant(&mut self, inner: &Arg) {
        self.signature(inner.signature());
        self.arg(inner);
    }

    fn arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Bool(yes) => self.u32(u32::from(*yes)),
            Arg::I32(number) => self.u32(u32::from_ne_bytes(number.to_ne_bytes())),
            Arg::U32(number) => self.u32(*number),
            Arg::F64(number) => {
                self.pad(8);
                self.0.extend(number.to_ne_bytes());
            }
            Arg::Text(text) | Arg::Path(text) => self.text(text),
            Arg::Signature(text) => self.signature(text),
            Arg::Texts(texts) | Arg::Paths(texts) => {
                self.array(4, |inner| texts.iter().for_each(|text| inner.text(text)));
            }
            Arg::TextMap(entries) => self.array(8, |inner| {
                for (name, value) in entries {
                    inner.pad(8);
                    inner.text(name);
                    inner.text(value);
                }
            }),
            Arg::Secret(secret) => {
                self.pad(8);
                self.text(&secret.session);
                self.array(1, |_| ());
                self.array(1, |inner| inner.0.extend(&secret.value));
                self.text("application/octet-stream");
            }
            Arg::Map(entries) => self.array(8, |inner| {
                for (name, value) in entries {
                    inner.pad(8);
                    inner.text(name);
                    inner.variant(value);
                }
            }),
            Arg::Variant(inner) => self.variant(inner),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn pad(&mut self, to: usize) -> Option<()> {
        self.at = self.at.checked_next_multiple_of(to)?;
        Some(())
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.pad(4)?;
        Some(u32::from_ne_bytes(*self.take(4)?.first_chunk()?))
    }

    fn string(&mut self, length: usize) -> Option<String> {
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.string(length)
    }

    /// End of an array that starts here, checked against the buffer.
    fn array_end(&mut self, element: usize) -> Option<usize> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.pad(element)?;
        self.at.checked_add(length).filter(|end| *end <= self.bytes.len())
    }

    fn variant(&mut self, depth: usize) -> Option<Arg> {
        let length = usize::from(self.byte()?);
        let signature = self.string(length)?;
        let (arg, rest) = self.arg(&signature, depth)?;
        rest.is_empty().then_some(arg)
    }

    fn args(&mut self, mut signature: &str) -> Option<Vec<Arg>> {
        let mut args = Vec::new();
        while !signature.is_empty() {
            let (arg, rest) = self.arg(signature, 0)?;
            args.push(arg);
            signature = rest;
        }
        Some(args)
    }

    /// Reads the first value of a signature, and returns the rest of the signature.
    fn arg<'s>(&mut self, signature: &'s str, depth: usize) -> Option<(Arg, &'s str)> {
        if let Some(rest) = signature.strip_prefix("as") {
            return Some((Arg::Texts(self.texts()?), rest));
        }
        if let Some(rest) = signature.strip_prefix("ao") {
            return Some((Arg::Paths(self.texts()?), rest));
        }
        if let Some(rest) = signature.strip_prefix("a{ss}") {
            let end = self.array_end(8)?;
            let mut entries = Vec::new();
            while self.at < end {
                self.pad(8)?;
                entries.push((self.text()?, self.text()?));
            }
            return Some((Arg::TextMap(entries), rest));
        }
        if let Some(rest) = signature.strip_prefix(SECRET) {
            self.pad(8)?;
            let session = self.text()?;
            self.bytes()?;
            let value = self.bytes()?;
            // Content type; items of other applications may have any.
            self.text()?;
            return Some((Arg::Secret(Secret { session, value }), rest));
        }
        if let Some(rest) = signature.strip_prefix("a{sv}") {
            let end = self.array_end(8)?;
            let mut entries = Vec::new();
            while self.at < end {
                self.pad(8)?;
                entries.push((self.text()?, self.inner(depth)?));
            }
            return Some((Arg::Map(entries), rest));
        }
        let (kind, rest) = signature.split_at_checked(1)?;
        let arg = match kind {
            "b" => Arg::Bool(self.u32()? == 1),
            "i" => Arg::I32(i32::from_ne_bytes(self.u32()?.to_ne_bytes())),
            "u" => Arg::U32(self.u32()?),
            "d" => {
                self.pad(8)?;
                Arg::F64(f64::from_ne_bytes(*self.take(8)?.first_chunk()?))
            }
            "s" => Arg::Text(self.text()?),
            "o" => Arg::Path(self.text()?),
            "g" => {
                let length = usize::from(self.byte()?);
                Arg::Signature(self.string(length)?)
            }
            "v" => Arg::variant(self.inner(depth)?),
            _ => return None,
        };
        Some((arg, rest))
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        let end = self.array_end(4)?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        Some(texts)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length).map(<[u8]>::to_vec)
    }

    fn inner(&mut self, depth: usize) -> Option<Arg> {
        if depth >= MAX_DEPTH {
            return None;
        }
        self.variant(depth + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Message {
        let hints = vec![("urgency".to_owned(), Arg::U32(1)), ("x".to_owned(), Arg::variant(Arg::F64(1.5)))];
        Message {
            path: Some("/a/b".to_owned()),
            interface: Some("a.b".to_owned()),
            member: Some("Notify".to_owned()),
            to: Some("a.b.c".to_owned()),
            reply_to: Some(9),
            body: vec![
                Arg::text("Grüße"),
                Arg::Texts(vec!["a".to_owned(), String::new()]),
                Arg::Bool(true),
                Arg::Map(hints),
                Arg::I32(-1),
                Arg::F64(52.5),
                Arg::variant(Arg::Path("/x".to_owned())),
                Arg::Texts(Vec::new()),
                Arg::Map(Vec::new()),
                Arg::Signature("a{sv}".to_owned()),
                Arg::Paths(vec!["/a".to_owned(), "/b/c".to_owned()]),
                Arg::TextMap(vec![("a".to_owned(), "b".to_owned()), (String::new(), "c".to_owned())]),
                Arg::Bool(false),
                Arg::Secret(Secret { session: "/s".to_owned(), value: vec![0, 1, 255] }),
                Arg::variant(Arg::TextMap(Vec::new())),
            ],
            ..Message::call(7)
        }
    }

    #[test]
    fn dbus_message_round_trips() {
        let written = sample().written();
        assert_eq!(lengths(written.first_chunk().unwrap()).unwrap().0, written.len());
        assert_eq!(read(&written), Some(sample()));
    }

    /// Any input is parsed or refused, without a panic.
    #[test]
    fn truncated_or_corrupt_message_does_not_panic() {
        let written = sample().written();
        for cut in 0..written.len() {
            assert_eq!(read(&written[..cut]), None, "cut at {cut}");
        }
        let mut read_anyway = 0;
        for place in 0..written.len() {
            for flip in [0xff, 0x01, 0x80, 0x7f] {
                let mut bytes = written.clone();
                bytes[place] ^= flip;
                read_anyway += usize::from(read(&bytes).is_some());
            }
        }
        assert!(read_anyway > 0);
        // Variants nested beyond the limit.
        let mut deep = Arg::Bool(true);
        for _ in 0..200 {
            deep = Arg::variant(deep);
        }
        let deep = Message { body: vec![deep], ..Message::call(1) };
        assert_eq!(read(&deep.written()).unwrap().body, []);
    }
}
