//! Search for a witness by trial, if nothing was proved: generates values from the contents of the schemas.

use serde_json::{Map, Value, json};

use super::document::{SchemaDocument, SchemaLocation, SchemaReferenceTarget};
use super::witness_checker::WitnessChecker;

/// Nesting limit of generated values.
const MAX_DEPTH: usize = 6;

/// A value that the old schema accepts and the new one refuses, if one is found by trial.
pub(crate) fn search(
    old: &SchemaDocument<'_>,
    new: &SchemaDocument<'_>,
    checker: &WitnessChecker<'_>,
    left: &mut usize,
) -> Option<Value> {
    let tries = checker.patience().min(*left);
    *left -= tries;
    if tries == 0 {
        return None;
    }
    let mut maker = ValueGenerator { seed: 0x9e37_79b9_7f4a_7c15, mentioned: Vec::new(), names: Vec::new() };
    maker.mention(old.root, 0);
    maker.mention(new.root, 0);
    maker.mentioned.extend([
        json!(null),
        json!(true),
        json!(0),
        json!(0.5),
        json!(-1),
        json!(""),
        json!("a"),
        json!([]),
        json!({}),
    ]);
    maker.names.extend(["a".to_owned(), "zz".to_owned()]);
    for index in 0..maker.mentioned.len().min(tries) {
        if checker.confirms(&maker.mentioned[index]) {
            return Some(maker.mentioned[index].clone());
        }
    }
    for _ in 0..tries {
        let document = if maker.below(4) == 0 { new } else { old };
        let mut value = maker.make(document, "", document.root, 0);
        if maker.below(2) == 0 {
            value = maker.changed(value);
        }
        if checker.confirms(&value) {
            return Some(value);
        }
    }
    None
}

struct ValueGenerator {
    seed: u64,
    mentioned: Vec<Value>,
    names: Vec<String>,
}

impl ValueGenerator {
    fn next(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % limit.max(1)
    }

    fn mention(&mut self, value: &Value, depth: usize) {
        if self.mentioned.len() > 2_000 || depth > 64 {
            return;
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.mentioned.push(item.clone());
                    self.mention(item, depth + 1);
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    if matches!(key.as_str(), "const" | "default") {
                        self.mentioned.push(item.clone());
                    }
                    if let Some(number) = item.as_i64() {
                        self.mentioned.extend([
                            json!(number),
                            json!(number.saturating_sub(1)),
                            json!(number.saturating_add(1)),
                        ]);
                        if (0..200).contains(&number) {
                            let count = usize::try_from(number).unwrap_or(0);
                            for count in [count.saturating_sub(1), count, count + 1] {
                                self.mentioned.push(Value::from("x".repeat(count)));
                            }
                        }
                    } else if let Some(number) = item.as_f64() {
                        self.mentioned.extend([json!(number), json!(number - 0.5), json!(number + 0.5)]);
                    }
                    if self.names.len() < 200 {
                        self.names.push(key.clone());
                    }
                    self.mention(item, depth + 1);
                }
            }
            Value::String(text) => {
                self.mentioned.push(value.clone());
                if self.names.len() < 200 {
                    self.names.push(text.clone());
                }
            }
            Value::Number(_) => self.mentioned.push(value.clone()),
            _ => {}
        }
    }

    fn any(&mut self) -> Value {
        let index = self.below(self.mentioned.len());
        self.mentioned.get(index).cloned().unwrap_or(Value::Null)
    }

    fn name(&mut self) -> String {
        let index = self.below(self.names.len());
        self.names.get(index).cloned().unwrap_or_default()
    }

    /// A generated value that roughly follows a schema; it need not be valid.
    fn make(&mut self, document: &SchemaDocument<'_>, location: &str, schema: &Value, depth: usize) -> Value {
        let Value::Object(map) = schema else { return self.any() };
        if depth > MAX_DEPTH {
            return self.any();
        }
        if let Some(value) = map.get("const") {
            return value.clone();
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            let index = self.below(values.len());
            return values.get(index).cloned().unwrap_or(Value::Null);
        }
        if let Some(SchemaReferenceTarget::Here(location, target)) = map
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| document.resolve(reference, SchemaLocation::At(location)))
        {
            return self.make(document, &location, target, depth + 1);
        }
        let alternatives: Vec<&Value> =
            ["anyOf", "oneOf", "allOf"].iter().filter_map(|keyword| map.get(*keyword)?.as_array()).flatten().collect();
        if !alternatives.is_empty() && (self.below(3) > 0 || !map.contains_key("properties")) {
            let index = self.below(alternatives.len());
            return self.make(document, location, alternatives[index], depth + 1);
        }
        let mut types: Vec<&str> = match map.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if types.is_empty() {
            if ["properties", "patternProperties", "additionalProperties", "required", "propertyNames"]
                .iter()
                .any(|keyword| map.contains_key(*keyword))
            {
                types.push("object");
            }
            if ["items", "prefixItems", "contains", "uniqueItems", "minItems"]
                .iter()
                .any(|keyword| map.contains_key(*keyword))
            {
                types.push("array");
            }
        }
        let chosen = self.below(types.len());
        match types.get(chosen) {
            Some(&"object") => self.object(document, location, map, depth),
            Some(&"array") => self.array(document, location, map, depth),
            Some(&"null") => Value::Null,
            Some(&"boolean") => Value::from(self.below(2) == 0),
            Some(wanted) => {
                for _ in 0..12 {
                    let value = self.any();
                    if matches!(
                        (*wanted, &value),
                        ("string", Value::String(_)) | ("number" | "integer", Value::Number(_))
                    ) {
                        return value;
                    }
                }
                if *wanted == "string" { Value::from(self.name()) } else { Value::from(self.below(100)) }
            }
            None => self.any(),
        }
    }

    fn object(
        &mut self,
        document: &SchemaDocument<'_>,
        location: &str,
        map: &Map<String, Value>,
        depth: usize,
    ) -> Value {
        let mut made = Map::new();
        let required: Vec<&str> =
            map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(Value::Object(members)) = map.get("properties") {
            for (name, schema) in members {
                if required.contains(&name.as_str()) || self.below(2) == 0 {
                    made.insert(name.clone(), self.make(document, location, schema, depth + 1));
                }
            }
        }
        for name in required {
            if !made.contains_key(name) {
                made.insert(name.to_owned(), self.any());
            }
        }
        while self.below(3) == 0 {
            let name = self.name();
            let value = match map.get("additionalProperties") {
                Some(schema @ Value::Object(_)) => self.make(document, location, schema, depth + 1),
                _ => self.any(),
            };
            made.entry(name).or_insert(value);
        }
        Value::Object(made)
    }

    fn array(
        &mut self,
        document: &SchemaDocument<'_>,
        location: &str,
        map: &Map<String, Value>,
        depth: usize,
    ) -> Value {
        let mut made = Vec::new();
        let prefix = map.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let fewest =
            map.get("minItems").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let count = fewest.min(40) + self.below(4);
        for index in 0..count {
            let schema = prefix.get(index).or(map.get("items")).or(map.get("contains"));
            made.push(match schema {
                Some(schema) => self.make(document, location, schema, depth + 1),
                None => self.any(),
            });
        }
        Value::Array(made)
    }

    /// The value with one small random change.
    fn changed(&mut self, value: Value) -> Value {
        match value {
            Value::Object(mut map) => {
                let keys: Vec<String> = map.keys().cloned().collect();
                let index = self.below(keys.len());
                match (self.below(4), keys.get(index)) {
                    (0, Some(key)) => {
                        map.shift_remove(key);
                    }
                    (1, _) => {
                        let (name, value) = (self.name(), self.any());
                        map.insert(name, value);
                    }
                    (_, Some(key)) => {
                        if let Some(value) = map.shift_remove(key) {
                            let value = self.changed(value);
                            map.insert(key.clone(), value);
                        }
                    }
                    _ => {}
                }
                Value::Object(map)
            }
            Value::Array(mut items) => {
                let index = self.below(items.len());
                match self.below(4) {
                    0 if !items.is_empty() => {
                        items.remove(index);
                    }
                    1 if !items.is_empty() => items.push(items[index].clone()),
                    2 if !items.is_empty() => {
                        let value = std::mem::take(&mut items[index]);
                        items[index] = self.changed(value);
                    }
                    _ => items.push(self.any()),
                }
                Value::Array(items)
            }
            _ => self.any(),
        }
    }
}
