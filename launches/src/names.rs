//! The names that stand-ins have in the copy, and what each does there.

/// What a stand-in does besides recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It launches a run: nothing.
    Launcher,
    /// Runs code of its words and of its input by the real interpreter; a file or a module is a launch.
    Python,
    /// Runs the command among its words, once. These options of it have a value in the next word.
    Wrapper(&'static str),
    /// The same, after the first word that is a shell, Python or a launcher.
    Container,
    /// Runs the rest of its words by a shell, after options and a host.
    Remote(&'static str),
    /// Runs the file of a job, once.
    Submit(&'static str),
    /// Says what the real one says of the nodes and GPUs of the job.
    Gpus,
    Scontrol,
    Says(&'static str),
    /// Is the real one, but for the network.
    Git,
    /// Nothing, at once.
    Quiet,
    /// Is a command or a folder that this machine does not have.
    Missing,
}

/// Options of Slurm with a value in the next word.
pub(crate) const OF_SLURM: &str = "-A -c -C -d -D -e -G -i -J -L -m -M -N -n -o -p -q -r -S -t -T -w -W -x --account --chdir \
    --constraint --container-image --container-mounts --container-name --container-workdir --cpus-per-task \
    --dependency --environment --error --exclude --export --gpus --gpus-per-node --gres --job-name --mem --mpi \
    --nodelist --nodes --ntasks --ntasks-per-node --output --partition --qos --reservation --time";
/// The same of launchers of MPI.
pub(crate) const OF_MPI: &str = "-H -N -hostfile --hostfile -host --host -machinefile --machinefile -n --n -np --np -ppn -bind-to \
    --bind-to -map-by --map-by -rank-by --rank-by -wdir --wdir -x -genv";

/// All names with their roles, by role.
pub(crate) const NAMES: [(Role, &str); 23] = [
    (Role::Launcher, "torchrun deepspeed accelerate colossalai ds"),
    (Role::Python, "python python3 python3.9 python3.10 python3.11 python3.12 python3.13"),
    (Role::Wrapper(OF_SLURM), "srun salloc"),
    (Role::Wrapper(OF_MPI), "mpirun mpiexec orterun jsrun flux aprun"),
    (Role::Wrapper("-C -m -N -p -i"), "numactl"),
    (Role::Wrapper("-b -c -d -e -f -k -n -o -p -s -t -w -x -y"), "nsys ncu rocprof rocprofv3"),
    (Role::Wrapper("-B -H -W --bind --env --home --pwd --mount"), "singularity apptainer enroot"),
    (Role::Wrapper("-u -g -h -p -C -D"), "sudo"),
    (Role::Wrapper("-p -c -n -u -o -e -f -x"), "taskset chrt ionice setsid strace"),
    (Role::Wrapper(""), "dumb-init catchsegv gdb ccache uv ray"),
    (Role::Container, "docker podman kubectl"),
    (Role::Remote("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -R -S -W -w"), "ssh pdsh"),
    (Role::Submit(OF_SLURM), "sbatch qsub bsub"),
    (Role::Gpus, "nvidia-smi rocm-smi amd-smi"),
    (Role::Scontrol, "scontrol"),
    (Role::Says("node0"), "hostname"),
    (Role::Says("    inet 127.0.0.1/8 scope host lo"), "ip ifconfig"),
    (Role::Says("127.0.0.1 node0"), "getent"),
    (Role::Git, "git"),
    (
        Role::Quiet,
        "sleep pkill kill killall scancel squeue sinfo sacct pip pip3 conda mamba micromamba module wandb",
    ),
    (
        Role::Quiet,
        "curl wget apt apt-get yum rsync scp aws gsutil gcloud azcopy hf huggingface-cli modelscope systemctl",
    ),
    (
        Role::Quiet,
        "reboot shutdown mount umount ibstat ibv_devinfo ibdev2netdev dcgmi ping make ninja nvcc fuser lsof sysctl \
         swapoff clear reset tput crontab at mail sendmail",
    ),
    (Role::Missing, "debubble-missing"),
];

/// All names, each with its role.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Role)> {
    NAMES.iter().flat_map(|(role, names)| names.split(' ').map(|name| (name, *role)))
}

/// The role of the stand-in called `name`.
pub(crate) fn role(name: &str) -> Option<Role> {
    all().find(|(own, _)| *own == name).map(|(_, role)| role)
}

/// Whether `option` is in the list `valued` of those that have a value in the next word.
pub(crate) fn has_value(valued: &str, option: &str) -> bool {
    valued.split_whitespace().any(|own| own == option)
}
