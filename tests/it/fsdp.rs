//! `debubble fsdp`: packing and communication in data-parallel post-training.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::{debubble, refused, results, run, stdout};

const SMALL: &str = "fsdp --devices 4 --minibatch-size 1,4 --minibatches 20";

fn of<'a>(rows: &'a [Value], method: &str, communication: &str, size: u64) -> &'a Value {
    let is = |row: &&Value| {
        row["method"] == method
            && row["communication"] == communication
            && row["minibatch_size"] == size
    };
    rows.iter().find(is).unwrap()
}

#[test]
fn json_has_the_promised_keys() {
    let rows = results(&format!("{SMALL} --packing-ratio 1,2 --json"));
    // LB-Mini only on demand: 5 ways, 2 minibatch sizes, 2 ratios.
    assert_eq!(rows.len(), 5 * 2 * 2);
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert_eq!((number("devices"), number("minibatches")), (4.0, 20.0));
        assert_eq!(number("max_tokens"), 64_000.0 * number("packing_ratio"));
        // Step, idle time and bubble say the same; the former are rounded to nanoseconds.
        let bubble = number("idle_ns") / number("step_ns");
        assert!((bubble - number("bubble_rate")).abs() < 1e-6, "{row}");
        assert!(number("longest_step_ns") >= number("step_ns"));
        assert!(number("microbatches_per_device") >= 1.0 && number("tokens_per_second") > 0.0);
        assert!(row["buffer_per_client_bytes"].is_null());
    }
}

#[test]
fn a_minibatch_of_one_has_nothing_to_balance() {
    let rows = results(&format!("{SMALL} --json"));
    let steps = |size: u64| -> Vec<u64> {
        let rows = rows.iter().filter(|row| row["minibatch_size"] == size);
        rows.map(|row| row["step_ns"].as_u64().unwrap()).collect()
    };
    assert!(steps(1).windows(2).all(|two| two[0] == two[1]), "{:?}", steps(1));
    assert!(steps(4).windows(2).any(|two| two[0] != two[1]));
}

#[test]
fn balance_and_on_demand_communication_pay() {
    let rows = results(
        "fsdp --devices 8 --minibatch-size 4 --minibatches 50 --lengths uniform:1000-60000 --json",
    );
    let speedup = |method: &str, communication: &str| {
        of(&rows, method, communication, 4)["speedup"].as_f64().unwrap()
    };
    assert_eq!(speedup("lb-micro", "collectives"), 1.0);
    assert!(speedup("local-sort", "collectives") < 1.0);
    assert!(speedup("lb-micro", "on-demand") > 1.0);
    assert!(speedup("lb-mini", "on-demand") > speedup("lb-micro", "on-demand"));
}

/// The first test case of ODC's packing code, cut to what a microbatch holds.
const CASE: &str = "3935 4591 5994 6805 7086 8335 9503 10414 11438 12668 13060 14036 # a comment\n\
                    15997,16164,17815,18436,19247,20807,21465\n22502 23177 24000 24000 24000\n";

#[test]
fn a_file_in_order_gives_the_figures_of_the_packing_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lengths.txt");
    fs::write(&file, CASE).unwrap();
    let question = format!(
        "fsdp --lengths in-order:{} --cost linear:1us --devices 8 --minibatch-size 3 \
         --minibatches 2 --max-tokens 24000 --json",
        file.display()
    );
    let rows = results(&question);
    let figures = |method: &str, communication: &str| {
        let row = of(&rows, method, communication, 3);
        let bubble = row["bubble_rate"].as_f64().unwrap();
        (row["step_ns"].as_u64().unwrap() / 1_000, (bubble * 1e6).round())
    };
    assert_eq!(figures("local-sort", "collectives"), (52_850, 159_236.0));
    assert_eq!(figures("lb-micro", "collectives"), (52_850, 159_236.0));
    assert_eq!(figures("lb-micro", "on-demand"), (44_873, 9_775.0));
    assert_eq!(figures("lb-mini", "on-demand"), (44_873, 9_775.0));
    assert_eq!(of(&rows, "lb-mini", "on-demand", 3)["microbatches_per_device"], 17.0 / 8.0);
    let both = "--method lb-mini --communication collectives";
    let deadlock = run(&format!("{question} {both}"));
    refused(&deadlock, &["would deadlock: device 0 has 2", "device 2 has 3", "on-demand"]);
}

#[test]
fn a_seed_has_one_answer_on_any_number_of_threads() {
    let noise = "--jitter pass=lognormal:0.1 --slowdown device:1=1.5 --stall 0.01:5ms";
    let links = "--parameters 3GB --bandwidth 12.5GB/s --latency 10us --owners 2";
    let question = format!("{SMALL} {noise} {links} --layers 4 --json");
    let on = |threads: &str, seed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.args(question.split_whitespace()).args(["--seed", seed]);
        stdout(&command.env("RAYON_NUM_THREADS", threads).output().unwrap())
    };
    assert_eq!(on("1", "3"), on("2", "3"));
    assert_ne!(on("1", "3"), on("1", "4"));
}

#[test]
fn links_slow_devices_and_buffers_are_counted() {
    let rows = |rest: &str| results(&format!("{SMALL} --layers 4 {rest} --json"));
    let step =
        |rows: &[Value], how: &str| of(rows, "lb-micro", how, 4)["step_ns"].as_u64().unwrap();
    let links = "--parameters 3GB --bandwidth 1GB/s --latency 10us";
    let (free, linked, slow) = (rows(""), rows(links), rows("--slowdown device:0=2"));
    let exposed = rows(&format!("{links} --no-overlap"));
    let owned = rows(&format!("{links} --owners 1"));
    for how in ["collectives", "on-demand"] {
        assert!(step(&linked, how) > step(&free, how) && step(&slow, how) > step(&free, how));
        assert!(step(&exposed, how) > step(&linked, how));
    }
    assert!(step(&owned, "on-demand") > step(&linked, "on-demand"));
    assert_eq!(step(&owned, "collectives"), step(&linked, "collectives"));
    let buffers = |how: &str| of(&linked, "lb-micro", how, 4)["buffer_per_client_bytes"].as_u64();
    assert_eq!((buffers("on-demand"), buffers("collectives")), (Some(750_000_000), None));
}

#[test]
fn rows_and_pictures_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let args = |rest: &[&str]| {
        let mut args: Vec<String> = SMALL.split_whitespace().map(str::to_owned).collect();
        args.extend(rest.iter().map(|&arg| arg.to_owned()));
        args
    };
    let [csv, svg] = ["rows.csv", "bubble.svg"].map(|name| path(name).display().to_string());
    let table = stdout(&debubble(args(&["--csv", &csv, "--svg", &svg])));
    assert!(table.lines().count() == 14 && table.contains("speed-up"), "{table}");
    let rows = fs::read_to_string(&csv).unwrap();
    assert!(rows.starts_with("devices,minibatch_size,max_tokens,packing_ratio,method,"), "{rows}");
    assert_eq!(rows.lines().count(), 11);
    assert!(fs::read_to_string(&svg).unwrap().contains("lb-mini, on-demand"));
    let picture = path("minibatch.svg").display().to_string();
    let one = "fsdp --devices 4 --minibatch-size 4 --layers 2 --timeline";
    stdout(&debubble(one.split_whitespace().chain([picture.as_str()])));
    let drawn = fs::read_to_string(&picture).unwrap();
    assert!(drawn.contains("device 3") && drawn.contains("local-sort, collectives"));
    refused(&debubble(args(&["--timeline", &picture])), &["one setting"]);
}

#[test]
fn pulls_that_get_less_than_rings_are_predicted_slower_and_why() {
    let question = "fsdp --devices 16 --minibatch-size 4 --minibatches 5 --layers 4 --parameters 3GB \
                    --lengths uniform:2000-2000 --method lb-micro --bandwidth 300GB/s";
    let cause = |rest: &str| {
        let rows = results(&format!("{question} {rest} --json"));
        let row = of(&rows, "lb-micro", "on-demand", 4);
        (row["slower_for"].clone(), row["speedup"].as_f64().unwrap())
    };
    assert_eq!(cause("").0, Value::Null);
    let nodes = "--devices-per-node 8 --node-bandwidth 10GB/s";
    for (rest, name) in
        [("--pull-bandwidth 20GB/s", "pulls"), ("--owners 1", "owners"), (nodes, "nodes")]
    {
        let (given, speedup) = cause(rest);
        assert!(given == name && speedup < 1.0, "{rest}: {given} {speedup}");
    }
    // Within nodes nothing crosses them but the sums of gradients.
    assert!(cause(&format!("{nodes} --sharding hybrid")).1 > cause(nodes).1);
    let table = stdout(&run(&format!("{question} --pull-bandwidth 20GB/s")));
    assert!(table.contains("predicted slower than collectives in 1 of 2 rows"), "{table}");
}

/// Models of one layer, whose steps are soon simulated.
const ONE_LAYER: &str = "model,layers,hidden,parameters,devices\n\
                         1.5b,1,1536,1540000000,8\n7b,1,3584,7620000000,8\n";

#[test]
fn real_lengths_take_the_place_of_drawn_ones() {
    let folder = tempfile::tempdir().unwrap();
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/paper");
    for name in ["odc.csv", "odc-lengths.csv", "odc-claims.csv"] {
        fs::copy(paper.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("odc-models.csv"), ONE_LAYER).unwrap();
    let tasks = "task,kind,lengths\nlongalign,sft,file:own.txt\n";
    fs::write(folder.path().join("odc-tasks.csv"), tasks).unwrap();
    let question = format!("reproduce odc --json --no-files --paper {}", folder.path().display());
    refused(&run(&question), &["own.txt"]);
    fs::write(folder.path().join("own.txt"), "3000\n3000\n").unwrap();
    let answer: Value = serde_json::from_str(&stdout(&run(&question))).unwrap();
    let cells = answer["cells"].as_array().unwrap();
    // Equal samples leave nothing to win.
    let row = "fine-tuning, costs as published";
    let largest = cells.iter().find(|cell| cell["row"] == row).unwrap();
    assert!(largest["ours"].as_f64().unwrap() < 1.0 && largest["match"] == false, "{largest}");
}

#[test]
fn bad_input_is_refused() {
    let refuses = |rest: &str, parts: &[&str]| refused(&run(&format!("fsdp {rest}")), parts);
    refuses("--devices 0", &["devices must be from 1"]);
    refuses("--devices 99999999999", &["devices must be from 1"]);
    refuses("--devices -1", &["-1"]);
    refuses("--minibatch-size 0", &["minibatch size"]);
    refuses("--minibatch-size 18446744073709551615", &["minibatch size"]);
    refuses("--minibatches 0", &["minibatches must be from 1"]);
    refuses("--minibatches 99999999999", &["minibatches must be from 1"]);
    refuses("--layers 0", &["layers must be from 1"]);
    refuses("--packing-ratio NaN", &["packing ratio", "NaN"]);
    refuses("--packing-ratio 0.5", &["packing ratio", "longest sample must fit"]);
    refuses("--max-tokens 0", &["tokens"]);
    refuses("--max-tokens 9000", &["a microbatch holds at most 9000", "--max-tokens"]);
    refuses("--lengths uniform:10-5", &["from 1 to 5"]);
    refuses("--lengths zipf:1", &["is not a distribution"]);
    refuses("--lengths lognormal:100:NaN:200", &["sigma", "NaN"]);
    refuses("--lengths file:/nowhere/at/all", &["cannot read /nowhere/at/all"]);
    refuses("--cost quadratic:NaN,1", &["NaN"]);
    refuses("--cost quadratic:-1,1", &["-1"]);
    refuses("--cost 13b", &["is not a cost model"]);
    refuses("--cost linear:0ns", &["time of a token"]);
    refuses("--slowdown device:9=2", &["device 9"]);
    refuses("--slowdown stage:1=2", &["only devices"]);
    refuses("--slowdown device:1=NaN", &["NaN"]);
    refuses("--timeline x.svg --minibatch-size 8192", &["a picture of up to"]);
    let many = (1..=2_000).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    refuses(&format!("--minibatch-size {many}"), &["2000 settings"]);
    refuses("--jitter hop=normal:0.1", &["no hops"]);
    refuses("--bandwidth 1GB/s", &["--parameters"]);
    refuses("--parameters 1GB --bandwidth 0GB/s", &["bandwidth"]);
    refuses("--parameters 1GB --bandwidth 1GB/s --owners 9", &["owners must be from 1 to 8"]);
    let links = "--parameters 1GB --bandwidth 1GB/s";
    refuses(&format!("{links} --devices-per-node 8"), &["need each other"]);
    refuses(&format!("{links} --sharding hybrid"), &["--devices-per-node"]);
    let nodes = |count| format!("{links} --node-bandwidth 1GB/s --devices-per-node {count}");
    refuses(&nodes(3), &["8 devices do not fill nodes of 3"]);
    refuses(&nodes(0), &["devices of a node must be from 1"]);
    refuses(&format!("{} --owners 2", nodes(4)), &["owners on nodes must be from 8"]);
    refuses("--pull-bandwidth 1GB/s", &["--bandwidth"]);
}

#[test]
fn bad_files_of_lengths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lengths.txt");
    let with = |content: &str| {
        fs::write(&file, content).unwrap();
        run(&format!("fsdp --lengths file:{}", file.display()))
    };
    refused(&with("100\n2x0\n"), &["line 2", "`2x0`"]);
    refused(&with("100\n-5\n"), &["line 2"]);
    refused(&with("100 0\n"), &["tokens of a sample must be from 1"]);
    refused(&with("# nothing\n"), &["number of lengths must be from 1"]);
    refused(&with("99999999999999\n"), &["line 1"]);
}

#[test]
fn a_figure_that_differs_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/paper");
    for name in ["odc-lengths.csv", "odc-tasks.csv", "odc-claims.csv"] {
        fs::copy(paper.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("odc-models.csv"), ONE_LAYER).unwrap();
    let figures = fs::read_to_string(paper.join("odc.csv")).unwrap();
    let check = |from: &str, to: &str| {
        assert!(figures.contains(from), "{from}");
        fs::write(folder.path().join("odc.csv"), figures.replacen(from, to, 1)).unwrap();
        run(&format!("reproduce odc --check --no-files --paper {}", folder.path().display()))
    };
    assert_eq!(check("44873", "44873").status.code(), Some(0));
    for (from, to) in [
        ("2 2 3 2", "2 3 2 2"),
        ("44873 44755", "44874 44755"),
        ("5.2212021", "5.2212022"),
        ("0.013150", "0.013151"),
        (",,44873,,", ",52850,44873,0.159236,"),
    ] {
        assert_eq!(check(from, to).status.code(), Some(1), "{from}");
    }
    refused(&check("lb-mini", "lb-maxi"), &["no method `lb-maxi`"]);
    refused(&check("1,24,8", "7,24,8"), &["no such case"]);
}

/// A run for real that is over soon: three devices, samples of very different length.
const REAL: &str = "fsdp --execute --devices 3 --minibatch-size 4 --minibatches 2 --layers 2 --hidden 16 \
                    --heads 2 --vocabulary 31 --lengths longtail:8-64:1 --seed 5";

#[test]
fn devices_run_for_real_end_with_the_weights_of_a_serial_run() {
    let rows = results(&format!("{REAL} --json"));
    assert_eq!(rows.len(), 5);
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    for row in &rows {
        assert_eq!(row["equal"], true, "{row}");
        assert_eq!((number(row, "devices"), number(row, "minibatches")), (3, 2));
        assert!(number(row, "step_ns") > 0 && number(row, "simulated_step_ns") > 0);
        for key in ["idle_rate", "simulated_idle_rate"] {
            assert!((0.0..1.0).contains(&row[key].as_f64().unwrap()), "{row}");
        }
        // The same samples and weights, so the same losses, to the last bit.
        for key in ["first_loss", "last_loss"] {
            assert_eq!(row[key], rows[0][key]);
        }
        let meetings = number(row, "meetings");
        match row["communication"].as_str().unwrap() {
            // Once a minibatch, on each device.
            "on-demand" => assert_eq!(meetings, 2 * 3),
            // At ten places of every microbatch, of which every device has at least one a minibatch.
            _ => assert!(meetings.is_multiple_of(10) && meetings >= 2 * 3 * 10),
        }
    }
    let baseline = rows.iter().find(|row| row["method"] == "lb-micro").unwrap();
    assert_eq!(
        (baseline["speedup"].as_f64(), baseline["simulated_speedup"].as_f64()),
        (Some(1.0), Some(1.0))
    );
}

#[test]
fn a_device_alone_is_run_too() {
    let table = stdout(&run(&format!("{REAL} --devices 1").replacen("--devices 3 ", "", 1)));
    assert!(table.lines().count() == 6 && !table.contains("DIFFERENT"), "{table}");
}

#[test]
fn what_cannot_be_run_for_real_is_refused() {
    let refuses =
        |rest: &str, parts: &[&str]| refused(&run(&format!("fsdp --execute {rest}")), parts);
    let one = "--minibatch-size 4 --lengths uniform:8-16 --layers 1";
    refuses("--lengths uniform:8-16", &["one setting, but there are 4"]);
    refuses(&format!("{one} --slowdown device:1=2"), &["--slowdown is simulated"]);
    refuses(&format!("{one} --csv rows.csv"), &["--csv is not for --execute"]);
    refuses(&format!("{one} --devices 65"), &["65 devices", "at most 64"]);
    refuses(&format!("{one} --minibatches 1000000"), &["32000000 samples in all"]);
    refuses(&format!("{one} --heads 3"), &["heads"]);
    refuses(&format!("{one} --timeout 0s"), &["timeout"]);
    refuses("--minibatch-size 4 --lengths uniform:900000-900000 --minibatches 1", &["are free"]);
    refuses(
        &format!("{one} --method lb-mini --communication collectives --seed 1 --minibatches 40"),
        &["would deadlock"],
    );
    refused(&run(&format!("fsdp {one} --hidden 8")), &["--execute"]);
}
