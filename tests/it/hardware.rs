//! Clusters, memory and step boundaries from the command line; memory of devices over time.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Memory, Nanos, PassTimes, Problem, Shape,
};
use proptest::prelude::*;
use serde_json::Value;
use sim::boundary::Boundary;
use sim::cluster::{Cluster, Seating, Seats};
use sim::engine::{Communication, Job, Messages, NominalDurations, run};
use sim::occupancy::Occupancy;

use crate::cli::refused;

fn debubble<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_debubble")).args(args).output().unwrap()
}

const QUESTION: &str = "simulate --stages 4 --microbatches 8 --forward 10ms --backward-input 10ms \
                        --backward-weight 8ms --json --gantt never";

fn ask(rest: &str) -> Output {
    debubble(format!("{QUESTION} {rest}").split_whitespace())
}

fn results(rest: &str) -> Vec<Value> {
    let output = ask(rest);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{rest}: {stderr}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["results"].as_array().unwrap().clone()
}

proptest! {
    #![proptest_config(crate::draw::cases(300))]

    /// Without transfers, each device peaks where the order of its stage says.
    #[test]
    fn a_device_peaks_as_its_order_does(
        which in 0..Family::ALL.len(),
        p in 1..7u64,
        m in 1..16u64,
        held in [1..100u64, 0..100u64],
        resident in 0..50u64,
    ) {
        let which = Family::ALL[which];
        let chunks = crate::draw::chunks(which);
        let shape = Shape::new(p, chunks, m).unwrap();
        let (f, b, w) = (Nanos(10), Nanos(11), Nanos(7));
        let times = PassTimes::new(f, b, w);
        let costs = Costs::uniform(shape, times, Nanos(2));
        let [until_backward, until_weight] = held.map(Bytes);
        let footprints = Footprints::uniform(shape, Footprint { until_backward, until_weight });
        let problem = Problem::new(shape, costs).unwrap();
        let problem = problem.with_footprints(footprints.clone()).unwrap();
        let Ok(schedule) = which.schedule(&problem) else { return Ok(()) };
        let stages = shape.stages();
        let cluster = Cluster::ideal(stages, Nanos(2));
        let seats = Seats::new(&cluster, stages, &Seating::Contiguous).unwrap();
        let job = Job {
            schedule: &schedule,
            costs: problem.costs(),
            cluster: &cluster,
            seats: &seats,
            communication: Communication::default(),
            messages: Messages::default(),
            experts: None,
            room: None,
            offload: None,
            steps: 1,
            boundary: &Boundary::default(),
        };
        let run = run(&job, &NominalDurations).unwrap();
        let resident = vec![Bytes(resident); stages];
        let occupancy = Occupancy::of(&run, &job, &footprints, &resident, None).unwrap();
        let expected = Memory::of(&schedule, &footprints).unwrap().peak;
        prop_assert_eq!(occupancy.peaks.len(), stages);
        for (peak, expected) in occupancy.peaks.iter().zip(expected) {
            prop_assert_eq!(peak.bytes, expected + resident[0]);
            let parts: u64 = peak.activations.iter().map(|held| held.bytes.0).sum();
            prop_assert_eq!(parts + peak.resident.0 + peak.buffers.0, peak.bytes.0);
            let (_, last) = occupancy.curves[peak.device].last().unwrap();
            prop_assert_eq!(*last, resident[0], "all activations are freed");
        }
    }
}

#[test]
fn a_device_too_small_says_where_when_and_by_how_much() {
    // 1F1B on stage 0 holds 4 microbatches of 10 GiB from 30 ms on, above 20 GiB of weights.
    let memory = "--schedule 1f1b --activation 10GiB --resident 20GiB --device-memory 55GiB";
    let one = &results(memory)[0];
    let hardware = &one["hardware"];
    let full = &hardware["out_of_memory"];
    assert_eq!(full["device"], 0);
    assert_eq!(full["peak_bytes"], 60u64 << 30);
    assert_eq!(full["at_ns"], 30_000_000);
    assert_eq!(full["overflow"]["at_ns"], 30_000_000);
    assert_eq!(full["overflow"]["by_bytes"], 5u64 << 30);
    let passes: Vec<&str> = full["activations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["pass"].as_str().unwrap())
        .collect();
    assert_eq!(passes, ["F0.0", "F0.1", "F0.2", "F0.3"]);
    assert_eq!(hardware["memory"].as_array().unwrap().len(), 4);
    // A device that must wait for memory it never gets is stuck, and says so.
    refused(
        &ask(&format!("{memory} --when-full wait")),
        &[
            "1f1b: the pipeline is stuck",
            "stage 0 waits before F0.3",
            "its device would need 60GiB, but has 55GiB",
        ],
    );
}

#[test]
fn parameters_live_where_their_layers_do() {
    // h = 1024, 2 layers of 12 h^2 + 13 h, embedding (V + s) h on stage 0, LM head V h at the end of
    // the model: on the last stage, or on stage 0 too for ZB-V; 18 bytes each.
    let (h, v, s) = (1024u64, 50_000u64, 512u64);
    let question = "--schedule 1f1b,zb-v,dualpipe --hidden 1024 --heads 16 --seq 512 --layers-per-stage 2 \
                    --microbatch-size 1 --vocabulary 50000";
    let results = results(question);
    let resident = |result: &Value| -> Vec<u64> {
        let memory = result["hardware"]["memory"].as_array().unwrap();
        memory.iter().map(|device| device["resident_bytes"].as_u64().unwrap()).collect()
    };
    let layers = 2 * (12 * h * h + 13 * h);
    let bytes = |parameters: u64| 18 * parameters;
    let embedding = (v + s) * h;
    let inner = bytes(layers);
    assert_eq!(
        resident(&results[0]),
        [bytes(layers + embedding), inner, inner, bytes(layers + v * h)]
    );
    assert_eq!(resident(&results[1]), [bytes(layers + embedding + v * h), inner, inner, inner]);
    // Two copies of the model, in opposite directions.
    let ends = bytes(2 * layers + embedding + v * h);
    assert_eq!(resident(&results[2]), [ends, 2 * inner, 2 * inner, ends]);
}

#[test]
fn a_cluster_of_one_device_per_node_and_no_traffic_is_ideal() {
    let ideal = results("--schedule 1f1b,zb-h1,zb-v --hop 500us");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let text = "devices-per-node = 1\n[intra]\nbandwidth = \"1GB/s\"\n[inter]\nnics = 1\n\
                bandwidth = \"1000TB/s\"\nlatency = \"500us\"\n";
    fs::write(&file, text).unwrap();
    let rest = format!("--schedule 1f1b,zb-h1,zb-v --message 0B --cluster {}", file.display());
    // The order of ZB-V depends on the hop, which is that of the cluster by default.
    let cluster = results(&rest);
    for (ideal, mut cluster) in ideal.into_iter().zip(cluster) {
        let hardware = cluster.as_object_mut().unwrap().remove("hardware").unwrap();
        assert_eq!(hardware["step_ns"], ideal["makespan_ns"]);
        assert_eq!(ideal, cluster);
    }
}

#[test]
fn steps_and_boundaries_reach_the_engine() {
    let step = |rest: &str| {
        let rest = format!("--schedule zb-h2 --steps 3 --optimizer 5ms --exchange 2ms {rest}");
        results(&rest)[0]["hardware"]["step_ns"].as_u64().unwrap()
    };
    let free = step("--boundary asynchronous");
    let validated = step("--boundary post-validation:0");
    let failing = step("--boundary post-validation:1 --rollback 4ms");
    let barrier = step("--boundary barrier");
    assert!(free <= validated && validated < barrier && validated < failing);
    let reduced = step("--boundary barrier --gradient-reduction 30ms");
    assert_eq!(reduced, barrier + 30_000_000);
}

#[test]
fn noise_on_a_cluster_is_the_same_on_any_number_of_threads() {
    let line = format!(
        "{QUESTION} --schedule zb-h1 --cluster a100-pcie --message 4MB --replicas 50 --seed 3 \
         --jitter pass=lognormal:0.1,hop=pareto:3 --slowdown device:1=1.2 --sharing queue"
    );
    let bytes = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        let output =
            command.args(line.split_whitespace()).env("RAYON_NUM_THREADS", threads).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(bytes("1"), bytes("2"));
}

#[test]
fn a_slow_link_takes_longer_to_carry_as_well() {
    // p = 2 on one node at 1 GB/s, m = 1: F 0..10, 5 MB take 5 ms, three times as long when slowed;
    // F 10, BW 18; the gradient takes 5 or 15 ms; BW 18.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let text = "devices-per-node = 2\n[intra]\nbandwidth = \"1GB/s\"\n[inter]\nnics = 1\n\
                bandwidth = \"1GB/s\"\n";
    fs::write(&file, text).unwrap();
    let makespan = |rest: &str| {
        let rest = format!(
            "--stages 2 --microbatches 1 --schedule 1f1b --message 5MB --cluster {} {rest}",
            file.display()
        );
        let question = QUESTION.replace("--stages 4 --microbatches 8", "");
        let output = debubble(format!("{question} {rest}").split_whitespace());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["results"][0]["makespan_ns"].as_u64().unwrap()
    };
    assert_eq!(makespan(""), (10 + 5 + 10 + 18 + 5 + 18) * 1_000_000);
    assert_eq!(makespan("--slowdown link:0-1=3"), (10 + 15 + 10 + 18 + 15 + 18) * 1_000_000);
}

#[test]
fn offloading_trades_memory_for_time() {
    let base = "--schedule gpipe --cluster dgx-a100 --message 1MB --activation 256MiB";
    let peak = |rest: &str| {
        let hardware = results(&format!("{base} {rest}"))[0]["hardware"].clone();
        (
            hardware["memory"][0]["peak_bytes"].as_u64().unwrap(),
            hardware["step_ns"].as_u64().unwrap(),
        )
    };
    let (all, fast) = peak("");
    let (half, slow) = peak("--offload 0.5");
    assert!(half < all && slow >= fast, "{half} {all} {slow} {fast}");
    // Called back only when it is needed, an activation is away longer, and waited for.
    let (late, slower) = peak("--offload 0.5 --reload-ahead 0");
    assert!(late <= half && slower > slow, "{late} {half} {slower} {slow}");
    // Passes that wait for copies to the host take longer, and more of each activation is away.
    let (least, slowest) = peak("--offload 0.5 --reload-ahead 0 --max-inflight-offloads 0");
    assert!(least <= late && slowest > slower, "{least} {late} {slowest} {slower}");
    let copies =
        |rest: &str| results(&format!("{base} --offload 0.5 {rest}"))[0]["host_copies"].clone();
    assert_eq!(copies("--max-inflight-offloads 1")["max_inflight"], 1);
    assert_eq!(copies("")["max_inflight"], Value::Null);
    refused(&ask(&format!("{base} --offload 1.5")), &["a number from 0 to 1"]);
    let bare = "--schedule gpipe --cluster dgx-a100 --message 1MB --offload 0.5";
    refused(&ask(bare), &["offloading needs the bytes of activations"]);
    refused(&ask("--schedule gpipe --activation 1GiB --offload 0.5"), &["links to the host"]);
    let idle = ask(&format!("{base} --max-inflight-offloads 0"));
    assert_eq!(idle.status.code(), Some(0));
    let said = String::from_utf8_lossy(&idle.stderr).into_owned();
    assert!(
        said.contains("nothing is offloaded (--offload): max-inflight-offloads is ignored"),
        "{said}"
    );
    let own = "--schedule po-h --offload-time 1ms --max-inflight-offloads 0";
    let parts =
        ["po-h says itself when passes wait for its copies", "leave max-inflight-offloads out"];
    refused(&ask(own), &parts);
    refused(&ask(&format!("{base} --offload 0.5 --max-inflight-offloads -1")), &["-1"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.txt");
    fs::write(&file, "F0.0 F0.1 BW0.0 BW0.1 | O0.0@1 R0.0@2\n").unwrap();
    let own = format!(
        "simulate --schedule {} --forward 1ms --backward 2ms --offload-time 1ms --max-inflight-offloads 0",
        file.display()
    );
    refused(
        &debubble(own.split_whitespace()),
        &["says itself when passes", "write <=N behind each |"],
    );
}

/// The benchmark of a draft of PyTorch's pipelining: 45.62 GB and 44.2 samples/s without offloading, to which activations
/// and times are fitted, and 17.22 GB and 29.2 samples/s with it.
#[test]
fn offloading_that_blocks_beside_the_published_benchmark() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/offload.toml");
    let output = debubble(["simulate", file, "--json", "--gantt", "never"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |setting: &str| {
        let rows = json["results"].as_array().unwrap();
        let row = rows.iter().find(|row| row["setting"] == setting).unwrap();
        let memory = row["hardware"]["memory"].as_array().unwrap();
        let peak = memory.iter().map(|one| one["peak_bytes"].as_f64().unwrap()).fold(0.0, f64::max);
        let step = row["hardware"]["step_ns"].as_f64().unwrap();
        [peak / 1e7, 256e11 / step].map(|figure| figure.round() / 100.0)
    };
    assert_eq!(of("on the device"), [45.62, 44.2]);
    assert_eq!(of("overlapped"), [24.83, 44.2]);
    assert_eq!(of("at most 1 in flight"), [21.37, 44.06]);
    assert_eq!(of("blocking, reload in time"), [17.91, 33.74]);
    assert_eq!(of("blocking"), [14.44, 32.18]);
}

#[test]
fn deadlocks_of_blocking_communication_are_named() {
    let rest = "--schedule 1f1b --cluster dgx-h100 --message 10MB --communication blocking \
                --protocol rendezvous:0";
    refused(&ask(rest), &["the pipeline is stuck", "has not requested the transfer"]);
}

fn cluster(text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, text).unwrap();
    ask(&format!("--schedule 1f1b --message 1MB --cluster {}", file.display()))
}

#[test]
fn impossible_clusters() {
    let whole = "nodes = 1\ndevices-per-node = 4\nmemory = \"80GB\"\n[intra]\n\
                 bandwidth = \"300GB/s\"\nlatency = \"2us\"\n[inter]\nnics = 2\n\
                 bandwidth = \"200Gbit/s\"\nlatency = \"5us\"\noversubscription = 2.0\n";
    assert_eq!(cluster(whole).status.code(), Some(0));
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        cluster(&whole.replace(from, to))
    };
    refused(&with("300GB/s", "0GB/s"), &["c.toml:5:13", "from 1 B/s"]);
    refused(&with("300GB/s", "300"), &["is not a bandwidth"]);
    refused(&with("\"300GB/s\"", "nan"), &["is not a bandwidth"]);
    refused(&with("nodes = 1", "nodes = 0"), &["nodes must be from 1"]);
    refused(&with("nodes = 1", "nodes = 100000000000"), &["nodes must be from 1"]);
    refused(&with("per-node = 4", "per-node = 0"), &["devices per node must be from 1"]);
    refused(&with("nics = 2", "nics = 0"), &["NICs per node must be from 1 to 4"]);
    refused(&with("nics = 2", "nics = 9"), &["NICs per node must be from 1 to 4, not 9"]);
    refused(&with("oversubscription = 2.0", "oversubscription = 0.5"), &["from 1 to 10000"]);
    refused(&with("oversubscription = 2.0", "oversubscription = nan"), &["from 1 to 10000"]);
    refused(&with("\"2us\"", "\"-2us\""), &["negative"]);
    refused(&with("[inter]", "[outer]"), &["no key `outer`"]);
    refused(&with("memory", "memroy"), &["no key `memroy`: did you mean `memory`?"]);
    refused(&cluster(&whole[..100]), &["c.toml"]);
}

#[test]
fn impossible_hardware_keys() {
    let ask = |rest: &str| ask(&format!("--schedule 1f1b {rest}"));
    refused(&ask("--cluster dgx-h10"), &["no cluster `dgx-h10`", "did you mean `dgx-h100`"]);
    refused(&ask("--cluster missing.toml"), &["cannot read missing.toml"]);
    refused(&ask("--cluster dgx-h100"), &["the size of what crosses a link is not known"]);
    let seated = |seats: &str| ask(&format!("--cluster dgx-h100 --message 1MB --seating {seats}"));
    refused(&seated("0,1,2,8"), &["stage 3 sits on device 8", "only 8 devices"]);
    refused(&seated("0,1"), &["2 devices are named for 4 stages"]);
    refused(&seated("nowhere"), &["`nowhere`", "contiguous, across-nodes"]);
    refused(&ask("--seating 0,1,2,99999999999"), &["only 4 devices"]);
    refused(&ask("--sharing unfair"), &["fair or queue"]);
    refused(&ask("--protocol rendezvous:-1"), &["rendezvous:AHEAD"]);
    refused(&ask("--boundary post-validation:1.5"), &["P from 0 to 1"]);
    refused(&ask("--boundary post-validation:nan"), &["P from 0 to 1"]);
    refused(&ask("--steps 0"), &["steps must be at least 1"]);
    refused(&ask("--steps 4000000000"), &["passes in 4000000000 steps: at most"]);
    refused(&ask("--gradient-reduction 5ms:sometimes"), &["TIME:overlapped"]);
    refused(&ask("--gradient-reduction 5"), &["no unit"]);
    refused(&ask("--resident 1GiB,2GiB"), &["resident has 2 values"]);
    refused(&ask("--vocabulary 50000"), &["vocabulary needs hidden"]);
    refused(&ask("--vocabulary 50000 --resident 1GiB"), &["exclude each other"]);
    refused(&ask("--when-full wait"), &["--device-memory"]);
    refused(&ask("--message 100000000GiB --cluster dgx-h100"), &["at most"]);
    refused(&ask("--optimizer -5ms"), &["negative"]);
    refused(&ask("--steps -1"), &["--steps", "-1"]);
    refused(&ask("--seating 0,1,2,18446744073709551615"), &["only 4 devices"]);
    let huge = "--resident 1048576TiB --seating 0,0,0,0";
    refused(&ask(huge), &["the resident bytes", "64-bit"]);
    let post = "--boundary post-validation:0.5 --steps 4294967295";
    refused(&ask(post), &["passes in 4294967295 steps: at most"]);
}

#[test]
fn hardware_keys_stand_in_scenarios_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.toml");
    let whole = "schedule = \"zb-h1\"\nstages = 4\nmicrobatches = 8\nforward = \"10ms\"\n\
                 backward-input = \"10ms\"\nbackward-weight = \"8ms\"\ncluster = \"dgx-a100\"\n\
                 message = \"24MB\"\nseating = \"0,1,0,1\"\n";
    fs::write(&file, whole).unwrap();
    let line = format!("simulate {} --json", file.display());
    let output = debubble(line.split_whitespace());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["results"][0]["hardware"]["devices"], serde_json::json!([0, 1, 0, 1]));
    fs::write(&file, whole.replace("0,1,0,1", "0,1,0,9")).unwrap();
    refused(&debubble(line.split_whitespace()), &["q.toml:9:11", "stage 3 sits on device 9"]);
}

#[test]
fn activations_without_a_size_weigh_nothing_on_their_way_to_the_host() {
    for copied in ["po-h --chunks 2", "po-f --chunks 2", "gis-h --chunks 2 --offload 1"] {
        let rest = format!("--schedule {copied} --offload-time 1us --exchange 1ms --resident 1GiB");
        for one in results(&rest) {
            let devices = one["hardware"]["memory"].as_array().unwrap();
            let held =
                |device: &Value| (device["peak_bytes"].as_u64(), &device["on_host_bytes"] == 0);
            assert!(
                devices.iter().all(|one| held(one) == (Some(1 << 30), true)),
                "{copied}: {one}"
            );
        }
    }
}
