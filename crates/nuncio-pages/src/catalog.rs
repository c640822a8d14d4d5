//! Catalogs of words, one a language: TOML tables of sections with texts, whose blanks are written `{name}`.

use std::collections::{BTreeMap, BTreeSet};

/// Every text of a catalog with where it is.
fn entries(catalog: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = catalog.parse().map_err(|why| format!("{why}"))?;
    let mut entries = BTreeMap::new();
    for (section, texts) in &table {
        let texts = texts.as_table().ok_or_else(|| format!("{section} is no section"))?;
        for (key, text) in texts {
            let text = text.as_str().ok_or_else(|| format!("{section}.{key} is no text"))?;
            entries.insert(format!("{section}.{key}"), text.to_owned());
        }
    }
    Ok(entries)
}

fn blanks(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// Where two catalogs do not say the same things with the same blanks; for tests.
#[must_use]
pub fn differences(one: &str, other: &str) -> Vec<String> {
    let (one, other) = match (entries(one), entries(other)) {
        (Ok(one), Ok(other)) => (one, other),
        (one, other) => return [one.err(), other.err()].into_iter().flatten().collect(),
    };
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differs = |key: &&String| match (one.get(*key), other.get(*key)) {
        (Some(one), Some(other)) => one.trim().is_empty() || other.trim().is_empty() || blanks(one) != blanks(other),
        _ => true,
    };
    keys.into_iter().filter(differs).cloned().collect()
}

/// Where a Chinese catalog has half-width punctuation among its characters; for tests. What is code stays as it is.
#[must_use]
pub fn half_width(chinese: &str) -> Vec<String> {
    let is_chinese = |c: char| ('\u{3400}'..='\u{9fff}').contains(&c);
    let is_half = |c: char| matches!(c, ',' | ';' | ':' | '?' | '!');
    let wrong = |text: &str| {
        let words: String = text.split('`').step_by(2).collect();
        let chars: Vec<char> = words.chars().collect();
        chars.windows(2).any(|two| is_chinese(two[0]) && is_half(two[1]) || is_half(two[0]) && is_chinese(two[1]))
    };
    let Ok(entries) = entries(chinese) else { return vec!["it cannot be read".to_owned()] };
    entries.into_iter().filter(|(_, text)| wrong(text)).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_empty_or_has_other_blanks_is_found() {
        let one = "[a]\nsame = \"x {n}\"\nempty = \"x\"\nblank = \"{n}\"\nmissing = \"x\"\n";
        let other = "[a]\nsame = \"{n} y\"\nempty = \" \"\nblank = \"{m}\"\nmore = \"x\"\n";
        assert_eq!(differences(one, other), ["a.blank", "a.empty", "a.missing", "a.more"]);
        assert_eq!(differences(one, one), Vec::<String>::new());
    }

    #[test]
    fn chinese_has_its_own_punctuation() {
        let catalog = "[a]\ngood = \"打开，`a: b`。\"\nhalf = \"打开,或关闭\"\nend = \"真的吗?\"\n";
        assert_eq!(half_width(catalog), ["a.end", "a.half"]);
    }
}
