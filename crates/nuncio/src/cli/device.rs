//! The flags of `nuncio device`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use url::Url;

/// Options that locate a device and its storage key.
#[derive(Debug, Args)]
pub(crate) struct DeviceHomeOptions {
    /// Folder of the device [default: ~/.nuncio-device]
    #[arg(long = "home", value_name = "DIR", env = "NUNCIO_DEVICE", global = true)]
    pub(crate) path: Option<PathBuf>,
    /// Trust these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA", global = true)]
    pub(crate) extra_ca: Option<PathBuf>,
    /// File with the storage key, if it was moved
    #[arg(long, value_name = "FILE", env = "NUNCIO_DEVICE_STORAGE_KEY", global = true)]
    pub(crate) storage_key: Option<PathBuf>,
    /// Read the storage passphrase from the first line of this file instead of asking for it
    #[arg(
        long = "storage-passphrase-file",
        value_name = "FILE",
        env = "NUNCIO_DEVICE_STORAGE_PASSPHRASE_FILE",
        global = true
    )]
    pub(crate) storage_passphrase: Option<PathBuf>,
}

/// The commands of a device.
#[derive(Debug, Args)]
pub(crate) struct DeviceArguments {
    #[command(subcommand)]
    pub(crate) command: DeviceSubcommand,
    #[command(flatten)]
    pub(crate) home: DeviceHomeOptions,
}

/// Source of the key that encrypts the stored data of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageKeySource {
    /// The system keyring (Secret Service)
    Keyring,
    /// A passphrase, asked for whenever the device is opened
    Passphrase,
    /// A separate file
    File,
}

/// Source of a passphrase.
#[derive(Debug, Args)]
pub(crate) struct PassphraseSource {
    /// Read the passphrase from the first line of this file instead of asking for it
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceSubcommand {
    /// Make this machine one of your devices with an invite link, answer calls and open its pages
    #[command(
        after_help = "Examples:\n  nuncio device join 'https://agents.example/join#inv_…'\n  nuncio device join 'https://agents.example/join#inv_…' --folder ~/notes"
    )]
    Join {
        /// Invite link
        link: String,
        /// Invite code, if the link is only the URL of the server, as for `enrol`
        #[arg(hide = true)]
        code: Option<String>,
        #[arg(long, value_name = "KEY", hide = true, requires = "code")]
        fingerprint: Option<String>,
        /// Name of this device
        #[arg(long, default_value = "laptop")]
        name: String,
        /// Folder whose files agents may read if you allow it, while the device runs
        #[arg(long = "folder", value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Port of the device pages on this machine [default: 7480, or any free port]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        /// Print the link to the pages and open no browser
        #[arg(long)]
        no_open: bool,
        /// Only join; `nuncio device run` starts the device later and takes the --folder and --port that cannot be given
        /// here
        #[arg(long, conflicts_with_all = ["folders", "port", "no_open"])]
        no_run: bool,
    },
    /// Enrol this machine as one of your devices, with the values of an invite; `join` takes them from its link
    Enrol {
        /// URL of the server that invited you
        url: Url,
        /// Invite code
        code: String,
        /// Fingerprint of the server's key, as given in the invite
        #[arg(long, value_name = "KEY")]
        fingerprint: Option<String>,
        /// Name of this device
        #[arg(long, default_value = "laptop")]
        name: String,
    },
    /// Answer calls of agents, and ask you before sensitive ones
    Run {
        /// Ask in this terminal
        #[arg(long, conflicts_with = "policy")]
        tty: bool,
        /// Let a policy file answer, on a machine without a user
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
        /// Folder whose files agents may read if you allow it
        #[arg(long = "folder", value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Port of the device pages on this machine [default: 7480, or any free port]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        /// Serve no pages
        #[arg(long, conflicts_with = "port")]
        no_pages: bool,
        /// Accepted for both commands that start a device; `run` never opens a browser
        #[arg(long = "no-open", hide = true)]
        _no_open: bool,
    },
    /// List the agents that this device knows
    #[command(alias = "grants")]
    Agents,
    /// Show the permissions that an agent requests, and grant those you name
    Allow {
        /// Id of the agent
        agent: String,
        /// Scopes to grant; none are granted when omitted
        scopes: Vec<String>,
        /// Also grant all scopes of low sensitivity
        #[arg(long)]
        all_low: bool,
        /// Grant for one call each
        #[arg(long, conflicts_with = "time")]
        once: bool,
        /// Duration of the grant, such as 30m, 12h or 3d
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
    },
    /// Revoke all permissions of an agent
    Revoke {
        /// Id of the agent
        agent: String,
    },
    /// Verify and show the activity record of this device
    Audit {
        /// Write the record to a file, one entry per line
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
    },
    /// Show the safety number to compare with an agent's owner
    Verify {
        /// Id of the agent
        agent: String,
    },
    /// Accept an agent's changed keys after comparing the safety number
    Accept {
        /// Id of the agent
        agent: String,
        /// Do not ask, because you have compared the number
        #[arg(long)]
        yes: bool,
    },
    /// List your devices
    Devices,
    /// Create an invite for another device of yours, valid for ten minutes
    Invite,
    /// Confirm that another device is yours: its signatures then count on this device
    Trust {
        /// Id of the other device
        device: String,
        /// Do not ask, because you have compared its fingerprint
        #[arg(long)]
        yes: bool,
    },
    /// Remove a lost device, which then no longer acts for you
    Remove {
        /// Id of the lost device
        device: String,
    },
    /// Back up this device's keys at the server, encrypted with a passphrase
    Backup {
        /// Also write the backup to a file, from which the device can be restored
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        passphrase: PassphraseSource,
    },
    /// Restore a device on this machine from its backup file
    Restore {
        /// Backup file
        file: PathBuf,
        #[command(flatten)]
        passphrase: PassphraseSource,
    },
    /// Confirm this device with the backup of a device that you lost
    Recover {
        #[command(flatten)]
        passphrase: PassphraseSource,
    },
    /// Print a new link to the pages of the running device
    Open,
    /// Show or change the source of the key that encrypts the stored data
    Storage {
        /// The new source; nothing is changed when omitted
        #[arg(value_enum)]
        source: Option<StorageKeySource>,
        /// With `file`: where to write the new key [default: beside the device's folder]
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        #[command(flatten)]
        passphrase: PassphraseSource,
    },
    /// Show the identity and the tools of this device
    Status,
}
