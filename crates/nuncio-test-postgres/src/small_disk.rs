//! A small file system in memory, which a test fills.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::server::is_root;

/// A mounted file system with a folder for a tablespace. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts a file system of this size; `None` if this process may not mount.
    #[must_use]
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=0755"), "tmpfs"]).arg(folder.path());
        if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return None;
        }
        // The parent folder must let the server's user in.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let disk = Self { folder };
        fs::create_dir(disk.tablespace()).unwrap();
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(disk.tablespace()).status().unwrap().success());
        }
        Some(disk)
    }

    /// Folder for a tablespace.
    #[must_use]
    pub fn tablespace(&self) -> PathBuf {
        self.folder.path().join("tablespace")
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }

    /// Writes until no space is left.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        let (mut size, block) = (64 * 1024, vec![0; 64 * 1024]);
        while size > 0 {
            if file.write_all(&block[..size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Removes what [`SmallDisk::fill`] wrote.
    pub fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a server that is being stopped may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}
