//! The flags of `nuncio device`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use url::Url;

/// Where a device lives.
#[derive(Debug, Args)]
pub(crate) struct DeviceHome {
    /// The device's folder [default: ~/.nuncio-device]
    #[arg(long = "home", value_name = "DIR", env = "NUNCIO_DEVICE")]
    pub(crate) path: Option<PathBuf>,
    /// Believe these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
    /// The file with the key of the stored data, if it was moved
    #[arg(long, value_name = "FILE", env = "NUNCIO_DEVICE_STORAGE_KEY")]
    pub(crate) storage_key: Option<PathBuf>,
    /// Read the passphrase of the stored data from a file's first line, rather than here
    #[arg(long = "storage-passphrase-file", value_name = "FILE", env = "NUNCIO_DEVICE_STORAGE_PASSPHRASE_FILE")]
    pub(crate) storage_passphrase: Option<PathBuf>,
}

/// Where the key comes from that seals the stored data of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageSource {
    /// The system's keyring (Secret Service)
    Keyring,
    /// A passphrase, asked for whenever the device is opened
    Passphrase,
    /// A file of its own
    File,
}

/// Where a passphrase comes from.
#[derive(Debug, Args)]
pub(crate) struct PassphraseFrom {
    /// Read the passphrase from a file's first line, rather than here
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceSubcommand {
    /// Make this machine a device of yours, with the code of an invite
    #[command(alias = "join")]
    Enrol {
        /// The server that invited you
        url: Url,
        /// The code
        code: String,
        /// The fingerprint of the server's key, as the invite names it
        #[arg(long, value_name = "KEY")]
        fingerprint: Option<String>,
        /// What you call this device
        #[arg(long, default_value = "laptop")]
        name: String,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Answer agents' calls, and ask before what is sensitive
    Run {
        /// Ask here, in the terminal
        #[arg(long, conflicts_with = "policy")]
        tty: bool,
        /// Let a file answer, on a machine that nobody sits at
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
        /// A folder whose files may be read by agents you allow that
        #[arg(long = "folder", value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Where on this machine its pages are [default: 7480, or any that is free]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        /// Serve no pages
        #[arg(long, conflicts_with = "port")]
        no_pages: bool,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// List the agents this device deals with
    #[command(alias = "grants")]
    Agents {
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Show what an agent asks for, and allow exactly what you name of it
    Allow {
        /// The agent
        agent: String,
        /// What to allow; nothing is allowed when none is named
        scopes: Vec<String>,
        /// Everything of little at stake too
        #[arg(long)]
        all_low: bool,
        /// For one call each
        #[arg(long, conflicts_with = "time")]
        once: bool,
        /// For so long, such as 30m, 12h or 3d
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Take everything back from an agent
    Revoke {
        /// The agent
        agent: String,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Prove and show what happened on this device
    Audit {
        /// Write it to a file, one entry a line
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Show the number that you and an agent's owner compare
    Verify {
        /// The agent
        agent: String,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Take an agent's changed keys for its own, having compared the number
    Accept {
        /// The agent
        agent: String,
        /// You have compared it: do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// List your devices
    Devices {
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Invite a further device of yours, for ten minutes
    Invite {
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Say that another device is yours too: what it signed counts here
    Trust {
        /// The other device
        device: String,
        /// You have compared its key: do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Take a lost device away: it speaks for you no more
    Remove {
        /// The lost device
        device: String,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Keep this device's keys at the server, under a passphrase
    Backup {
        /// Write them to a file too, to restore the device from
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        passphrase: PassphraseFrom,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Put a device back on this machine, from the file of its backup
    Restore {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        passphrase: PassphraseFrom,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Let the device you backed up vouch for this one, when you lost it
    Recover {
        #[command(flatten)]
        passphrase: PassphraseFrom,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Say a fresh link to the pages of the device that runs
    Open {
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Show or change where the key comes from that seals the stored data
    Storage {
        /// The new source; without it nothing is changed
        #[arg(value_enum)]
        source: Option<StorageSource>,
        /// With `file`: where to write the new key [default: beside the device's folder]
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        #[command(flatten)]
        passphrase: PassphraseFrom,
        #[command(flatten)]
        home: DeviceHome,
    },
    /// Say who this device is and what it can do
    Status {
        #[command(flatten)]
        home: DeviceHome,
    },
}
