//! Tool that reads regular files, and lists folders, below folders that the person shares. On Linux the kernel refuses
//! links that lead out of the folder; on other systems no links are followed. Hard links in the folder count as inside.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use serde_json::{Value, json};

use super::{LocalTool, LocalToolAccess, LocalToolFailure};

/// Limit of a file that can be read, in bytes, so that it fits into an answer.
const MAX_BYTES: usize = 44 * 1024;
/// Limit of the names that a folder listing returns.
const MAX_NAMES: usize = 1000;
/// Limit of directory entries that are read before sorting.
const MAX_LOOKED: usize = 20_000;

#[derive(Debug, Clone)]
pub struct SharedFolders(Vec<PathBuf>);

impl SharedFolders {
    /// Resolves links in the paths of the shared folders, once; each must be a folder.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, std::io::Error> {
        let real = |folder: PathBuf| {
            let is_inside =
                |why: std::io::Error| std::io::Error::new(why.kind(), format!("{}: {why}", folder.display()));
            let real = folder.canonicalize().map_err(is_inside)?;
            match real.is_dir() {
                true => Ok(real),
                false => Err(std::io::Error::other(format!("{} is not a folder", folder.display()))),
            }
        };
        folders.into_iter().map(real).collect::<Result<_, _>>().map(Self)
    }

    /// Shared folders in which a path may be, each with the path inside it. A relative path may be in every folder.
    fn candidates(&self, path: &Path) -> Vec<(&Path, PathBuf)> {
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let within = |folder: &PathBuf| match path.is_absolute() {
            true => path.strip_prefix(folder).ok().map(Path::to_owned),
            false => Some(path.to_owned()),
        };
        let is_inside = |inner: &PathBuf| inner.components().all(is_plain);
        let candidate =
            |folder| Some((folder, within(folder).filter(is_inside)?)).filter(|_| !path.as_os_str().is_empty());
        // An empty inner path means the folder itself.
        let inner = |inner: PathBuf| if inner.as_os_str().is_empty() { PathBuf::from(".") } else { inner };
        self.0.iter().filter_map(candidate).map(|(folder, path)| (folder.as_path(), inner(path))).collect()
    }

    fn read(&self, path: &str) -> Result<PathContent, LocalToolFailure> {
        for (folder, inner) in self.candidates(Path::new(path)) {
            if let Some((file, kind)) = opened(folder, &inner) {
                return match kind {
                    FileType::Directory => names(file),
                    _ => bytes(file),
                };
            }
        }
        // Missing and forbidden files give the same error, so that an agent cannot find out which files exist.
        Err(LocalToolFailure::Failed("there is no such file in the allowed folders".to_owned()))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum PathContent {
    File(Vec<u8>),
    Folder { names: Vec<String>, more: bool },
}

const OPEN_FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const OPEN_FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a regular file or folder. The type is checked before and after, because opening devices or pipes may have side
/// effects.
fn opened(folder: &Path, inner: &Path) -> Option<(OwnedFd, FileType)> {
    let file = open_beneath(folder, inner)?;
    let kind = readable_kind(&fstat(&file).ok()?)?;
    Some((file, kind))
}

fn readable_kind(stat: &Stat) -> Option<FileType> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    matches!(kind, FileType::RegularFile | FileType::Directory).then_some(kind)
}

#[cfg(all(target_os = "linux", not(nuncio_portable)))]
fn open_beneath(folder: &Path, inner: &Path) -> Option<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let folder = openat(CWD, folder, OPEN_FOLDER_FLAGS, Mode::empty()).ok()?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = |flags| openat2(&folder, inner, flags, Mode::empty(), beneath).ok();
    readable_kind(&fstat(open(OFlags::PATH | OFlags::CLOEXEC)?).ok()?)?;
    open(OPEN_FILE_FLAGS)
}

/// Opens one folder of the path after another; no part may be a link, because only Linux can check where a link leads.
#[cfg(not(all(target_os = "linux", not(nuncio_portable))))]
fn open_beneath(folder: &Path, inner: &Path) -> Option<OwnedFd> {
    use rustix::fs::{AtFlags, statat};
    let mut folder = openat(CWD, folder, OPEN_FOLDER_FLAGS, Mode::empty()).ok()?;
    let mut parts: Vec<_> = inner.components().map(|part| part.as_os_str()).collect();
    let name = parts.pop()?;
    for part in parts {
        folder = openat(&folder, part, OPEN_FOLDER_FLAGS, Mode::empty()).ok()?;
    }
    let kind = readable_kind(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?)?;
    let is_named_as_folder = inner.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_named_as_folder && kind != FileType::Directory {
        return None;
    }
    openat(&folder, name, OPEN_FILE_FLAGS | OFlags::NOFOLLOW, Mode::empty()).ok()
}

fn unreadable(why: &dyn std::fmt::Display) -> LocalToolFailure {
    LocalToolFailure::Failed(format!("the file cannot be read: {why}"))
}

fn bytes(file: OwnedFd) -> Result<PathContent, LocalToolFailure> {
    let size = fstat(&file).map_err(|why| unreadable(&why))?.st_size;
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|why| unreadable(&why))?;
    if bytes.len() > MAX_BYTES {
        let size = usize::try_from(size).unwrap_or(usize::MAX).max(bytes.len());
        return Err(LocalToolFailure::Failed(format!("the file has {size} bytes; the limit is {MAX_BYTES}")));
    }
    Ok(PathContent::File(bytes))
}

/// Sorted names in a folder; names of folders end with `/`.
fn names(folder: OwnedFd) -> Result<PathContent, LocalToolFailure> {
    let mut names = Vec::new();
    for entry in Dir::new(folder).map_err(|why| unreadable(&why))?.take(MAX_LOOKED + 1) {
        let entry = entry.map_err(|why| unreadable(&why))?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            let end = if entry.file_type() == FileType::Directory { "/" } else { "" };
            names.push(format!("{name}{end}"));
        }
    }
    names.sort();
    let count = names.len();
    let mut space = MAX_BYTES;
    let fit = names.iter().take(MAX_NAMES).take_while(|name| {
        let size = json!(name).to_string().len() + 1;
        let fits = size <= space;
        space = space.saturating_sub(size);
        fits
    });
    let fit = fit.count();
    names.truncate(fit);
    Ok(PathContent::Folder { names, more: fit < count })
}

#[async_trait]
impl LocalTool for SharedFolders {
    fn limits(&self) -> Option<LocalToolAccess> {
        Some(LocalToolAccess { reads: self.0.clone(), file_bytes: Some(MAX_BYTES), ..LocalToolAccess::default() })
    }

    async fn run(&self, arguments: &Value, _: Duration) -> Result<Value, LocalToolFailure> {
        let path = arguments["path"].as_str();
        let path =
            path.ok_or_else(|| LocalToolFailure::Arguments("`path` is missing: name the file".to_owned()))?.to_owned();
        let folders = self.clone();
        let read = tokio::task::spawn_blocking(move || folders.read(&path)).await;
        Ok(match read.map_err(|_| LocalToolFailure::Failed("reading was aborted".to_owned()))?? {
            PathContent::Folder { names, more } => json!({"entries": names, "more": more}),
            PathContent::File(bytes) => match String::from_utf8(bytes) {
                Ok(text) => json!({"content": text}),
                Err(other) => json!({"content_base64": STANDARD.encode(other.as_bytes())}),
            },
        })
    }
}

#[cfg(test)]
mod tests;
