//! Converts typed text to the values of the schema.

use serde_json::{Map, Number, Value};

use super::{FieldControl, FieldGroup, FormField, PostedFields};
use crate::texts::FormTexts;

impl FormField {
    pub(super) fn fill(&mut self, posted: &PostedFields) {
        let sent = |name: &str| posted.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        self.typed = sent(&self.name).map(|text| text.replace("\r\n", "\n")).unwrap_or_default();
        if let Some(zone) = sent(&format!("zone:{}", self.name)).filter(|zone| is_offset(zone)) {
            zone.clone_into(&mut self.zone);
        }
    }

    /// The value of the typed text; `None` if the field is empty or invalid. A missing or invalid value adds a fault.
    pub(super) fn read(&mut self, texts: &FormTexts) -> Option<Value> {
        if self.control == FieldControl::Check {
            return Some(Value::Bool(self.typed == "true"));
        }
        if self.typed.trim().is_empty() {
            if self.required && self.nullable {
                return Some(Value::Null);
            }
            if self.required {
                let is_choice = matches!(self.control, FieldControl::Choice(_));
                self.faults.push(if is_choice { &texts.choose_one } else { &texts.missing }.clone());
            }
            return None;
        }
        let read = self.value();
        if read.is_none() {
            self.faults.push(self.parse_fault(texts));
        }
        read
    }

    fn value(&self) -> Option<Value> {
        let text = self.typed.trim();
        match &self.control {
            FieldControl::Area => Some(Value::from(self.typed.trim_end())),
            FieldControl::Line(_) => Some(text.into()),
            FieldControl::Integer => parse_integer(text).map(Value::Number),
            FieldControl::Number => parse_number(text).map(Value::Number),
            FieldControl::Choice(choices) => {
                let chosen = choices.iter().find(|choice| choice.value == text)?;
                serde_json::from_str(&chosen.value).ok()
            }
            FieldControl::Date => is_date(text).then(|| text.into()),
            FieldControl::Time => Some(format!("{}{}", parse_time(text)?, self.zone).into()),
            FieldControl::DateTime => {
                // In a browser without a control for times, a person may type the time zone too.
                if text.ends_with('Z') || text.get(text.len().saturating_sub(6)..).is_some_and(is_offset) {
                    return Some(text.into());
                }
                let (date, time) = text.split_once(['T', ' '])?;
                is_date(date).then_some(())?;
                Some(format!("{date}T{}{}", parse_time(time)?, self.zone).into())
            }
            FieldControl::Lines => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                Some(lines.map(Value::from).collect())
            }
            FieldControl::Json => serde_json::from_str(text).ok(),
            FieldControl::Check => None,
        }
    }

    fn parse_fault(&self, texts: &FormTexts) -> String {
        match self.control {
            FieldControl::Integer => texts.not_whole.clone(),
            FieldControl::Number => texts.not_number.clone(),
            FieldControl::Choice(_) => texts.choose_one.clone(),
            FieldControl::Date => texts.not_date.clone(),
            FieldControl::Time => texts.not_time.clone(),
            FieldControl::DateTime => texts.not_moment.clone(),
            _ => {
                let why = serde_json::from_str::<Value>(&self.typed).err();
                texts.not_json.replace("{why}", &why.map(|error| error.to_string()).unwrap_or_default())
            }
        }
    }
}

impl FieldGroup {
    /// The object made of the group's fields; `None` for an optional group whose fields are all empty.
    pub(super) fn read(&mut self, texts: &FormTexts) -> Option<Value> {
        let is_filled = |field: &FormField| match field.control {
            FieldControl::Check => field.typed == "true",
            _ => !field.typed.trim().is_empty(),
        };
        if !self.required && !self.fields.iter().any(is_filled) {
            return None;
        }
        let mut object = Map::new();
        for field in &mut self.fields {
            object.extend(field.read(texts).map(|value| (field.key.clone(), value)));
        }
        Some(Value::Object(object))
    }
}

fn parse_integer(text: &str) -> Option<Number> {
    let text = text.strip_prefix('+').unwrap_or(text);
    text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}

fn parse_number(text: &str) -> Option<Number> {
    parse_integer(text).or_else(|| text.parse().ok().and_then(Number::from_f64))
}

fn is_date(text: &str) -> bool {
    let part = |part: Option<&str>, digits: usize, most: u32| {
        part.filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|part| part.parse::<u32>().ok())
            .is_some_and(|number| (1..=most).contains(&number))
    };
    let mut parts = text.split('-');
    part(parts.next(), 4, 9999) && part(parts.next(), 2, 12) && part(parts.next(), 2, 31) && parts.next().is_none()
}

/// The time with seconds, if `text` is `HH:MM` or `HH:MM:SS`.
fn parse_time(text: &str) -> Option<String> {
    let parts: Vec<_> = text.split(':').collect();
    let part = |text: &str, most: u32| {
        text.len() == 2
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse::<u32>().is_ok_and(|n| n <= most)
    };
    match parts.as_slice() {
        [hours, minutes] if part(hours, 23) && part(minutes, 59) => Some(format!("{text}:00")),
        [hours, minutes, seconds] if part(hours, 23) && part(minutes, 59) && part(seconds, 59) => Some(text.to_owned()),
        _ => None,
    }
}

/// Whether a text is a time zone offset, such as `Z` or `+08:00`.
fn is_offset(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['+', '-']) else { return text == "Z" };
    rest.len() == 5 && parse_time(rest).is_some()
}
