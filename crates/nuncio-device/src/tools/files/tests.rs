use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A shared folder `open` and a folder `shut` that is not shared, each with a file.
struct TestFolders {
    _place: tempfile::TempDir,
    open: PathBuf,
    shut: PathBuf,
}

impl TestFolders {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        let (open, shut) = (real.join("open"), real.join("shut"));
        fs::create_dir_all(open.join("deep")).unwrap();
        fs::create_dir_all(&shut).unwrap();
        fs::write(open.join("deep/notes.md"), "inside").unwrap();
        fs::write(shut.join("secret"), "outside").unwrap();
        Self { _place: place, open, shut }
    }

    fn folders(&self) -> SharedFolders {
        SharedFolders::new([self.open.clone()]).unwrap()
    }
}

fn text(found: Result<PathContent, LocalToolFailure>) -> Option<String> {
    match found {
        Ok(PathContent::File(bytes)) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Tries every known way out of the shared folder.
#[test]
fn paths_links_and_special_files_outside_shared_folders_cannot_be_read() {
    let TestFolders { _place, open, shut } = &TestFolders::new();
    fs::write(open.join("large"), vec![b'x'; MAX_BYTES + 1]).unwrap();
    fs::File::create(open.join("huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(open.join("line\nbreak"), "inside").unwrap();
    symlink(shut.join("secret"), open.join("link")).unwrap();
    symlink("../shut/secret", open.join("relative-link")).unwrap();
    symlink(shut, open.join("folder-link")).unwrap();
    symlink("deep/notes.md", open.join("good-link")).unwrap();
    // An absolute link is refused even if its target is inside.
    symlink(open.join("deep/notes.md"), open.join("absolute-link")).unwrap();
    symlink("loop", open.join("loop")).unwrap();
    symlink("/proc/self/root", open.join("root")).unwrap();
    symlink("/proc/self/cwd", open.join("cwd")).unwrap();
    symlink("/dev/zero", open.join("zero-link")).unwrap();
    rustix::fs::mknodat(CWD, open.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = UnixListener::bind(open.join("socket")).unwrap();
    // Works only with the right to create device files.
    let device = rustix::fs::makedev(1, 5);
    let _ = rustix::fs::mknodat(CWD, open.join("zero"), FileType::CharacterDevice, Mode::RUSR, device);
    fs::hard_link(open.join("deep/notes.md"), open.join("hard")).unwrap();

    let folders = SharedFolders::new([open.clone()]).unwrap();
    let whole = open.join("deep/notes.md");
    let inside = ["deep/notes.md", "./deep/notes.md", "deep//notes.md", "hard", "line\nbreak", whole.to_str().unwrap()];
    for path in inside {
        assert_eq!(text(folders.read(path)).as_deref(), Some("inside"), "{path}");
    }
    let follows_links = cfg!(all(target_os = "linux", not(nuncio_portable)));
    assert_eq!(text(folders.read("good-link")).is_some(), follows_links, "links that stay inside");
    let (elsewhere, around) = (shut.join("secret"), open.join("../shut/secret"));
    let sibling = format!("{}-other", open.display());
    let out = [
        "",
        "/",
        "..",
        "../shut/secret",
        "deep/../../shut/secret",
        "deep/../deep/notes.md",
        "link",
        "relative-link",
        "absolute-link",
        "folder-link",
        "folder-link/secret",
        "loop",
        "root",
        "root/etc/passwd",
        "cwd/Cargo.toml",
        "zero-link",
        "zero",
        "pipe",
        "socket",
        "large",
        "huge",
        "none",
        "line",
        "deep/notes.md/x",
        "deep/notes.md/",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "/proc/self/fd/0",
        "notes\0.md",
        "deep/notes.md\0",
        "deep/notes.md\n",
        "~/.ssh/id_ed25519",
        "$HOME",
        "%2e%2e/shut/secret",
        "..\\shut\\secret",
        elsewhere.to_str().unwrap(),
        around.to_str().unwrap(),
        &sibling,
        &"a/".repeat(3000),
        &"deep/".repeat(3000),
        &"x".repeat(300),
    ];
    for path in out {
        assert!(folders.read(path).is_err(), "{path:?} was read");
    }
    let hidden = ["link", "pipe", "socket", "zero", "root/etc/passwd"].map(|path| folders.read(path));
    assert!(hidden.iter().all(|hidden| *hidden == folders.read("none")), "what is shut looks like what is not there");
    let Err(LocalToolFailure::Failed(why)) = folders.read("huge") else { panic!("it was read") };
    assert!(why.contains(&(1_u64 << 40).to_string()), "{why}");
}

#[test]
fn reading_a_named_pipe_fails_without_opening_the_pipe() {
    let world = TestFolders::new();
    let pipe = world.open.join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Opening a pipe for writing without blocking fails while no reader has it open.
    let nobody_reads = || {
        let opened = openat(CWD, &pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        opened.is_err_and(|error| error == rustix::io::Errno::NXIO)
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(world.folders().read("pipe").is_err());
            }
        });
        for _ in 0..5000 {
            assert!(nobody_reads());
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn link_to_a_shared_folder_is_resolved_only_once_at_creation() {
    let world = TestFolders::new();
    let chosen = world.open.with_file_name("chosen");
    symlink(&world.open, &chosen).unwrap();
    let folders = SharedFolders::new([chosen.clone()]).unwrap();
    assert_eq!(text(folders.read("deep/notes.md")).as_deref(), Some("inside"));
    // The link is changed later; its new target is not shared.
    fs::remove_file(&chosen).unwrap();
    symlink(&world.shut, &chosen).unwrap();
    assert!(folders.read("secret").is_err());
    assert_eq!(text(folders.read("deep/notes.md")).as_deref(), Some("inside"));
    // The same holds if the folder itself is replaced by a link.
    fs::rename(&world.open, world.open.with_file_name("moved")).unwrap();
    symlink(&world.shut, &world.open).unwrap();
    assert!(folders.read("secret").is_err());
    assert!(SharedFolders::new([world.shut.join("secret")]).is_err(), "a file is no folder");
    assert!(SharedFolders::new([world.shut.join("none")]).is_err());
}

#[test]
fn folder_listing_is_sorted_and_limited_in_count_and_size() {
    let world = TestFolders::new();
    fs::write(world.open.join("b.md"), "words").unwrap();
    symlink(&world.shut, world.open.join("c")).unwrap();
    let folders = world.folders();
    let names = |path: &str| match folders.read(path) {
        Ok(PathContent::Folder { names, more }) => (names, more),
        other => panic!("{path}: {other:?}"),
    };
    let all = (["b.md", "c", "deep/"].map(str::to_owned).to_vec(), false);
    for path in [".", "./", world.open.to_str().unwrap()] {
        assert_eq!(names(path), all, "{path}");
    }
    assert_eq!(names("deep"), (vec!["notes.md".to_owned()], false));
    for path in ["c", "c/", "..", "../shut", "deep/..", world.shut.to_str().unwrap()] {
        assert!(folders.read(path).is_err(), "{path}");
    }
    fs::create_dir_all(world.open.join("many")).unwrap();
    for number in 0..MAX_NAMES + 5 {
        fs::write(world.open.join(format!("many/{number:05}")), "").unwrap();
    }
    let (many, more) = names("many");
    assert_eq!((many.len(), many[0].as_str(), more), (MAX_NAMES, "00000", true));
    fs::create_dir_all(world.open.join("long")).unwrap();
    for number in 0..400 {
        fs::write(world.open.join(format!("long/{number:0200}")), "").unwrap();
    }
    let (long, more) = names("long");
    assert!(more && json!(long).to_string().len() <= MAX_BYTES, "{}", long.len());
}

/// Another thread replaces a folder by a link while the folder is read.
#[test]
fn replacing_a_folder_by_a_link_during_read_gives_no_access_outside() {
    let TestFolders { _place, open, shut } = &TestFolders::new();
    fs::create_dir_all(open.join("real")).unwrap();
    fs::write(open.join("real/f"), "inside").unwrap();
    fs::write(shut.join("f"), "outside").unwrap();
    let folders = SharedFolders::new([open.clone()]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = symlink(shut, open.join("swap"));
                let _ = fs::remove_file(open.join("swap"));
                let _ = fs::rename(open.join("real"), open.join("swap"));
                let _ = fs::rename(open.join("swap"), open.join("real"));
            }
        });
        for _ in 0..20_000 {
            if let Ok(found) = folders.read("swap/f") {
                assert_eq!(found, PathContent::File(b"inside".to_vec()));
            }
            if let Ok(found) = folders.read("swap") {
                assert_eq!(found, PathContent::Folder { names: vec!["f".to_owned()], more: false });
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
