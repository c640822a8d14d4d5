//! `cargo xtask schema`: writes the schemas of Skill Sharing from the types that travel.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use nuncio_skill::schema;

/// Writes the draft, and the release of its day when there is none yet. A release never changes.
pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    let (draft, release) = (root.join("schema/draft"), root.join("schema").join(schema::RELEASE));
    if check {
        let fresh = compare(&draft).and_then(|()| compare(&release));
        return fresh.context("run `cargo xtask schema`");
    }
    write(&draft)?;
    if !release.exists() {
        return write(&release);
    }
    compare(&release).context("a release never changes: set a new day in nuncio_skill::schema::RELEASE")
}

fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in schema::files() {
        fs::write(folder.join(name), text).with_context(|| folder.join(name).display().to_string())?;
    }
    println!("wrote {}", folder.display());
    Ok(())
}

fn compare(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in schema::files() {
        let file = folder.join(name);
        let found = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if found != text {
            bail!("{} is not what the types say", file.display());
        }
    }
    Ok(())
}
