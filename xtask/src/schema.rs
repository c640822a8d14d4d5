//! `cargo xtask schema`: writes the schemas of Skill Sharing, generated from the wire types.

mod json;
mod mdx;
mod ts;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// Date of the schema release. A published release never changes; a new release has a new date.
const RELEASE: &str = "2026-11-18";

/// Writes the draft and, if it does not exist yet, the release; an existing release must be unchanged.
pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    let (draft, release) = (root.join("schema/draft"), root.join("schema").join(RELEASE));
    if check {
        let fresh = compare(&draft).and_then(|()| compare(&release));
        return fresh.context("run `cargo xtask schema`");
    }
    write(&draft)?;
    if !release.exists() {
        return write(&release);
    }
    compare(&release).context("a release never changes: set a new day in xtask/src/schema.rs")
}

fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in files() {
        fs::write(folder.join(name), text).with_context(|| folder.join(name).display().to_string())?;
    }
    println!("wrote {}", folder.display());
    Ok(())
}

fn compare(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in files() {
        let file = folder.join(name);
        let found = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if found != text {
            bail!("{} is not what the types say", file.display());
        }
    }
    Ok(())
}

/// File names and contents of the generated schemas.
fn files() -> [(&'static str, String); 3] {
    [("schema.json", json::text()), ("schema.ts", ts::text()), ("schema.mdx", mdx::text())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_schema_files_equal_those_generated_from_the_types() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(run(&root, true).is_ok(), "run `cargo xtask schema`");
    }
}
