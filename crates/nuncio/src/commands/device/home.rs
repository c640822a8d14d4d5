//! The folder of a device and its contents: keys, scopes, tools and settings.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::ids::{ScopeId, ToolName};
use nuncio_core::manifest::ScopePresets;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::prompt::PermissionPrompt;
use nuncio_device::tools::{
    ClipboardTool, DesktopEnvironment, DesktopNotificationTool, FixedLocationTool, GeoClueLocationTool, LocalTools,
    SharedFolders, ToolsFolder,
};
use nuncio_device::{Device, DeviceDependencies};
use nuncio_server::fetch::{AllowedAddresses, install_crypto};
use nuncio_server::{SystemClock, SystemEntropy};

use super::storage::RECORDS;
use super::{device_error, mcp, storage};
use crate::cli::DeviceHomeOptions;
use crate::commands::consumer::guarded_fetch;
use crate::output::{WrongUsageError, fault, shell_quote, wrong_usage};

pub(super) fn folder_of(home: &DeviceHomeOptions) -> anyhow::Result<PathBuf> {
    let default = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".nuncio-device"));
    let folder = home.path.clone().or_else(default);
    folder.ok_or_else(|| wrong_usage("name the device's folder with --home"))
}

/// Creates the device folder if it does not exist; only its owner may read it.
pub(super) fn prepare_folder(home: &DeviceHomeOptions) -> anyhow::Result<PathBuf> {
    let folder = folder_of(home)?;
    let unusable =
        |why: &dyn std::fmt::Display| fault(ErrorCode::DataDirUnusable, format!("{}: {why}", folder.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|why| unusable(&why))?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).map_err(|why| unusable(&why))?;
    Ok(folder)
}

pub(super) async fn config(
    home: &DeviceHomeOptions,
    tools: LocalTools,
    prompt: Arc<dyn PermissionPrompt>,
) -> anyhow::Result<DeviceDependencies> {
    install_crypto();
    let folder = prepare_folder(home)?;
    let key_store = storage::open_records(home, &folder).await?;
    let fetch = Arc::new(guarded_fetch(AllowedAddresses::default(), false, home.extra_ca.as_deref())?);
    Ok(DeviceDependencies {
        key_store: Arc::new(key_store),
        fetch: Arc::clone(&fetch) as _,
        dial: fetch,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        presets: Arc::new(presets(&folder)?),
        floors: SensitivityFloors::new(),
        tools,
        prompt,
    })
}

/// The preset scopes with the additions of an administrator: `scopes.toml` may raise sensitivities, never lower them.
fn presets(folder: &Path) -> anyhow::Result<ScopePresets> {
    let mut presets = ScopePresets::default();
    if let Some(text) = text_of(&folder.join("scopes.toml"))? {
        presets.extend_toml(&text).map_err(|why| config_error(&folder.join("scopes.toml"), &why))?;
    }
    Ok(presets)
}

pub(super) fn opened(home: &DeviceHomeOptions, config: DeviceDependencies) -> anyhow::Result<Device> {
    match Device::open(config).map_err(device_error)? {
        Some(device) => Ok(device),
        None => Err(no_device(home)),
    }
}

/// Refuses a folder in which no device was ever set up, before anything is created there.
pub(super) fn require_device(home: &DeviceHomeOptions) -> anyhow::Result<()> {
    match folder_of(home)?.join(RECORDS).try_exists() {
        Ok(false) => Err(no_device(home)),
        _ => Ok(()),
    }
}

fn no_device(home: &DeviceHomeOptions) -> anyhow::Error {
    let folder = folder_of(home).unwrap_or_default();
    let message = format!(
        "there is no device in {} yet; join with the link of your invite, `nuncio device join LINK{}`, or name another folder with --home",
        folder.display(),
        home_flag(home)
    );
    fault(ErrorCode::DataDirUnusable, message)
}

/// The option that names the device's folder in suggested commands, after a space; empty for the default folder.
pub(super) fn home_flag(home: &DeviceHomeOptions) -> String {
    let flag = home.path.as_ref().map(|path| format!(" --home {}", shell_quote(&path.display().to_string())));
    flag.unwrap_or_default()
}

pub(super) fn tools_of(home: &Path, folders: Vec<PathBuf>) -> anyhow::Result<LocalTools> {
    let scope = |text: &str| ScopeId::parse(text).map_err(|why| fault(ErrorCode::Internal, why.to_string()));
    let desktop = DesktopEnvironment::here();
    let mut tools = LocalTools::default()
        .under(scope("clipboard:read")?, Arc::new(ClipboardTool(desktop.clone())))
        .under(scope("notification:send")?, Arc::new(DesktopNotificationTool(desktop.clone())));
    if !folders.is_empty() {
        folders.iter().try_for_each(|folder| check_folder(folder, home))?;
        let folders = SharedFolders::new(folders).map_err(|why| WrongUsageError(format!("--folder: {why}")))?;
        tools = tools.under(scope("filesystem:read")?, Arc::new(folders));
    }
    let location_file = home.join("place.toml");
    tools = match text_of(&location_file)? {
        Some(text) => {
            let location: FixedLocationTool =
                toml::from_str(&text).map_err(|why| config_error(&location_file, &why))?;
            tools.under(scope("location:read")?, Arc::new(location))
        }
        None => tools.under(scope("location:read")?, Arc::new(GeoClueLocationTool(desktop))),
    };
    let folder = home.join("tools");
    let user = std::env::var_os("HOME").map(PathBuf::from);
    let tools_folder = ToolsFolder { folder: std::path::absolute(&folder)?, home: home.to_owned(), user };
    for (path, text) in files(&folder)? {
        let own = tools_folder.read(&text).map_err(|why| config_error(&path, &why))?;
        if tools.has(&own.name) {
            return Err(config_error(&path, &format!("`name`: another file has a tool {} already", own.name)));
        }
        tools = tools.named(own.name, own.scope, Arc::new(own.program));
    }
    mcp::add(home, tools)
}

/// Whether a tool reads files for agents: the device's own, with a shared folder, or one of the person's.
pub(super) fn shares_folder(tools: &LocalTools) -> anyhow::Result<bool> {
    let internal = |why: String| fault(ErrorCode::Internal, why);
    let scope = ScopeId::parse("filesystem:read").map_err(|why| internal(why.to_string()))?;
    let tool = ToolName::parse("read_file").map_err(|why| internal(why.to_string()))?;
    Ok(tools.find(&tool, &scope).is_some())
}

/// Refuses to give agents a folder that contains the device's keys or is the device's own.
fn check_folder(folder: &Path, home: &Path) -> anyhow::Result<()> {
    let key_file = storage::key_file(home).and_then(|file| file.canonicalize().ok());
    let (Ok(real), Ok(home)) = (folder.canonicalize(), home.canonicalize()) else { return Ok(()) };
    let holds_key = key_file.is_some_and(|file| file.starts_with(&real));
    if !holds_key && !home.starts_with(&real) && !real.starts_with(&home) {
        return Ok(());
    }
    let message = "holds this device's own keys: open folders beside them, or move the device with --home";
    Err(wrong_usage(format!("--folder: {} {message}", folder.display())))
}

/// The `.toml` files in a folder, with their texts, sorted by name; none if the folder does not exist.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(config_error(folder, &error)),
    };
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: PathBuf| Ok(text_of(&path)?.map(|text| (path, text)));
    paths.into_iter().filter_map(|path| read(path).transpose()).collect()
}

pub(super) fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(config_error(path, &error)),
    }
}

pub(super) fn config_error(path: &Path, why: &dyn std::fmt::Display) -> anyhow::Error {
    fault(ErrorCode::ConfigInvalid, format!("{}: {why}", path.display()))
}
