//! `cargo xtask schema`: writes the schemas of Skill Sharing, generated from the wire types, and the schema and
//! reference of agent files.

mod agent_file;
mod json;
mod mdx;
mod ts;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// Date of the schema release. A published release never changes; a new release has a new date.
const RELEASE: &str = "2026-11-18";

/// Writes schema and reference of agent files, the draft and, if it does not exist yet, the release; an existing
/// release must be unchanged. With `check` it writes nothing and fails if a file is out of date.
pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    let (draft, release) = (root.join("schema/draft"), root.join("schema").join(RELEASE));
    if check {
        let fresh = compare(&draft).and_then(|()| compare(&release)).and_then(|()| agent_file::compare(root));
        return fresh.context("run `cargo xtask schema`");
    }
    agent_file::write(root)?;
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
    fn published_schemas_and_reference_equal_those_generated_from_the_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        run(&root, true).unwrap_or_else(|fault| panic!("{fault:#}"));
    }
}
