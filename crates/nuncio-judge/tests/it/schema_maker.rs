//! Generator of random schemas, changes to them and values for them, from one seed.

use serde_json::{Map, Value, json};

const NAMES: &[&str] = &["a", "b", "c", "ab", "x1"];
const PATTERNS: &[&str] =
    &["^a", "b$", "^a*$", "^[a-c]+$", "^x", "[0-9]", "^(a|b)$", "", "^.$", "^..?$", "a|x", "^[^a]*$", "^a+b*$"];
const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

pub(crate) struct RandomSchemaGenerator {
    seed: u64,
}

impl RandomSchemaGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut maker = Self { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        for _ in 0..4 {
            maker.below(2);
        }
        maker
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from((self.seed >> 16) % limit as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn small(&mut self) -> Value {
        json!(self.below(4))
    }

    pub(crate) fn scalar(&mut self) -> Value {
        let all = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(2),
            json!(3),
            json!(-1),
            json!(0.5),
            json!(1.5),
            json!(2.0),
            json!(6),
            json!(0.3),
            json!(""),
            json!("a"),
            json!("b"),
            json!("ab"),
            json!("aa"),
            json!("x1"),
            json!("abc"),
            json!("x"),
            json!("é"),
            json!("1"),
        ];
        all[self.below(all.len())].clone()
    }

    pub(crate) fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0..=3 => self.scalar(),
            4 | 5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let mut map = Map::new();
                for _ in 0..self.below(4) {
                    map.insert(self.pick(NAMES).to_owned(), self.value(depth - 1));
                }
                Value::Object(map)
            }
        }
    }

    /// Two schemas; the second is usually the first with one or two changes.
    pub(crate) fn pair(&mut self, depth: usize) -> (Value, Value) {
        let old = self.document(depth);
        let mut new = self.changed(&old);
        if self.below(2) == 0 {
            new = self.changed(&new);
        }
        if self.below(8) == 0 {
            new = self.document(depth);
        }
        if new.pointer("/$defs/p").is_none() {
            without_references(&mut new);
        }
        (old, new)
    }

    /// A complete schema, sometimes with definitions that it refers to.
    pub(crate) fn document(&mut self, depth: usize) -> Value {
        let mut schema = self.schema(depth);
        if self.below(3) == 0
            && let Value::Object(map) = &mut schema
        {
            map.insert("$defs".into(), json!({"p": self.schema(depth.saturating_sub(1)), "q": self.schema(1)}));
        } else {
            without_references(&mut schema);
        }
        schema
    }

    pub(crate) fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return match self.below(5) {
                0 => json!(true),
                1 => json!({"const": self.scalar()}),
                2 => json!({"enum": [self.scalar(), self.scalar(), self.scalar()]}),
                3 if self.below(6) == 0 => json!(false),
                _ => json!({"type": self.pick(TYPES)}),
            };
        }
        let mut map = Map::new();
        for _ in 0..=self.below(3) {
            self.keyword(&mut map, depth - 1);
        }
        Value::Object(map)
    }

    fn list(&mut self, depth: usize) -> Value {
        (0..=self.below(3)).map(|_| self.schema(depth)).collect()
    }

    fn members(&mut self, names: &[&str], depth: usize) -> Value {
        let mut map = Map::new();
        for _ in 0..=self.below(2) {
            map.insert(self.pick(names).to_owned(), self.schema(depth));
        }
        Value::Object(map)
    }

    /// Adds a random keyword, often together with related ones.
    pub(crate) fn keyword(&mut self, map: &mut Map<String, Value>, depth: usize) {
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        match self.below(34) {
            0 | 1 => set("type", json!(self.pick(TYPES))),
            2 => set("type", two_types(self.pick(TYPES), "string")),
            3 => set("enum", (0..=self.below(4)).map(|_| self.value(1)).collect()),
            4 => set("const", self.value(1)),
            5 => set("minimum", self.scalar_number()),
            6 => set("maximum", self.scalar_number()),
            7 => set("exclusiveMinimum", self.scalar_number()),
            8 => set("exclusiveMaximum", self.scalar_number()),
            9 => set(
                "multipleOf",
                [json!(1), json!(2), json!(0.5), json!(0.1), json!(3), json!(1.5)][self.below(6)].clone(),
            ),
            10 => set("minLength", self.small()),
            11 => set("maxLength", self.small()),
            12 => set("pattern", json!(self.pick(PATTERNS))),
            13 => set("minItems", self.small()),
            14 => set("maxItems", self.small()),
            15 => set("uniqueItems", json!(true)),
            16 => {
                set("prefixItems", self.list(depth));
                if self.below(2) == 0 {
                    set("items", self.schema(depth));
                }
            }
            17 => set("items", self.schema(depth)),
            18 => {
                set("contains", self.schema(depth));
                if self.below(2) == 0 {
                    set("minContains", self.small());
                }
                if self.below(3) == 0 {
                    set("maxContains", self.small());
                }
            }
            19 => set("minProperties", self.small()),
            20 => set("maxProperties", self.small()),
            21 => set("required", json!([self.pick(NAMES)])),
            22 | 23 => {
                set("properties", self.members(NAMES, depth));
                if self.below(2) == 0 {
                    set("additionalProperties", if self.below(2) == 0 { json!(false) } else { self.schema(depth) });
                }
            }
            24 => {
                set("patternProperties", self.members(PATTERNS, depth));
                if self.below(3) == 0 {
                    set("additionalProperties", if self.below(2) == 0 { json!(false) } else { self.schema(depth) });
                }
            }
            25 => set("propertyNames", self.schema(depth)),
            26 => set("dependentRequired", json!({self.pick(NAMES): [self.pick(NAMES)]})),
            27 => set("dependentSchemas", self.members(NAMES, depth)),
            28 => set("allOf", self.list(depth)),
            29 => set("anyOf", self.list(depth)),
            30 => set("oneOf", self.list(depth)),
            31 => set("not", self.schema(depth)),
            32 => {
                set("if", self.schema(depth));
                set("then", self.schema(depth));
                if self.below(2) == 0 {
                    set("else", self.schema(depth));
                }
            }
            _ => match self.below(4) {
                0 => set("unevaluatedProperties", if self.below(2) == 0 { json!(false) } else { self.schema(depth) }),
                1 => set("unevaluatedItems", if self.below(2) == 0 { json!(false) } else { self.schema(depth) }),
                _ => set("$ref", json!(self.pick(&["#/$defs/p", "#/$defs/q", "#"]))),
            },
        }
    }

    fn scalar_number(&mut self) -> Value {
        [json!(0), json!(1), json!(2), json!(3), json!(-1), json!(0.5), json!(1.5), json!(2.5)][self.below(8)].clone()
    }

    /// The schema with a small random change at some depth.
    pub(crate) fn changed(&mut self, schema: &Value) -> Value {
        let Value::Object(map) = schema else { return self.schema(1) };
        let mut map = map.clone();
        let keys: Vec<String> = map.keys().cloned().collect();
        match self.below(7) {
            0 => {
                let depth = self.below(3);
                self.keyword(&mut map, depth);
            }
            1 if !keys.is_empty() => {
                let key = &keys[self.below(keys.len())];
                if key != "$defs" {
                    map.shift_remove(key);
                }
            }
            2 => {
                return json!({"allOf": [schema, self.schema(1)], "$defs": schema.get("$defs").cloned().unwrap_or(json!({}))});
            }
            3 if schema.get("$defs").is_none() => {
                return json!({self.pick(&["anyOf", "oneOf"]): [schema, self.schema(1)]});
            }
            _ if !keys.is_empty() => {
                let key = &keys[self.below(keys.len())];
                let value = self.changed_value(key, &map[key].clone());
                map.insert(key.clone(), value);
            }
            _ => {}
        }
        Value::Object(map)
    }

    fn changed_value(&mut self, key: &str, value: &Value) -> Value {
        match (key, value) {
            ("enum", Value::Array(values)) => {
                let mut values = values.clone();
                if self.below(2) == 0 && values.len() > 1 {
                    values.remove(self.below(values.len()));
                } else {
                    values.push(self.value(1));
                }
                Value::Array(values)
            }
            ("type", _) => two_types(self.pick(TYPES), value.as_str().unwrap_or("string")),
            ("required", _) => json!([self.pick(NAMES)]),
            ("const", _) => self.value(1),
            ("dependentRequired", _) => json!({self.pick(NAMES): [self.pick(NAMES)]}),
            ("pattern", _) => json!(self.pick(PATTERNS)),
            ("uniqueItems", _) => json!(self.below(2) == 0),
            ("$ref", _) => json!(self.pick(&["#/$defs/p", "#/$defs/q", "#"])),
            ("multipleOf", _) => [json!(1), json!(2), json!(0.5), json!(0.1)][self.below(4)].clone(),
            (_, Value::Number(number)) if number.is_f64() || key.contains("imum") => self.scalar_number(),
            (_, Value::Number(_)) => self.small(),
            (_, Value::Array(schemas)) => {
                let mut schemas = schemas.clone();
                let index = self.below(schemas.len());
                match self.below(4) {
                    0 if schemas.len() > 1 => {
                        schemas.remove(index);
                    }
                    1 => schemas.push(self.schema(1)),
                    _ => schemas[index] = self.changed(&schemas[index].clone()),
                }
                Value::Array(schemas)
            }
            ("properties" | "patternProperties" | "dependentSchemas" | "$defs", Value::Object(members)) => {
                let mut members = members.clone();
                let names: Vec<String> = members.keys().cloned().collect();
                let index = self.below(names.len().max(1));
                match (self.below(4), names.get(index)) {
                    (0, Some(name)) if key != "$defs" => {
                        members.shift_remove(name);
                    }
                    (1, _) if key != "$defs" => {
                        let from = if key == "patternProperties" { PATTERNS } else { NAMES };
                        members.insert(self.pick(from).to_owned(), self.schema(1));
                    }
                    (_, Some(name)) => {
                        let changed = self.changed(&members[name].clone());
                        members.insert(name.clone(), changed);
                    }
                    _ => {}
                }
                Value::Object(members)
            }
            (_, Value::Object(_) | Value::Bool(_)) => self.changed(value),
            _ => value.clone(),
        }
    }

    /// A random value that roughly follows a schema; it need not be valid.
    pub(crate) fn fitting(&mut self, root: &Value, schema: &Value, depth: usize) -> Value {
        let Value::Object(map) = schema else { return self.value(depth.min(2)) };
        if depth == 0 || self.below(8) == 0 {
            return self.value(depth.min(2));
        }
        if let Some(value) = map.get("const") {
            return value.clone();
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return values[self.below(values.len())].clone();
        }
        let mut inside: Vec<&Value> = Vec::new();
        for keyword in ["allOf", "anyOf", "oneOf"] {
            inside.extend(map.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        inside.extend(["if", "then", "else"].iter().filter_map(|keyword| map.get(*keyword)));
        if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|place| root.pointer(&place[1..])) {
            inside.push(target);
        }
        if !inside.is_empty() && self.below(3) > 0 {
            let schema = inside[self.below(inside.len())];
            return self.fitting(root, schema, depth - 1);
        }
        let wanted = match map.get("type") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(names)) => names[self.below(names.len())].as_str().unwrap().to_owned(),
            _ if map.keys().any(|key| key.contains("roperties") || key == "required") => "object".to_owned(),
            _ if map.keys().any(|key| key.contains("tems") || key.contains("ontains")) => "array".to_owned(),
            _ if map.keys().any(|key| key.contains("Length") || key == "pattern") => "string".to_owned(),
            _ => self.pick(TYPES).to_owned(),
        };
        match wanted.as_str() {
            "object" => {
                let mut made = Map::new();
                let properties = map.get("properties").and_then(Value::as_object);
                for (name, schema) in properties.into_iter().flatten() {
                    if self.below(2) == 0 {
                        made.insert(name.clone(), self.fitting(root, schema, depth - 1));
                    }
                }
                for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
                    let schema = properties.and_then(|all| all.get(name.as_str().unwrap())).unwrap_or(&Value::Null);
                    made.insert(name.as_str().unwrap().to_owned(), self.fitting(root, schema, depth - 1));
                }
                let others = map
                    .get("additionalProperties")
                    .or_else(|| map.get("patternProperties")?.as_object()?.values().next())
                    .unwrap_or(&Value::Null);
                for _ in 0..self.below(3) {
                    let value = self.fitting(root, others, depth - 1);
                    made.entry(self.pick(NAMES)).or_insert(value);
                }
                Value::Object(made)
            }
            "array" => {
                let prefix = map.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                (0..self.below(5))
                    .map(|index| {
                        let item = prefix.get(index).or(map.get("items")).or(map.get("contains"));
                        self.fitting(root, item.unwrap_or(&Value::Null), depth - 1)
                    })
                    .collect()
            }
            wanted => {
                for _ in 0..20 {
                    let value = self.scalar();
                    let fits = match wanted {
                        "string" => value.is_string(),
                        "null" => value.is_null(),
                        "boolean" => value.is_boolean(),
                        _ => value.is_number(),
                    };
                    if fits {
                        return value;
                    }
                }
                Value::Null
            }
        }
    }
}

fn two_types(one: &str, other: &str) -> Value {
    if one == other { json!(one) } else { json!([one, other]) }
}

/// Removes references, which would lead nowhere without definitions; references to the root stay.
fn without_references(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("$ref").and_then(Value::as_str).is_some_and(|place| place != "#") {
                map.shift_remove("$ref");
            }
            map.values_mut().for_each(without_references);
        }
        Value::Array(items) => items.iter_mut().for_each(without_references),
        _ => {}
    }
}
