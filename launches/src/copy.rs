//! The copy of the machine: every folder an overlay whose changes are in memory, in namespaces of its own.

use std::ffi::CString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
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
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::names;

/// Where changes are kept and the copy is put together; a folder that the copy does not have.
const CHANGES: &str = "/sys";
const ROOT: &str = "/sys/root";
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
const SECRETS: &str = ".ssh .aws .azure .kube .docker .gnupg .netrc .pgpass .git-credentials .config/gcloud .config/gh \
    .config/rclone .cache/huggingface/token .huggingface/token";
/// Folders besides those of PATH with launchers.
const PLACES: [&str; 3] = [".local/bin", "/opt/conda/bin", "/usr/local/cuda/bin"];
/// The largest file next to a mounted one that can be changed in the copy.
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
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mounted: Vec<PathBuf> = points.map(|own| own.replace("\\040", " ").into()).collect();
    memory(CHANGES, "mode=755,size=256m")?;
    fs::create_dir(ROOT)?;
    mount_bind(ROOT, ROOT)?;
    for entry in fs::read_dir("/")? {
        // What cannot be copied is not there.
        let _ = place(&entry?.path(), &mounted);
    }
    system()?;
    hide(home)?;
    let listener = stand_ins(&program, home)?;
    chdir(ROOT)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    Ok(listener)
}

/// Where `path` of the machine is while the copy is made.
fn at(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path))
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

/// Copies the folder, link or file `path`. The kernel makes no overlay of a folder in which others are `mounted`: it is
/// put together of its entries.
fn place(path: &Path, mounted: &[PathBuf]) -> io::Result<()> {
    let (at, about) = (at(path), fs::symlink_metadata(path)?);
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
    if mounted.iter().any(|point| point != path && point.starts_with(path)) {
        for entry in fs::read_dir(path)? {
            let _ = place(&entry?.path(), mounted);
        }
        return Ok(());
    }
    overlay(path, &at, &about).or_else(|_| bind_read_only(path, &at))
}

fn overlay(path: &Path, at: &Path, about: &Metadata) -> io::Result<()> {
    let own = format!("{CHANGES}/{}-{}", about.dev(), about.ino());
    let [upper, work] = ["upper", "work"].map(|kind| format!("{own}/{kind}"));
    fs::create_dir_all(&upper)?;
    fs::create_dir(&work)?;
    fs::set_permissions(&upper, about.permissions())?;
    let text = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    let lower = text.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    let options = format!("userxattr,lowerdir={lower},upperdir={upper},workdir={work}");
    let options = CString::new(options)?;
    Ok(mount("overlay", at, "overlay", MountFlags::NOSUID, options.as_c_str())?)
}

/// Mounts processes, devices and `/run`.
fn system() -> io::Result<()> {
    let (proc, dev) = (at("/proc"), at("/dev"));
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None)?;
    // A script in namespaces of its own would have rights there.
    fs::write(proc.join("sys/user/max_user_namespaces"), "0")?;
    // The administrator may write the settings of the kernel in it.
    read_only(&proc)?;
    memory(at("/run"), "mode=755,size=16m")?;
    memory(&dev, "mode=755,size=64m")?;
    for name in DEVICES {
        File::create(dev.join(name))?;
        mount_bind(Path::new("/dev").join(name), dev.join(name))?;
    }
    for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{to}"), dev.join(name))?;
    }
    fs::create_dir(dev.join("shm"))?;
    fs::set_permissions(dev.join("shm"), Permissions::from_mode(0o1777))
}

/// Puts something empty in the place of what has secrets in the folder `home`.
fn hide(home: &Path) -> io::Result<()> {
    for name in SECRETS.split_whitespace() {
        let at = at(home.join(name));
        match fs::metadata(&at) {
            Ok(about) if about.is_dir() => memory(&at, "mode=755,size=1m")?,
            Ok(_) => mount_bind("/dev/null", &at)?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// Makes the folder of stand-ins, covers real launchers by them, and listens for records.
fn stand_ins(program: &Path, home: &Path) -> io::Result<UnixListener> {
    let own = at(OWN);
    fs::create_dir(&own)?;
    memory(&own, "mode=755,size=16m")?;
    for folder in ["bin", "real", "path", "python"] {
        fs::create_dir(own.join(folder))?;
    }
    fs::write(own.join("begin"), BEGIN)?;
    fs::write(own.join("python/torch.py"), TORCH)?;
    File::create(own.join("stand-in"))?;
    bind_read_only(program, &own.join("stand-in"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(PLACES.map(|place| home.join(place)));
    let folders: Vec<PathBuf> = folders.filter(|folder| folder.is_absolute()).collect();
    for (name, _) in names::all() {
        symlink("../stand-in", own.join("bin").join(name))?;
        for folder in &folders {
            let _ = cover(&folder.join(name), name, &own);
        }
    }
    let listener = UnixListener::bind(own.join("socket"))?;
    read_only(&own)?;
    Ok(listener)
}

/// Covers the program `path` called `name` by the stand-in, in the copy; the first of that name stays at hand.
fn cover(path: &Path, name: &str, own: &Path) -> io::Result<()> {
    let real = fs::canonicalize(path)?;
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    // One program under many names, such as busybox, is not a launcher.
    if !real.file_name().is_some_and(|file| file.to_string_lossy().starts_with(stem)) {
        return Ok(());
    }
    let at_hand = own.join("real").join(name);
    if !at_hand.exists() {
        File::create(&at_hand)?;
        bind_read_only(&real, &at_hand)?;
        symlink(path, own.join("path").join(name))?;
    }
    Ok(mount_bind(own.join("stand-in"), at(real))?)
}

/// Gives up all rights for good.
pub(crate) fn give_up() -> io::Result<()> {
    for number in 0..64 {
        // The kernel has fewer.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets)?;
    Ok(set_no_new_privs(true)?)
}
