//! Checks of assets and text catalogs, for the tests of every crate that has pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::assets::Assets;

impl Assets {
    /// Names and contents of all scripts.
    pub fn scripts(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.all().filter(|asset| asset.name.ends_with(".js")).map(|asset| (asset.name, asset.content))
    }

    /// Faults for tests: a file that is not served, or a script that writes markup, evaluates text or loads foreign
    /// code.
    #[must_use]
    pub fn faults(&self, folder: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for file in files.filter_map(|entry| entry.file_name().into_string().ok()) {
            if !self.all().any(|asset| asset.name == file) {
                faults.push(format!("{file} is not served"));
            }
        }
        for (name, source) in self.scripts() {
            let forbidden = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
            let elsewhere = ["http://", "https://"];
            let found = forbidden.iter().chain(&elsewhere).filter(|word| source.contains(**word));
            faults.extend(found.map(|word| format!("{name} holds {word}")));
            for import in source.lines().filter_map(|line| line.strip_prefix("import ")) {
                let file = import.rsplit('"').nth(1).and_then(|path| path.strip_prefix("./"));
                if !self.all().any(|asset| Some(asset.name) == file) {
                    faults.push(format!("{name} imports {import}"));
                }
            }
        }
        faults
    }
}

/// Texts that scripts request by `say("…")` and that are missing, and texts that no script requests; for tests.
#[must_use]
pub fn unasked<'a>(assets: &Assets, there: impl Iterator<Item = &'a str>) -> Vec<String> {
    let calls = assets.scripts().flat_map(|(_, source)| source.split("say(\"").skip(1));
    let asked: BTreeSet<_> = calls.filter_map(|rest| rest.split('"').next()).collect();
    let there: BTreeSet<_> = there.collect();
    asked.symmetric_difference(&there).map(|word| format!("script.{word}")).collect()
}

/// All texts of a catalog by path.
fn entries(catalog: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = catalog.parse().map_err(|why| format!("{why}"))?;
    let mut entries = BTreeMap::new();
    for (section, texts) in &table {
        let texts = texts.as_table().ok_or_else(|| format!("{section} is not a table"))?;
        for (key, text) in texts {
            let text = text.as_str().ok_or_else(|| format!("{section}.{key} is not a text"))?;
            entries.insert(format!("{section}.{key}"), text.to_owned());
        }
    }
    Ok(entries)
}

fn blanks(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// Texts or placeholders in which two catalogs differ; for tests.
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

/// Texts of a Chinese catalog with half-width punctuation outside of code; for tests.
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
    use crate::pages::assets::Asset;

    #[test]
    fn catalog_check_finds_missing_and_empty_texts_and_differing_placeholders() {
        let one = "[a]\nsame = \"x {n}\"\nempty = \"x\"\nblank = \"{n}\"\nmissing = \"x\"\n";
        let other = "[a]\nsame = \"{n} y\"\nempty = \" \"\nblank = \"{m}\"\nmore = \"x\"\n";
        assert_eq!(differences(one, other), ["a.blank", "a.empty", "a.missing", "a.more"]);
        assert_eq!(differences(one, one), Vec::<String>::new());
    }

    #[test]
    fn catalog_check_finds_missing_and_unused_texts_of_scripts() {
        const SCRIPTS: &[Asset] = &[Asset { name: "a.js", content: r#"show(say("sent", n)); say("lost")"# }];
        let assets = Assets::new(SCRIPTS, String::new);
        assert_eq!(unasked(&assets, ["lost", "sent"].into_iter()), Vec::<String>::new());
        assert_eq!(unasked(&assets, ["sent", "unused"].into_iter()), ["script.lost", "script.unused"]);
    }

    #[test]
    fn catalog_check_finds_half_width_punctuation_in_chinese() {
        let catalog = "[a]\ngood = \"打开，`a: b`。\"\nhalf = \"打开,或关闭\"\nend = \"真的吗?\"\n";
        assert_eq!(half_width(catalog), ["a.end", "a.half"]);
    }
}
