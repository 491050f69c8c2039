//! The copy of the machine: every folder an overlay whose changes lie in memory, in namespaces of its own.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, getgid, getuid, pivot_root};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::names;

/// Where the copy is put together; a folder that the copy does not have.
const ROOT: &str = "/sys";
/// The folder of stand-ins in the copy.
pub(crate) const OWN: &str = "/.debubble";
/// What a bash does first in the copy.
const BEGIN: &str = include_str!("begin.sh");
/// The module `torch` of Python there.
const TORCH: &str = include_str!("torch.py");
/// Folders that are made anew or left empty.
const NOT_COPIED: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Files and folders of the home folder that have secrets: empty in the copy.
const SECRETS: [&str; 14] = [
    ".ssh",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".gnupg",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".config/rclone",
    ".cache/huggingface/token",
    ".huggingface/token",
];
/// Folders besides those of PATH in which launchers lie.
const PLACES: [&str; 3] = ["~/.local/bin", "/opt/conda/bin", "/usr/local/cuda/bin"];
/// The largest file beside a mounted one that can be changed in the copy.
const SMALL: u64 = 1 << 20;

/// Goes into namespaces of its own, as the same user with all rights within.
pub(crate) fn enter() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare(
        CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWCGROUP,
    )?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    // Rights go through the start of a program only as these.
    let mut sets = capabilities(None)?;
    sets.inheritable = sets.permitted;
    set_capabilities(None, sets)?;
    for right in sets.permitted.iter() {
        configure_capability_in_ambient_set(right, true)?;
    }
    Ok(())
}

/// Makes the copy and goes into it, in namespaces of its own.
pub(crate) fn make(home: &Path) -> io::Result<UnixListener> {
    let program = std::env::current_exe()?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let mounted = mounted()?;
    memory(ROOT, "mode=755,size=256m")?;
    let root = Path::new(ROOT).join("root");
    fs::create_dir(&root)?;
    mount_bind(&root, &root)?;
    let mut copy = Copy { root: &root, mounted: &mounted, overlays: 0 };
    for entry in fs::read_dir("/")? {
        // What cannot be copied is not there.
        let _ = copy.place(&entry?.path());
    }
    copy.system()?;
    copy.hide(home)?;
    let listener = copy.stand_ins(&program)?;
    chdir(&root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    Ok(listener)
}

/// Points at which something is mounted.
fn mounted() -> io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mounts")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(points.map(|point| point.replace("\\040", " ").into()).collect())
}

/// Mounts an empty folder in memory.
fn memory(at: impl AsRef<Path>, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("none", at.as_ref(), "tmpfs", flags, options.as_c_str())?)
}

/// Binds `from` to `to`, not to be written.
fn bind_read_only(from: &Path, to: &Path) -> io::Result<()> {
    mount_bind(from, to)?;
    read_only(to).inspect_err(|_| {
        // Bound to be written it must not stay.
        let _ = unmount(to, UnmountFlags::DETACH);
    })
}

/// Forbids to write into what is mounted at `point`.
fn read_only(point: &Path) -> io::Result<()> {
    let own = statvfs(point)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(is, _)| own.contains(*is)).map(|(_, flag)| flag);
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount(point, kept.fold(flags, |all, flag| all | flag), "")?)
}

/// The copy, as far as it is made.
struct Copy<'a> {
    root: &'a Path,
    mounted: &'a [PathBuf],
    overlays: usize,
}

impl Copy<'_> {
    /// Where `path` of the machine lies while the copy is made.
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
    }

    /// Copies the folder, link or file `path`. The kernel makes no overlay of a folder in which others are mounted:
    /// it is put together of its entries.
    fn place(&mut self, path: &Path) -> io::Result<()> {
        let (at, about) = (self.at(path), fs::symlink_metadata(path)?);
        if about.is_symlink() {
            return symlink(fs::read_link(path)?, at);
        }
        if about.is_file() {
            File::create(&at)?;
            return match about.len() <= SMALL {
                true => fs::copy(path, at).map(|_| ()),
                false => bind_read_only(path, &at),
            };
        }
        if !about.is_dir() {
            return Ok(());
        }
        fs::create_dir(&at)?;
        if NOT_COPIED.iter().any(|own| path == Path::new(own)) {
            return Ok(());
        }
        if self.mounted.iter().any(|point| point != path && point.starts_with(path)) {
            for entry in fs::read_dir(path)? {
                let _ = self.place(&entry?.path());
            }
            return Ok(());
        }
        self.overlay(path, &at, about.permissions()).or_else(|_| bind_read_only(path, &at))
    }

    fn overlay(&mut self, path: &Path, at: &Path, permissions: Permissions) -> io::Result<()> {
        self.overlays += 1;
        let [upper, work] = ["upper", "work"].map(|kind| format!("{ROOT}/{kind}{}", self.overlays));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        fs::set_permissions(&upper, permissions)?;
        let text = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let lower = text.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
        let options = format!("userxattr,lowerdir={lower},upperdir={upper},workdir={work}");
        let options = CString::new(options)?;
        Ok(mount("overlay", at, "overlay", MountFlags::NOSUID, options.as_c_str())?)
    }

    /// Mounts processes, devices and `/run`.
    fn system(&self) -> io::Result<()> {
        let proc = self.at("/proc");
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", &proc, "proc", flags, None)?;
        // A script in namespaces of its own would have rights there.
        fs::write(proc.join("sys/user/max_user_namespaces"), "0")?;
        // The administrator may write the settings of the kernel in it.
        read_only(&proc)?;
        memory(self.at("/run"), "mode=755,size=16m")?;
        let dev = self.at("/dev");
        memory(&dev, "mode=755,size=64m")?;
        for name in DEVICES {
            let at = dev.join(name);
            File::create(&at)?;
            mount_bind(Path::new("/dev").join(name), &at)?;
        }
        for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            symlink(format!("/proc/self/fd{to}"), dev.join(name))?;
        }
        fs::create_dir(dev.join("shm"))?;
        fs::set_permissions(dev.join("shm"), Permissions::from_mode(0o1777))
    }

    /// Puts something empty in the place of what has secrets in the folder `home`.
    fn hide(&self, home: &Path) -> io::Result<()> {
        for name in SECRETS {
            let at = self.at(home.join(name));
            match fs::metadata(&at) {
                Ok(about) if about.is_dir() => memory(&at, "mode=755,size=1m")?,
                Ok(_) => mount_bind("/dev/null", &at)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Makes the folder of stand-ins, covers real launchers by them, and listens for records.
    fn stand_ins(&self, program: &Path) -> io::Result<UnixListener> {
        let own = self.at(OWN);
        fs::create_dir(&own)?;
        memory(&own, "mode=755,size=16m")?;
        for folder in ["bin", "real", "path", "python"] {
            fs::create_dir(own.join(folder))?;
        }
        fs::write(own.join("begin"), BEGIN)?;
        fs::write(own.join("python/torch.py"), TORCH)?;
        let stand_in = own.join("stand-in");
        File::create(&stand_in)?;
        bind_read_only(program, &stand_in)?;
        for (name, _) in names::all() {
            symlink("../stand-in", own.join("bin").join(name))?;
        }
        let listener = UnixListener::bind(own.join("socket"))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::var("HOME").unwrap_or_default();
        let places = PLACES.map(|place| PathBuf::from(place.replace('~', &home)));
        let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(places).collect();
        for (name, _) in names::all() {
            for folder in folders.iter().filter(|folder| folder.is_absolute()) {
                let _ = self.cover(&folder.join(name), name, &stand_in);
            }
        }
        read_only(&own)?;
        Ok(listener)
    }

    /// Covers the program `path` called `name` by the stand-in, in the copy; the first of that name stays at hand.
    fn cover(&self, path: &Path, name: &str, stand_in: &Path) -> io::Result<()> {
        let real = fs::canonicalize(path)?;
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let file = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // One program under many names, such as busybox, is not a launcher.
        if !file.starts_with(stem) || real.starts_with(OWN) {
            return Ok(());
        }
        let own = self.at(OWN);
        let at_hand = own.join("real").join(name);
        if !at_hand.exists() {
            File::create(&at_hand)?;
            bind_read_only(&real, &at_hand)?;
            symlink(path, own.join("path").join(name))?;
        }
        Ok(mount_bind(stand_in, self.at(real))?)
    }
}

/// Gives up all rights for good.
pub(crate) fn give_up() -> io::Result<()> {
    for number in 0..64 {
        // The kernel has fewer.
        let right = CapabilitySet::from_bits_retain(1 << number);
        let _ = rustix::thread::remove_capability_from_bounding_set(right);
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets =
        rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}
