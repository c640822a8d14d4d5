#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io::Write as _;

use super::*;

fn parse(url: &str) -> Result<PostgresAddress, String> {
    PostgresAddress::parse(url, |_| None)
}

fn password_of(address: &PostgresAddress) -> Option<&str> {
    address.config.get_password().map(|password| std::str::from_utf8(password).unwrap())
}

#[test]
fn remote_server_is_always_verified_and_local_server_needs_no_tls() {
    let modes = [
        ("postgres://u@db.example/n", TlsMode::VerifyFull),
        ("postgres://u@db.example/n?sslmode=prefer", TlsMode::VerifyFull),
        ("postgres://u@db.example/n?sslmode=require", TlsMode::VerifyFull),
        ("postgres://u@db.example/n?sslmode=verify-ca", TlsMode::VerifyCa),
        ("postgres://u@db.example/n?sslmode=disable", TlsMode::Off),
        ("postgres://u@127.0.0.1/n", TlsMode::Off),
        ("postgres://u@127.0.0.1,db.example/n", TlsMode::VerifyFull),
        ("postgres://u@localhost/n?sslmode=verify-full", TlsMode::VerifyFull),
    ];
    for (url, mode) in modes {
        assert_eq!(parse(url).unwrap().tls, mode, "{url}");
    }
}

#[test]
fn wrong_addresses_are_refused_with_a_reason_and_without_the_password() {
    let wrong = [
        ("mysql://u@h/n", "begins with postgres://"),
        ("postgres://h/n", "names no user"),
        ("postgres:///n", "names no host"),
        ("postgres://u:secret@h/n?sslmode=loose", "sslmode=loose is not known"),
        ("postgres://u:secret@h/n?colour=red", "colour"),
        ("postgres://u:secret@h:port/n", "wrong"),
    ];
    for (url, reason) in wrong {
        let error = parse(url).unwrap_err();
        assert!(error.contains(reason) && !error.contains("secret"), "{url}: {error}");
    }
}

#[test]
fn shown_address_has_no_password() {
    let address = parse("postgres://u:secret@h:5433/n?sslmode=disable").unwrap();
    assert_eq!(address.to_string(), "postgres://u@h:5433/n");
    assert!(!format!("{address:?}").contains("secret"));
}

#[test]
fn password_comes_from_the_url_then_the_environment_then_a_password_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let text = "# comment\nother:*:*:*:wrong\nh:5432:n:u:with\\:colon:and more\n*:*:*:*:last\n";
    options.open(&file).unwrap().write_all(text.as_bytes()).unwrap();
    let environment = |with_password: bool| {
        let file = file.display().to_string();
        move |name: &str| match name {
            "PGPASSWORD" if with_password => Some("environment".to_owned()),
            "PGPASSFILE" => Some(file.clone()),
            _ => None,
        }
    };
    let of = |url: &str, with_password| {
        let address = PostgresAddress::parse(url, environment(with_password)).unwrap();
        password_of(&address).map(str::to_owned)
    };
    assert_eq!(of("postgres://u:url@h/n", true).as_deref(), Some("url"));
    assert_eq!(of("postgres://u@h/n", true).as_deref(), Some("environment"));
    assert_eq!(of("postgres://u@h/n", false).as_deref(), Some("with:colon:and more"));
    assert_eq!(of("postgres://u@h:5433/n", false).as_deref(), Some("last"));
}

#[cfg(unix)]
#[test]
fn password_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    std::fs::write(&file, "*:*:*:*:secret\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let url = format!("postgres://u@h/n?passfile={}", file.display());
    let error = parse(&url).unwrap_err();
    assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
}
