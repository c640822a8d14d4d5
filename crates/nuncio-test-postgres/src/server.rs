//! A PostgreSQL server of one test or of one test run.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use tempfile::TempDir;

use crate::database::query;

/// Folder of PostgreSQL's programs on Debian, below which each version has one.
const DEBIAN_PROGRAMS: &str = "/usr/lib/postgresql";

/// Folder with the programs of an installed PostgreSQL, the newest version first.
#[must_use]
pub fn installed_programs() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN_PROGRAMS).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, programs)| programs.join("initdb").exists())
        .collect();
    versions.sort();
    let of_path = || {
        let folders = env::var_os("PATH")?;
        env::split_paths(&folders).find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
    };
    versions.pop().map(|(_, programs)| programs).or_else(of_path)
}

/// A server in a temporary folder. It is stopped when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
}

impl PostgresServer {
    /// Creates a server with an empty data folder and starts it.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Like [`PostgresServer::start`], with more options of the server, such as `-c fsync=off`.
    #[must_use]
    pub fn start_with(options: &str) -> Self {
        let programs = installed_programs().expect("PostgreSQL is not installed; `cargo xtask test` installs it");
        let folder = tempfile::tempdir().unwrap();
        // The server's user must be able to enter the folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
        }
        let mut server = Self { folder, programs, port: 0 };
        server.create_data();
        // Another process may take the port before the server does.
        for _ in 0..5 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if server.start_process(options) {
                return server;
            }
        }
        let log = fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
        panic!("PostgreSQL did not start:\n{log}");
    }

    /// Like [`PostgresServer::start`], for encrypted connections too, with a certificate and a key in PEM.
    #[must_use]
    pub fn start_with_certificate(certificate: &str, key: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let write = |name: &str, text: &str| {
            let file = files.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            if is_root() {
                assert!(Command::new("chown").arg("postgres").arg(&file).status().unwrap().success());
            }
            file.display().to_string()
        };
        let (certificate, key) = (write("server.pem", certificate), write("server.key", key));
        // The server reads the files when it starts.
        Self::start_with(&format!("-c ssl=on -c ssl_cert_file={certificate} -c ssl_key_file={key}"))
    }

    fn create_data(&self) {
        let data = self.data();
        let arguments = ["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "--no-sync", "-D"];
        let created = self.run("initdb", arguments.iter().map(OsStr::new).chain([data.as_os_str()]));
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    }

    fn start_process(&self, options: &str) -> bool {
        let (folder, port) = (self.folder.path().display(), self.port);
        let options = format!("-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=300 {options}");
        self.control(&["-l", &format!("{folder}/log"), "-o", &options, "start"])
    }

    /// Starts the server again after [`PostgresServer::stop`].
    pub fn start_again(&self) {
        assert!(self.start_process(""), "PostgreSQL did not start again");
    }

    /// Stops the server in a mode of `pg_ctl`: `immediate` is a crash, `fast` ends all connections.
    pub fn stop(&self, mode: &str) {
        assert!(self.control(&["-m", mode, "stop"]), "PostgreSQL did not stop");
    }

    /// URL of a database of this server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_at("127.0.0.1", database)
    }

    /// Like [`PostgresServer::url`], with another name of this machine.
    #[must_use]
    pub fn url_at(&self, host: &str, database: &str) -> String {
        format!("postgres://postgres@{host}:{}/{database}", self.port)
    }

    /// Runs SQL in a database of this server and returns its output, one line per row.
    #[must_use]
    pub fn query(&self, database: &str, sql: &str) -> String {
        query(&self.url(database), sql)
    }

    /// Id of the process whose children serve the connections.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        text.lines().next().and_then(|line| line.parse().ok()).expect("the first line is the process id")
    }

    /// The server's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn control(&self, arguments: &[&str]) -> bool {
        let data = self.data();
        let arguments =
            ["-w", "-D"].iter().map(OsStr::new).chain([data.as_os_str()]).chain(arguments.iter().map(OsStr::new));
        self.run("pg_ctl", arguments).status.success()
    }

    fn run<'a>(&self, program: &str, arguments: impl Iterator<Item = &'a OsStr>) -> Output {
        let program = self.programs.join(program);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        // The server keeps what it inherits, so it inherits no pipe that a test runner waits for.
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("control")).unwrap();
        command
            .args(arguments)
            .current_dir(Path::new("/"))
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .output()
            .unwrap()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.control(&["-m", "immediate", "stop"]);
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
