//! Where journals are: `<directory>/<run id>/<rank>-<pid>.journal`. The default directory is below the system's temporary one,
//! which others can write to, so nothing here follows a link or takes over what somebody else made.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::JournalError;
use crate::model::Identity;

/// The place of a writer's journal. `number` tells several journals of one process apart (0 for the first).
#[must_use]
pub fn journal_path(directory: &Path, identity: &Identity, pid: u32, number: u32) -> PathBuf {
    let rank = identity.rank;
    let name = if number == 0 { format!("{rank}-{pid}.journal") } else { format!("{rank}-{pid}-{number}.journal") };
    directory.join(file_name(&identity.run_id)).join(name)
}

/// A run id as the name of a file: letters, digits, `.`, `_` and `-` stay, everything else becomes `%` and two hex digits, and no
/// name begins with a dot.
#[must_use]
pub fn file_name(run_id: &str) -> String {
    let mut name = String::with_capacity(run_id.len());
    for (place, byte) in run_id.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || (byte == b'.' && place > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    if name.is_empty() {
        // Without a name the file would stand one level up.
        name.push('%');
    }
    // File names end at 255 bytes on every system that matters.
    name.truncate(200);
    name
}

/// Makes the file for a new journal, `bytes` long, with all of its room reserved: a full disk is an error now, and not a crash of
/// the training when it first touches a page.
pub(crate) fn create(path: &Path, bytes: u64) -> Result<File, JournalError> {
    if let Some(run_directory) = path.parent() {
        if let Some(directory) = run_directory.parent() {
            private_directory(directory)?;
        }
        private_directory(run_directory)?;
    }
    let made = create_new(path).and_then(|file| match reserve(&file, bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    });
    made.map_err(|source| JournalError::Create { path: path.to_owned(), source })
}

/// Makes a directory that only its owner can use, or sees that it is one.
fn private_directory(path: &Path) -> Result<(), JournalError> {
    let refused = |reason: String| JournalError::Directory { path: path.to_owned(), reason };
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(path).or_else(|error| match error.kind() {
        // A directory that was asked for by name, several levels down.
        io::ErrorKind::NotFound => fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| builder.create(path)),
        _ => Err(error),
    });
    match made {
        Ok(()) => return Ok(()),
        // It was there, or another rank was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(error.to_string())),
    }
    let metadata = fs::symlink_metadata(path).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(refused("it is not a directory (a link is not followed)".to_owned()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let me = rustix::process::geteuid().as_raw();
        // The system's own shared directories (/tmp, /dev/shm) are root's and sticky: nobody can replace what we make in them.
        let shared_by_system = metadata.uid() == 0 && metadata.mode() & 0o1000 != 0;
        if metadata.uid() != me && !shared_by_system {
            return Err(refused(format!("it belongs to user {}, not to user {me}", metadata.uid())));
        }
        if metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
            return Err(refused(format!("others can write to it (mode {:03o})", metadata.mode() & 0o777)));
        }
    }
    Ok(())
}

fn create_new(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    }
    options.open(path)
}

/// Opens an existing journal for reading and for moving its tail.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without O_NONBLOCK a pipe in a journal's place would hang us.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    let refused = |reason: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if !metadata.is_file() {
        return refused("it is not a plain file".to_owned());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (me, owner) = (rustix::process::geteuid().as_raw(), metadata.uid());
        // Whoever owns a file can cut it short while it is mapped. Root reads the journals of all users of a node.
        if owner != me && me != 0 {
            return refused(format!("it belongs to user {owner}, not to user {me}"));
        }
    }
    Ok(file)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => return write_zeros(file, bytes),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    write_zeros(file, bytes)
}

/// For file systems that cannot reserve: what is written has room.
fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    use std::io::Write;
    let zeros = [0_u8; 65_536];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(zeros.len() as u64);
        file.write_all(&zeros[..part as usize])?;
        left -= part;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_become_harmless_file_names() {
        assert_eq!(file_name("wine-2026_1.a"), "wine-2026_1.a");
        assert_eq!(file_name("../etc/x"), "%2e.%2fetc%2fx");
        assert_eq!(file_name("a b"), "a%20b");
        assert_eq!(file_name(""), "%");
    }

    #[cfg(unix)]
    #[test]
    fn refuses_what_others_can_write_to_and_links() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir()?;
        let open = root.path().join("open");
        fs::create_dir(&open)?;
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777))?;
        let error = private_directory(&open).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("others can write to it") && error.contains("STEPLINE_JOURNAL_DIR"), "{error}");

        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link)?;
        assert!(private_directory(&link).is_err());
        Ok(())
    }
}
