//! Programs of the person's own tools try to access files, processes and networks, with and without permission.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nuncio_device::tools::{
    ConfinementRules, ConfinementSupport, LocalTool as _, LocalToolFailure, ProgramTool, confinement,
};
use serde_json::{Value, json};

const TIME: Duration = Duration::from_secs(30);

/// Test home directory with private files, a device's data directory with keys, and its tools folder.
struct TestHomeDirectory {
    world: tempfile::TempDir,
}

impl TestHomeDirectory {
    fn new() -> Self {
        let place = Self { world: tempfile::tempdir().unwrap() };
        for folder in ["home/device/tools", "home/.ssh", "home/notes", "home/inbox"] {
            fs::create_dir_all(place.at(folder)).unwrap();
        }
        for file in ["home/device/keys.db", "home/.ssh/id_ed25519", "home/notes/n.md", "home/device/tools/own.txt"] {
            fs::write(place.at(file), "words").unwrap();
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.world.path().canonicalize().unwrap().join(path)
    }

    /// Output of a program that is confined to `reach`.
    async fn run(&self, command: &[&str], reach: &ConfinementRules) -> Result<Value, LocalToolFailure> {
        let command = command.iter().map(ToString::to_string).collect();
        let folder = self.at("home/device/tools");
        let tool = ProgramTool { command, folder, input: None, time: None, reach: reach.clone() };
        tool.run(&json!({}), TIME).await
    }

    /// Whether a shell command that is confined to `reach` succeeds.
    async fn does(&self, line: &str, reach: &ConfinementRules) -> bool {
        match self.run(&["bash", "-c", line], reach).await {
            Ok(_) => true,
            Err(LocalToolFailure::Failed(why)) if why.starts_with("the program failed") => false,
            Err(other) => panic!("{line}: {other:?}"),
        }
    }
}

fn reading(path: &Path) -> ConfinementRules {
    ConfinementRules { read: vec![path.to_owned()], ..ConfinementRules::default() }
}

fn writing(path: &Path) -> ConfinementRules {
    ConfinementRules { write: vec![path.to_owned()], ..ConfinementRules::default() }
}

/// Whether this system can confine file access; if not, checks that [`ConfinementSupport`]'s text says so.
fn keeps_files() -> bool {
    let ConfinementSupport { files, .. } = confinement();
    if !files {
        assert!(confinement().to_string().contains("no Landlock"), "{}", confinement());
    }
    files
}

#[tokio::test]
async fn confined_program_accesses_only_allowed_files() {
    let place = TestHomeDirectory::new();
    if !keeps_files() {
        return;
    }
    let at = |path: &str| place.at(path).display().to_string();
    let tries = [
        (format!("cat {}", at("home/device/keys.db")), None),
        (format!("cat {}", at("home/.ssh/id_ed25519")), Some(reading(&place.at("home/.ssh")))),
        (format!("cat {}", at("home/notes/n.md")), Some(reading(&place.at("home/notes/n.md")))),
        (format!("ls {}", at("home/notes")), Some(reading(&place.at("home/notes")))),
        (format!("cat < {}", at("home/notes/n.md")), Some(writing(&place.at("home/notes")))),
        (format!("echo more >> {}", at("home/notes/n.md")), Some(writing(&place.at("home/notes/n.md")))),
        (format!("echo new > {}", at("home/inbox/new")), Some(writing(&place.at("home/inbox")))),
        (format!("rm {}", at("home/inbox/new")), Some(writing(&place.at("home/inbox")))),
        (format!("mkdir {}", at("home/inbox/folder")), Some(writing(&place.at("home/inbox")))),
        (format!("echo mine > {}", at("home/device/tools/own.txt")), None),
        (format!("ln {} {}", at("home/device/keys.db"), at("home/inbox/keys")), None),
        ("cat /etc/passwd".to_owned(), Some(reading(Path::new("/etc/passwd")))),
        ("cat /proc/self/environ".to_owned(), None),
        ("ls /".to_owned(), None),
        ("ls /dev".to_owned(), None),
        ("ls /tmp".to_owned(), None),
    ];
    for (line, allowed_by) in &tries {
        assert!(!place.does(line, &ConfinementRules::default()).await, "no rule allows it: {line}");
        if let Some(reach) = allowed_by {
            assert!(place.does(line, reach).await, "it was allowed: {line}");
        }
    }
    // Read access to a folder allows neither changes nor access to files outside the folder.
    let notes = reading(&place.at("home/notes"));
    for line in [
        format!("echo more >> {}", at("home/notes/n.md")),
        format!("rm {}", at("home/notes/n.md")),
        format!("touch {}", at("home/notes/new")),
        format!("cat {}", at("home/notes/../device/keys.db")),
        format!("cat {}", at("home/.ssh/id_ed25519")),
    ] {
        assert!(!place.does(&line, &notes).await, "{line}");
    }
    // Forbidden files cannot be linked, moved or copied to an allowed folder.
    let inbox = writing(&place.at("home/inbox"));
    for way in ["ln", "mv", "cp"] {
        let line = format!("{way} {} {}", at("home/device/keys.db"), at("home/inbox/keys"));
        assert!(!place.does(&line, &inbox).await, "{line}");
    }
    // A link in an allowed folder gives no access to its target.
    std::os::unix::fs::symlink(place.at("home/device/keys.db"), place.at("home/notes/link")).unwrap();
    assert!(!place.does(&format!("cat {}", at("home/notes/link")), &notes).await);
    for line in [
        "cat own.txt",
        "cat ./own.txt",
        "true < /dev/null > /dev/null",
        "head -c 4 /dev/urandom > /dev/null",
        "python3 -c 'import hashlib, json'",
        "node -e 'process.exit(0)'",
    ] {
        assert!(place.does(line, &ConfinementRules::default()).await, "it always may: {line}");
    }
    assert_eq!(fs::read_to_string(place.at("home/device/keys.db")).unwrap(), "words");
}

#[tokio::test]
async fn confined_program_gains_no_privileges_and_cannot_signal_other_processes() {
    let place = TestHomeDirectory::new();
    let status = reading(Path::new("/proc"));
    let said = place.run(&["sh", "-c", "grep NoNewPrivs /proc/self/status"], &status).await.unwrap();
    assert_eq!(said["text"].as_str().unwrap().split_whitespace().last(), Some("1"), "{said}");
    // Landlock confines signals since Linux 6.12.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    if keeps_files() && (numbers.next(), numbers.next()) >= (Some(6), Some(12)) {
        assert!(
            !place.does(&format!("kill -0 {}", std::process::id()), &ConfinementRules::default()).await,
            "we are ours"
        );
        assert!(place.does("kill -0 $$", &ConfinementRules::default()).await);
    }
    // The device process itself is not restricted.
    assert!(fs::read_to_string("/proc/self/status").unwrap().contains("NoNewPrivs:\t0"));
    assert_eq!(fs::read_to_string(place.at("home/device/keys.db")).unwrap(), "words");
}

#[tokio::test]
async fn confined_program_has_network_only_if_allowed_and_unix_sockets_never() {
    let place = TestHomeDirectory::new();
    if !confinement().network {
        return assert!(confinement().to_string().contains("no Landlock") || keeps_files());
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (to_tcp, to_udp) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let lines = [
        format!("echo hello > /dev/tcp/127.0.0.1/{to_tcp}"),
        format!("echo hello > /dev/udp/127.0.0.1/{to_udp}"),
        "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'".to_owned(),
    ];
    let network = ConfinementRules { network: true, ..ConfinementRules::default() };
    for line in &lines {
        assert!(!place.does(line, &ConfinementRules::default()).await, "no rule allows it: {line}");
        assert!(place.does(line, &network).await, "it was allowed: {line}");
    }
    // Services could act for the program, so their Unix sockets are never reachable.
    let socket = place.at("home/notes/bus");
    let _service = UnixListener::bind(&socket).unwrap();
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let connect = format!("python3 -c '{connect}' {}", socket.display());
    let everything =
        ConfinementRules { write: vec![place.at("home/notes")], network: true, ..ConfinementRules::default() };
    for reach in [&ConfinementRules::default(), &network, &everything] {
        assert!(!place.does(&connect, reach).await, "{reach:?}");
    }
    assert!(place.does("python3 -c 'import socket; socket.socketpair()'", &ConfinementRules::default()).await);
    assert!(std::process::Command::new("bash").args(["-c", &connect]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_confined_programs_do_not_share_permissions() {
    let place = TestHomeDirectory::new();
    if !keeps_files() {
        return;
    }
    let line = format!("cat {}", place.at("home/notes/n.md").display());
    let allowed = reading(&place.at("home/notes"));
    let (nothing, line) = (ConfinementRules::default(), line.as_str());
    for _ in 0..8 {
        let tried = tokio::join!(
            place.does(line, &allowed),
            place.does(line, &nothing),
            place.does(line, &allowed),
            place.does(line, &nothing),
        );
        assert_eq!(tried, (true, false, true, false));
    }
}
