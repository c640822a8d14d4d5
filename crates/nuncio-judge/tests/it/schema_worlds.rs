//! Small domains for tests: random schemas of one type, with all values that matter for the type.

use serde_json::{Map, Value, json};

use super::schema_maker::RandomSchemaGenerator;

/// The type that the schemas of a domain constrain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConstrainedType {
    Numbers,
    Strings,
    Arrays,
    Objects,
}

impl ConstrainedType {
    pub(crate) const ALL: [Self; 4] = [Self::Numbers, Self::Strings, Self::Arrays, Self::Objects];

    /// Every value of the small domain.
    pub(crate) fn values(self) -> Vec<Value> {
        match self {
            Self::Numbers => (-12..=24).map(|quarter| json!(f64::from(quarter) / 4.0)).collect(),
            Self::Strings => {
                let mut all = vec![String::new()];
                let mut layer = all.clone();
                for _ in 0..4 {
                    layer = layer.iter().flat_map(|text| ["a", "b", "x"].map(|char| format!("{text}{char}"))).collect();
                    all.extend(layer.iter().cloned());
                }
                all.extend(["aaaaa", "aaaaaa", "\n", "a\n", "é", "1", "a1"].map(str::to_owned));
                all.into_iter().map(Value::from).collect()
            }
            Self::Arrays => {
                let items = [json!(0), json!(1), json!("a"), json!([])];
                let mut all = vec![Vec::new()];
                let mut layer: Vec<Vec<Value>> = all.clone();
                for _ in 0..4 {
                    let longer = |list: &Vec<Value>| {
                        let list = list.clone();
                        items.iter().map(move |item| list.iter().cloned().chain([item.clone()]).collect())
                    };
                    layer = layer.iter().flat_map(longer).collect();
                    all.extend(layer.iter().cloned());
                }
                all.into_iter().map(Value::from).collect()
            }
            Self::Objects => {
                let values = [None, Some(json!(0)), Some(json!(1)), Some(json!("a"))];
                let mut all = Vec::new();
                for number in 0..4usize.pow(4) {
                    let mut map = Map::new();
                    for (index, name) in ["a", "b", "ab", "x"].iter().enumerate() {
                        if let Some(value) = &values[number / 4usize.pow(u32::try_from(index).unwrap()) % 4] {
                            map.insert((*name).to_owned(), value.clone());
                        }
                    }
                    all.push(Value::Object(map));
                }
                all.push(json!({"a": 0, "b": 0, "ab": 0, "x": 0, "y": 0}));
                all
            }
        }
    }

    pub(crate) fn schema(self, maker: &mut RandomSchemaGenerator, depth: usize) -> Value {
        let mut map = Map::new();
        if maker.below(2) == 0 {
            let name = ["number", "string", "array", "object"][self as usize];
            map.insert("type".into(), json!(name));
        }
        for _ in 0..=maker.below(2) {
            if depth > 0 && maker.below(3) == 0 {
                self.combined(maker, depth - 1, &mut map);
            } else {
                self.keyword(maker, &mut map);
            }
        }
        Value::Object(map)
    }

    fn combined(self, maker: &mut RandomSchemaGenerator, depth: usize, map: &mut Map<String, Value>) {
        match maker.below(7) {
            number @ 0..=2 => {
                let list: Value = (0..2 + maker.below(2)).map(|_| self.schema(maker, depth)).collect();
                map.insert(["allOf", "anyOf", "oneOf"][number].into(), list);
            }
            3 => {
                map.insert("not".into(), self.schema(maker, depth));
            }
            4 => {
                map.insert("if".into(), self.schema(maker, depth));
                map.insert("then".into(), self.schema(maker, depth));
            }
            5 => {
                map.insert("if".into(), self.schema(maker, depth));
                map.insert("else".into(), self.schema(maker, depth));
            }
            _ => {
                let keyword = match self {
                    Self::Objects => "unevaluatedProperties",
                    _ => "unevaluatedItems",
                };
                map.insert(keyword.into(), item(maker));
            }
        }
    }

    fn keyword(self, maker: &mut RandomSchemaGenerator, map: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        let number = json!(f64::from(u8::try_from(maker.below(13)).unwrap()) / 2.0 - 1.0);
        let small = json!(maker.below(4));
        match self {
            Self::Numbers => match maker.below(7) {
                0 => set("minimum", number),
                1 => set("maximum", number),
                2 => set("exclusiveMinimum", number),
                3 => set("exclusiveMaximum", number),
                4 => set(
                    "multipleOf",
                    [json!(1), json!(2), json!(0.5), json!(3), json!(1.5), json!(0.25)][maker.below(6)].clone(),
                ),
                5 => set("enum", json!([number, maker.below(4), 1.5])),
                _ => set("type", json!("integer")),
            },
            Self::Strings => match maker.below(5) {
                0 => set("minLength", small),
                1 => set("maxLength", small),
                2 => {
                    let one = ["", "a", "b", "ab", "aa"][maker.below(5)];
                    set("enum", json!([one, "a", "x"]));
                }
                _ => {
                    let patterns = [
                        "^a",
                        "b$",
                        "^a*$",
                        "^(a|b)*$",
                        "^[ab]{2}$",
                        "x",
                        "^.$",
                        "^..?$",
                        "^[^x]+$",
                        "a.b",
                        "^(ab)*$",
                        "^(aa)*$",
                        "^(aaa)*$",
                        "^a?b?x?$",
                        "^$",
                        "^[ab]x|x[ab]$",
                        "^(?:a|ab)(?:b|x)?$",
                    ];
                    set("pattern", json!(patterns[maker.below(patterns.len())]));
                }
            },
            Self::Arrays => match maker.below(9) {
                0 => set("minItems", small),
                1 => set("maxItems", small),
                2 => set("uniqueItems", json!(true)),
                3 => set("items", item(maker)),
                4 => {
                    set("prefixItems", (0..=maker.below(2)).map(|_| item(maker)).collect());
                    if maker.below(2) == 0 {
                        set("items", item(maker));
                    }
                }
                5 => set("enum", json!([[], [0], [0, maker.below(2)]])),
                number => {
                    set("contains", item(maker));
                    if number > 6 {
                        set("minContains", small);
                    }
                    if number > 7 {
                        set("maxContains", json!(maker.below(3)));
                    }
                }
            },
            Self::Objects => {
                let names = ["a", "b", "ab", "x"];
                let name = |maker: &mut RandomSchemaGenerator| names[maker.below(4)];
                let (one, other) = (name(maker), name(maker));
                let pattern = ["^a", "b$", "^.$", "^[^b]*$"][maker.below(4)];
                match maker.below(11) {
                    0 => set("minProperties", small),
                    1 => set("maxProperties", small),
                    2 => set("required", json!([one])),
                    3 => set("properties", json!({one: item(maker), other: item(maker)})),
                    4 => {
                        set("properties", json!({one: item(maker), other: item(maker)}));
                        set("additionalProperties", item(maker));
                    }
                    5 => set("patternProperties", json!({pattern: item(maker)})),
                    6 => {
                        set("patternProperties", json!({pattern: item(maker)}));
                        set("additionalProperties", item(maker));
                    }
                    7 => {
                        let names = [
                            json!({"enum": [one, other]}),
                            json!({"pattern": "^a"}),
                            json!({"maxLength": 1}),
                            json!({"not": {"const": one}}),
                        ];
                        set("propertyNames", names[maker.below(4)].clone());
                    }
                    8 => set("dependentRequired", json!({one: [other]})),
                    9 => set("dependentSchemas", json!({one: {"properties": {other: item(maker)}}})),
                    _ => set("enum", json!([{}, {one: 0}, {one: 0, other: 1}])),
                }
            }
        }
    }
}

/// A random schema for an item or a property.
fn item(maker: &mut RandomSchemaGenerator) -> Value {
    let all = [
        json!(true),
        json!(false),
        json!({"const": 0}),
        json!({"enum": [0, 1]}),
        json!({"type": "integer"}),
        json!({"type": "string"}),
        json!({"enum": [1, "a"]}),
        json!({"not": {"const": 0}}),
        json!({"minimum": 1}),
        json!({"type": ["integer", "string"]}),
        json!({"type": "integer", "minimum": 0, "maximum": 1}),
    ];
    all[maker.below(all.len())].clone()
}
