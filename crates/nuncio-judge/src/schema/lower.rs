//! Translation from JSON Schema (Draft 2020-12) to constraint nodes.

mod evaluated;

use nuncio_core::json::pointer;
use serde_json::{Map, Value};

use super::decimal::Decimal;
use super::document::{SchemaDocument, SchemaLocation, SchemaReferenceTarget, is_same_schema};
use super::node::{ConstraintLiteral, ConstraintNodePool, ValueConstraint, types};
use crate::{HashMap, HashSet};

/// End of a range of items without an upper limit; larger than every index.
pub(crate) const END: u64 = u64::MAX;

/// Recursion limit of the translation to nodes.
const MAX_DEPTH: usize = 100;

/// Selects the old or the new schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SchemaSide {
    Old,
    New,
}

/// A part of a schema that the JSON Schema specification does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MalformedSchemaPart {
    pub(crate) side: SchemaSide,
    pub(crate) location: String,
}

/// Both schema documents and the constraint nodes they are translated to.
pub(crate) struct ConstraintTranslator<'a> {
    pub(crate) pool: ConstraintNodePool,
    pub(crate) old: SchemaDocument<'a>,
    pub(crate) new: SchemaDocument<'a>,
    /// Numbers of references by the location they lead to, for the old and the new document.
    references: [HashMap<String, u32>; 2],
    waiting: Vec<(u32, SchemaSide, String)>,
    /// Translated schemas by their address in memory.
    known: HashMap<usize, ConstraintLiteral>,
    /// Schemas that are being translated, by their address in memory.
    busy: HashSet<usize>,
    depth: usize,
    /// Number of schemas examined so far for `unevaluatedProperties` and `unevaluatedItems`.
    asked: u32,
}

/// A schema's location in its document, and its keywords.
#[derive(Clone, Copy)]
pub(crate) struct LocatedSchema<'s> {
    pub(crate) side: SchemaSide,
    pub(crate) location: SchemaLocation<'s>,
    pub(crate) map: &'s Map<String, Value>,
}

impl LocatedSchema<'_> {
    fn malformed(&self, keyword: &str) -> MalformedSchemaPart {
        MalformedSchemaPart { side: self.side, location: pointer(&self.location.text(), keyword) }
    }

    fn number(&self, keyword: &str) -> Result<Decimal, MalformedSchemaPart> {
        let value = self.map.get(keyword).and_then(Value::as_number).and_then(Decimal::of);
        value.ok_or_else(|| self.malformed(keyword))
    }

    /// The value of a keyword that is a count, which may also be written as `2.0`.
    pub(crate) fn count(&self, keyword: &str) -> Result<u64, MalformedSchemaPart> {
        let number = self.number(keyword)?;
        if number.is_negative() || number.is_multiple_of(Decimal::ONE) != Some(true) {
            return Err(self.malformed(keyword));
        }
        // All counts above the length of any text or list are equivalent.
        Ok(number.to_value().and_then(|value| value.as_u64()).unwrap_or(END - 1).min(END - 1))
    }

    fn list(&self, keyword: &str) -> Result<&[Value], MalformedSchemaPart> {
        self.map.get(keyword).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.malformed(keyword))
    }

    pub(crate) fn members(&self, keyword: &str) -> Result<&Map<String, Value>, MalformedSchemaPart> {
        self.map.get(keyword).and_then(Value::as_object).ok_or_else(|| self.malformed(keyword))
    }

    fn names<'v>(&self, keyword: &str, value: &'v Value) -> Result<Vec<&'v str>, MalformedSchemaPart> {
        let names = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let names = names.ok_or_else(|| self.malformed(keyword))?;
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(self.malformed(keyword));
        }
        Ok(names)
    }

    pub(crate) fn prefix(&self) -> u64 {
        self.map.get("prefixItems").and_then(Value::as_array).map_or(0, |list| list.len() as u64)
    }
}

impl<'a> ConstraintTranslator<'a> {
    pub(crate) fn new(old: &'a Value, new: &'a Value) -> Self {
        Self {
            pool: ConstraintNodePool::new(),
            old: SchemaDocument::new(old),
            new: SchemaDocument::new(new),
            references: [HashMap::default(), HashMap::default()],
            waiting: Vec::new(),
            known: HashMap::default(),
            busy: HashSet::default(),
            depth: 0,
            asked: 0,
        }
    }

    /// The literals of both schemas, with references followed.
    pub(crate) fn roots(&mut self) -> Result<(ConstraintLiteral, ConstraintLiteral), MalformedSchemaPart> {
        let old = self.schema(SchemaSide::Old, SchemaLocation::ROOT, self.old.root)?;
        let new = self.schema(SchemaSide::New, SchemaLocation::ROOT, self.new.root)?;
        while let Some((number, side, location)) = self.waiting.pop() {
            let Some(schema) = self.document(side).root.pointer(&location) else {
                return Err(MalformedSchemaPart { side, location });
            };
            let body = self.schema(side, SchemaLocation::At(&location), schema)?;
            self.pool.bodies[number as usize] = Some(body);
        }
        self.pool.find_unguarded();
        Ok((old, new))
    }

    pub(crate) fn document(&self, side: SchemaSide) -> &SchemaDocument<'a> {
        match side {
            SchemaSide::Old => &self.old,
            SchemaSide::New => &self.new,
        }
    }

    pub(crate) fn schema(
        &mut self,
        side: SchemaSide,
        location: SchemaLocation<'_>,
        schema: &Value,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let map = match schema {
            Value::Bool(true) => return Ok(ConstraintLiteral::TRUE),
            Value::Bool(false) => return Ok(ConstraintLiteral::FALSE),
            Value::Object(map) => map,
            _ => return Err(MalformedSchemaPart { side, location: location.text().into_owned() }),
        };
        // A schema that several keywords need is translated once.
        let address = std::ptr::from_ref(map).addr();
        if let Some(known) = self.known.get(&address) {
            return Ok(*known);
        }
        if self.depth >= MAX_DEPTH || !self.busy.insert(address) {
            // A schema that is too deep or already being translated becomes a reference, which is translated later.
            let number = self.number_at(side, location.text().into_owned());
            return Ok(self.pool.add(ValueConstraint::Ref(number)));
        }
        self.depth += 1;
        let site = LocatedSchema { side, location, map };
        let parts: Result<Vec<ConstraintLiteral>, MalformedSchemaPart> =
            map.keys().map(|keyword| self.keyword(site, keyword)).collect();
        self.depth -= 1;
        self.busy.remove(&address);
        let all = self.pool.and(parts?);
        self.known.insert(address, all);
        Ok(all)
    }

    /// The literal of the schema under a keyword; `TRUE` if the keyword is absent.
    fn at(&mut self, site: LocatedSchema<'_>, keyword: &str) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        match site.map.get(keyword) {
            None => Ok(ConstraintLiteral::TRUE),
            Some(schema) => self.schema(site.side, SchemaLocation::Named(&site.location, keyword), schema),
        }
    }

    fn list_at(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
    ) -> Result<Vec<ConstraintLiteral>, MalformedSchemaPart> {
        let location = SchemaLocation::Named(&site.location, keyword);
        let schemas = site.list(keyword)?;
        if schemas.is_empty() {
            return Err(site.malformed(keyword));
        }
        let parts = schemas.iter().enumerate();
        parts
            .map(|(index, schema)| self.schema(site.side, SchemaLocation::Numbered(&location, index), schema))
            .collect()
    }

    /// The literal of one schema keyword; `TRUE` if it is absent, unknown, an annotation, or handled by another keyword.
    pub(crate) fn keyword(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let Some(value) = site.map.get(keyword) else { return Ok(ConstraintLiteral::TRUE) };
        Ok(match keyword {
            "$ref" | "$dynamicRef" => {
                let reference = value.as_str().ok_or_else(|| site.malformed(keyword))?;
                self.reference(site, keyword, reference)?
            }
            "type" => self.types(site, value)?,
            "enum" => self.pool.values_of(site.list(keyword)?),
            "const" => self.pool.one_value(value),
            "allOf" => {
                let parts = self.list_at(site, keyword)?;
                self.pool.and(parts)
            }
            "anyOf" => {
                let parts = self.list_at(site, keyword)?;
                self.pool.or(parts)
            }
            "oneOf" => {
                let parts = self.list_at(site, keyword)?;
                self.pool.one_of(parts)
            }
            "not" => !self.at(site, keyword)?,
            "if" => {
                self.at(site, keyword)?;
                ConstraintLiteral::TRUE
            }
            "then" | "else" => {
                let then = self.at(site, keyword)?;
                if !site.map.contains_key("if") {
                    return Ok(ConstraintLiteral::TRUE);
                }
                let condition = self.at(site, "if")?;
                self.pool.or([if keyword == "then" { !condition } else { condition }, then])
            }
            "minimum" => self.pool.add(ValueConstraint::AtLeast { bound: site.number(keyword)?, exclusive: false }),
            "exclusiveMinimum" => {
                self.pool.add(ValueConstraint::AtLeast { bound: site.number(keyword)?, exclusive: true })
            }
            "maximum" => self.pool.add(ValueConstraint::AtMost { bound: site.number(keyword)?, exclusive: false }),
            "exclusiveMaximum" => {
                self.pool.add(ValueConstraint::AtMost { bound: site.number(keyword)?, exclusive: true })
            }
            "multipleOf" => {
                let unit = site.number(keyword)?;
                if unit.is_zero() || unit.is_negative() {
                    return Err(site.malformed(keyword));
                }
                self.pool.add(ValueConstraint::MultipleOf(unit))
            }
            "minLength" => self.at_least(site.count(keyword)?, ValueConstraint::MinLength),
            "maxLength" => self.pool.add(ValueConstraint::MaxLength(site.count(keyword)?)),
            "pattern" => {
                let text = value.as_str().ok_or_else(|| site.malformed(keyword))?;
                self.pool.pattern(text)
            }
            "minItems" => self.at_least(site.count(keyword)?, ValueConstraint::MinItems),
            "maxItems" => self.pool.add(ValueConstraint::MaxItems(site.count(keyword)?)),
            "minProperties" => self.at_least(site.count(keyword)?, ValueConstraint::MinProperties),
            "maxProperties" => self.pool.add(ValueConstraint::MaxProperties(site.count(keyword)?)),
            "uniqueItems" => match value.as_bool() {
                Some(true) => self.pool.add(ValueConstraint::UniqueItems),
                Some(false) => ConstraintLiteral::TRUE,
                None => return Err(site.malformed(keyword)),
            },
            "prefixItems" => {
                let parts = self.list_at(site, keyword)?;
                let parts: Vec<ConstraintLiteral> =
                    (0..).zip(parts).map(|(index, what)| self.all_items(index, index + 1, what)).collect();
                self.pool.and(parts)
            }
            "items" => {
                let what = self.at(site, keyword)?;
                self.all_items(site.prefix(), END, what)
            }
            "contains" => {
                let what = self.at(site, keyword)?;
                match if site.map.contains_key("minContains") { site.count("minContains")? } else { 1 } {
                    0 => ConstraintLiteral::TRUE,
                    count => self.pool.add(ValueConstraint::SomeItems { from: 0, to: END, what, count }),
                }
            }
            "minContains" => {
                site.count(keyword)?;
                ConstraintLiteral::TRUE
            }
            "maxContains" => {
                let count = site.count(keyword)?;
                if !site.map.contains_key("contains") {
                    return Ok(ConstraintLiteral::TRUE);
                }
                let what = self.at(site, "contains")?;
                self.pool.add(ValueConstraint::FewItems { from: 0, to: END, what, count })
            }
            "properties" | "patternProperties" | "dependentSchemas" | "dependentRequired" => {
                let names: Vec<&String> = site.members(keyword)?.keys().collect();
                let parts = names.into_iter().map(|name| self.member(site, keyword, name));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                self.pool.and(parts)
            }
            "additionalProperties" => {
                let value = self.at(site, keyword)?;
                let name = self.additional_names(site)?;
                self.each(name, value)
            }
            "propertyNames" => {
                let name = self.at(site, keyword)?;
                self.each(!name, ConstraintLiteral::FALSE)
            }
            "required" => {
                let names = site.names(keyword, value)?;
                let parts: Vec<ConstraintLiteral> = names.into_iter().map(|name| self.required(name)).collect();
                self.pool.and(parts)
            }
            "unevaluatedProperties" | "unevaluatedItems" => self.unevaluated(site, keyword)?,
            "dependencies" => {
                let members = site.members(keyword)?;
                let mut parts = Vec::new();
                for (name, member) in members {
                    let list = if member.is_array() { "dependentRequired" } else { "dependentSchemas" };
                    parts.push(self.dependency(site, keyword, list, name, member)?);
                }
                // Validators disagree whether this old keyword still applies, but each is consistent with itself.
                parts = vec![self.pool.and(parts), self.pool.opaque("dependencies do not count".to_owned())];
                self.pool.or(parts)
            }
            "$defs" | "definitions" => {
                // Definitions are only checked to be valid schemas; references translate them.
                let location = SchemaLocation::Named(&site.location, keyword);
                for (name, member) in site.members(keyword)? {
                    self.schema(site.side, SchemaLocation::Named(&location, name), member)?;
                }
                ConstraintLiteral::TRUE
            }
            _ => ConstraintLiteral::TRUE,
        })
    }

    /// The literal of one member of `properties`, `patternProperties`, `dependentRequired` or `dependentSchemas`.
    pub(crate) fn member(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
        name: &str,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let Some(schema) = site.members(keyword)?.get(name) else { return Ok(ConstraintLiteral::TRUE) };
        if keyword.starts_with("dependent") {
            return self.dependency(site, keyword, keyword, name, schema);
        }
        let location = SchemaLocation::Named(&site.location, keyword);
        let value = self.schema(site.side, SchemaLocation::Named(&location, name), schema)?;
        let name = if keyword == "properties" { self.pool.name(name) } else { self.pool.pattern(name) };
        Ok(self.each(name, value))
    }

    /// The literal of one dependency: a property's presence requires `entailed`. `like` selects the keyword's notation.
    fn dependency(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
        like: &str,
        name: &str,
        entailed: &Value,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let absent = self.absent(name);
        if like == "dependentSchemas" {
            let location = SchemaLocation::Named(&site.location, keyword);
            let value = self.schema(site.side, SchemaLocation::Named(&location, name), entailed)?;
            return Ok(self.pool.or([absent, value]));
        }
        let mut parts = Vec::new();
        for other in site.names(keyword, entailed)? {
            let present = !self.absent(other);
            parts.push(self.pool.or([absent, present]));
        }
        Ok(self.pool.and(parts))
    }

    /// The literal for property names that neither `properties` nor `patternProperties` matches.
    pub(crate) fn additional_names(
        &mut self,
        site: LocatedSchema<'_>,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let mut others = Vec::new();
        if site.map.contains_key("properties") {
            others.push(!self.pool.names(site.members("properties")?.keys().map(String::as_str)));
        }
        if site.map.contains_key("patternProperties") {
            others.extend(site.members("patternProperties")?.keys().map(|pattern| !self.pool.pattern(pattern)));
        }
        Ok(self.pool.and(others))
    }

    pub(crate) fn absent(&mut self, name: &str) -> ConstraintLiteral {
        let name = self.pool.name(name);
        self.each(name, ConstraintLiteral::FALSE)
    }

    pub(crate) fn required(&mut self, name: &str) -> ConstraintLiteral {
        let present = !self.absent(name);
        let object = self.pool.types(types::OBJECT);
        self.pool.or([!object, present])
    }

    pub(crate) fn each(&mut self, name: ConstraintLiteral, value: ConstraintLiteral) -> ConstraintLiteral {
        if value == ConstraintLiteral::TRUE || name == ConstraintLiteral::FALSE {
            return ConstraintLiteral::TRUE;
        }
        self.pool.add(ValueConstraint::Each { name, value })
    }

    pub(crate) fn all_items(&mut self, from: u64, to: u64, what: ConstraintLiteral) -> ConstraintLiteral {
        if what == ConstraintLiteral::TRUE {
            return ConstraintLiteral::TRUE;
        }
        self.pool.add(ValueConstraint::FewItems { from, to, what: !what, count: 0 })
    }

    fn at_least(&mut self, count: u64, node: fn(u64) -> ValueConstraint) -> ConstraintLiteral {
        if count == 0 { ConstraintLiteral::TRUE } else { self.pool.add(node(count)) }
    }

    fn types(&mut self, site: LocatedSchema<'_>, value: &Value) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let one;
        let all;
        let names: &[&str] = match value {
            Value::String(name) => {
                one = [name.as_str()];
                &one
            }
            other => {
                all = site.names("type", other)?;
                &all
            }
        };
        if names.is_empty() {
            return Err(site.malformed("type"));
        }
        let (mut mask, mut integer) = (0, false);
        for name in names {
            mask |= match *name {
                "null" => types::NULL,
                "boolean" => types::BOOLEAN,
                "number" => types::NUMBER,
                "string" => types::STRING,
                "array" => types::ARRAY,
                "object" => types::OBJECT,
                "integer" => {
                    integer = true;
                    0
                }
                _ => return Err(site.malformed("type")),
            };
        }
        if !integer || mask & types::NUMBER != 0 {
            return Ok(self.pool.types(mask));
        }
        let types = self.pool.types(mask | types::NUMBER);
        let whole = self.pool.add(ValueConstraint::MultipleOf(Decimal::ONE));
        Ok(self.pool.and([types, whole]))
    }

    fn reference(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
        reference: &str,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let document = self.document(site.side);
        if keyword == "$dynamicRef" && document.is_compound() {
            // The target of a dynamic anchor depends on the evaluation path.
            let text = format!("{:?} {} {reference}", site.side, site.location.text());
            return Ok(self.pool.opaque(text));
        }
        match document.resolve(reference, site.location) {
            None => Err(site.malformed(keyword)),
            Some(SchemaReferenceTarget::Elsewhere(address)) => Ok(self.pool.opaque(format!("at {address}"))),
            Some(SchemaReferenceTarget::Here(location, _)) => {
                let number = self.number_at(site.side, location);
                Ok(self.pool.add(ValueConstraint::Ref(number)))
            }
        }
    }

    /// The number of the reference to a location. A location with equal schemas in both documents has one number.
    fn number_at(&mut self, side: SchemaSide, location: String) -> u32 {
        if let Some(&number) = self.references[side as usize].get(&location) {
            return number;
        }
        let number = if side == SchemaSide::New && is_same_schema(&self.old, &self.new, &location) {
            self.number_at(SchemaSide::Old, location.clone())
        } else {
            let number = self.pool.new_reference();
            self.waiting.push((number, side, location.clone()));
            number
        };
        self.references[side as usize].insert(location, number);
        number
    }
}
