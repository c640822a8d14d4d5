//! Reading files, only below folders that the person chose. The kernel keeps us there: a path is resolved beneath the
//! folder, without links that lead out and without anything that is no file.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use serde_json::{Value, json};

use super::{LocalTool, ToolFailure};

/// How much of a file is given away: it must fit into an answer.
const MAX_BYTES: usize = 44 * 1024;

/// Folders whose files may be read.
#[derive(Debug, Clone)]
pub struct Folders(Vec<PathBuf>);

impl Folders {
    /// These, each where it really is.
    ///
    /// # Errors
    /// One of them is no folder.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, std::io::Error> {
        let real = |folder: PathBuf| {
            let real = folder.canonicalize()?;
            match real.is_dir() {
                true => Ok(real),
                false => Err(std::io::Error::other(format!("{} is no folder", folder.display()))),
            }
        };
        folders.into_iter().map(real).collect::<Result<_, _>>().map(Self)
    }

    /// The folder a path is in, and the path within: absolute below one of them, or relative to the first that has it.
    fn places(&self, path: &Path) -> Vec<(&Path, PathBuf)> {
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let within = |folder: &PathBuf| match path.is_absolute() {
            true => path.strip_prefix(folder).ok().map(Path::to_owned),
            false => Some(path.to_owned()),
        };
        let named = |inner: &PathBuf| inner.components().next().is_some() && inner.components().all(is_plain);
        self.0.iter().filter_map(|folder| Some((folder.as_path(), within(folder).filter(named)?))).collect()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ToolFailure> {
        // One word for what is not there and for what is not open, so that nobody maps the disk.
        let closed = || ToolFailure::Failed("there is no such file in the folders this device opens".to_owned());
        let failed = |why: &dyn std::fmt::Display| ToolFailure::Failed(format!("it cannot be read: {why}"));
        let folder_flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // What is no file is not even waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for (folder, inner) in self.places(Path::new(path)) {
            let Ok(folder) = openat(CWD, folder, folder_flags, Mode::empty()) else { continue };
            let Ok(file) = openat2(&folder, &inner, flags, Mode::empty(), beneath) else { continue };
            let stat = fstat(&file).map_err(|why| failed(&why))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(closed());
            }
            let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
            let mut bytes = Vec::new();
            std::fs::File::from(file).take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|why| failed(&why))?;
            if bytes.len() > MAX_BYTES {
                let size = size.max(bytes.len());
                return Err(ToolFailure::Failed(format!("it has {size} bytes; at most {MAX_BYTES} are given away")));
            }
            return Ok(bytes);
        }
        Err(closed())
    }
}

#[async_trait]
impl LocalTool for Folders {
    async fn run(&self, arguments: &Value, _: Duration) -> Result<Value, ToolFailure> {
        let path = arguments["path"].as_str();
        let path = path.ok_or_else(|| ToolFailure::Arguments("`path` says which file".to_owned()))?.to_owned();
        let folders = self.clone();
        let read = tokio::task::spawn_blocking(move || folders.read(&path)).await;
        let bytes = read.map_err(|_| ToolFailure::Failed("reading was given up".to_owned()))??;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => json!({"content": text}),
            Err(other) => json!({"content_base64": base64(other.as_bytes())}),
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Every way out that is known, and that what is inside can be read.
    #[test]
    fn nothing_leads_out_of_the_folders() {
        let world = tempfile::tempdir().unwrap();
        let (open, shut) = (world.path().join("open"), world.path().join("shut"));
        fs::create_dir_all(open.join("deep")).unwrap();
        fs::create_dir_all(&shut).unwrap();
        fs::write(open.join("deep/notes.md"), "inside").unwrap();
        fs::write(shut.join("secret"), "outside").unwrap();
        fs::write(open.join("large"), vec![b'x'; MAX_BYTES + 1]).unwrap();
        symlink(shut.join("secret"), open.join("link")).unwrap();
        symlink("../shut/secret", open.join("relative-link")).unwrap();
        symlink(&shut, open.join("folder-link")).unwrap();
        symlink("deep/notes.md", open.join("good-link")).unwrap();
        rustix::fs::mknodat(CWD, open.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::hard_link(open.join("deep/notes.md"), open.join("hard")).unwrap();

        let folders = Folders::new([open.clone()]).unwrap();
        let real = open.canonicalize().unwrap();
        let text = |path: &str| folders.read(path).map(|bytes| String::from_utf8(bytes).unwrap());
        for inside in
            ["deep/notes.md", "./deep/notes.md", "good-link", "hard", real.join("deep/notes.md").to_str().unwrap()]
        {
            assert_eq!(text(inside).as_deref(), Ok("inside"), "{inside}");
        }
        let (elsewhere, around) = (shut.join("secret"), real.join("../shut/secret"));
        let out = [
            "",
            ".",
            "/",
            "deep",
            "..",
            "../shut/secret",
            "deep/../../shut/secret",
            "link",
            "relative-link",
            "folder-link/secret",
            "pipe",
            "large",
            "none",
            "deep/notes.md/x",
            "/etc/passwd",
            "/proc/self/root/etc/passwd",
            "/dev/zero",
            "/proc/self/fd/0",
            "notes\0.md",
            elsewhere.to_str().unwrap(),
            around.to_str().unwrap(),
            &"a/".repeat(3000),
        ];
        for path in out {
            assert!(folders.read(path).is_err(), "{path:?} was read");
        }
        let (hidden, absent) = (folders.read("link"), folders.read("none"));
        assert_eq!(hidden, absent, "what is shut looks like what is not there");
    }

    /// Somebody swaps a folder for a link while we read: what is read is inside, or nothing.
    #[test]
    fn a_race_leads_nowhere_either() {
        let world = tempfile::tempdir().unwrap();
        let (open, shut) = (world.path().join("open"), world.path().join("shut"));
        fs::create_dir_all(open.join("real")).unwrap();
        fs::create_dir_all(&shut).unwrap();
        fs::write(open.join("real/f"), "inside").unwrap();
        fs::write(shut.join("f"), "outside").unwrap();
        let folders = Folders::new([open.clone()]).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = symlink(&shut, open.join("swap"));
                    let _ = fs::remove_file(open.join("swap"));
                    let _ = fs::rename(open.join("real"), open.join("swap"));
                    let _ = fs::rename(open.join("swap"), open.join("real"));
                }
            });
            let mut inside = 0;
            for _ in 0..20_000 {
                if let Ok(bytes) = folders.read("swap/f") {
                    assert_eq!(bytes, b"inside");
                    inside += 1;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            println!("read {inside} times, always inside");
        });
    }
}
