//! Address of a PostgreSQL database: `postgres://user@host/database?sslmode=verify-full`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nuncio_core::opaque_debug;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// Parameters that `tokio-postgres` does not know or does not interpret as PostgreSQL's own clients do.
const OWN_PARAMETERS: [&str; 3] = ["sslmode", "sslrootcert", "passfile"];

/// Address of a database, with the password from where it was found.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) tls: TlsMode,
    /// File with the certificates of authorities; those of the system if there is none.
    pub(super) authorities: Option<PathBuf>,
}

opaque_debug!(PostgresAddress);

/// Whether the connection is encrypted. If it is, the server's certificate is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsMode {
    Off,
    /// Checks the certificate but not its host name.
    VerifyCa,
    VerifyFull,
}

impl PostgresAddress {
    /// Whether a store address names PostgreSQL rather than a folder.
    #[must_use]
    pub fn is_url(address: &str) -> bool {
        address.starts_with("postgres://") || address.starts_with("postgresql://")
    }

    /// Parses a URL. The password comes from the URL, or else from `PGPASSWORD`, or else from the file that `passfile`
    /// or `PGPASSFILE` names, or else from `~/.pgpass`.
    ///
    /// # Errors
    /// The URL is not usable; the text says why, without the password.
    pub fn parse(url: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        if !Self::is_url(url) {
            return Err("a store address begins with postgres://".to_owned());
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs: Vec<(&str, &str)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        let rest: Vec<_> = pairs.iter().filter(|(name, _)| !OWN_PARAMETERS.contains(name)).collect();
        let rest: Vec<_> = rest.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut config: Config = match rest.is_empty() {
            true => base.parse(),
            false => format!("{base}?{}", rest.join("&")).parse(),
        }
        .map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("the address of the PostgreSQL database is wrong: {cause}")
        })?;
        let own = |wanted: &str| {
            let found = pairs.iter().rev().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| decoded(value)).filter(|value| !value.is_empty())
        };
        if config.get_hosts().is_empty() {
            return Err("the address of the PostgreSQL database names no host".to_owned());
        }
        if config.get_user().is_none() {
            return Err(
                "the address of the PostgreSQL database names no user: postgres://USER@HOST/DATABASE".to_owned()
            );
        }
        let tls = tls_mode(own("sslmode").as_deref(), &config)?;
        config
            .ssl_mode(if tls == TlsMode::Off { SslMode::Disable } else { SslMode::Require })
            .application_name("nuncio")
            .connect_timeout(Duration::from_secs(5))
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        // Of several hosts, the one that can write; with a single host the later check has the clearer message.
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_password().is_none()
            && let Some(password) = password(&config, own("passfile"), environment)?
        {
            config.password(password);
        }
        Ok(Self { config, tls, authorities: own("sslrootcert").map(PathBuf::from) })
    }
}

/// The address without its password.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (position, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let port = ports.get(position).or(ports.first()).copied().unwrap_or(5432);
            write!(f, "{comma}{}:{port}", host_name(host))?;
        }
        write!(f, "/{}", database(&self.config))
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}

fn database(config: &Config) -> &str {
    config.get_dbname().or(config.get_user()).unwrap_or_default()
}

/// Whether a connection to the host does not leave this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn tls_mode(sslmode: Option<&str>, config: &Config) -> Result<TlsMode, String> {
    let is_local = config.get_hosts().iter().all(is_local);
    match sslmode {
        Some("disable") => Ok(TlsMode::Off),
        Some("verify-ca") => Ok(TlsMode::VerifyCa),
        Some("verify-full" | "require") => Ok(TlsMode::VerifyFull),
        None | Some("prefer" | "allow") if is_local => Ok(TlsMode::Off),
        None | Some("prefer" | "allow") => Ok(TlsMode::VerifyFull),
        Some(other) => Err(format!("sslmode={other} is not known; use disable, require, verify-ca or verify-full")),
    }
}

fn password(
    config: &Config,
    passfile: Option<String>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    let named = |name: &str| environment(name).filter(|value| !value.is_empty());
    if let Some(password) = named("PGPASSWORD") {
        return Ok(Some(password));
    }
    let explicit = passfile.or_else(|| named("PGPASSFILE")).map(PathBuf::from);
    let file = explicit.clone().or_else(|| named("HOME").map(|home| Path::new(&home).join(".pgpass")));
    let Some(file) = file else { return Ok(None) };
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            check_private(&file)?;
            Ok(password_in(&text, config))
        }
        Err(error) if explicit.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("the password file {} cannot be read: {error}", file.display())),
    }
}

fn check_private(file: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
        if mode & 0o077 != 0 {
            return Err(format!(
                "the password file {0} can be read by other users; run: chmod 600 {0}",
                file.display()
            ));
        }
    }
    Ok(())
}

/// The password of the first matching line `host:port:database:user:password`. A backslash escapes the next character.
fn password_in(text: &str, config: &Config) -> Option<String> {
    let host = config.get_hosts().first().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    })?;
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let wanted = [host.as_str(), port.as_str(), database(config), config.get_user().unwrap_or_default()];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, keys) = fields.split_last().filter(|(_, keys)| keys.len() == wanted.len())?;
        let matches = keys.iter().zip(wanted).all(|(key, wanted)| key == "*" || key == wanted);
        matches.then(|| password.clone())
    })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        // A password may contain colons.
        if character == ':' && fields.len() < 5 {
            fields.push(String::new());
        } else if let Some(field) = fields.last_mut() {
            match character {
                '\\' => field.extend(characters.next()),
                other => field.push(other),
            }
        }
    }
    fields
}

fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
