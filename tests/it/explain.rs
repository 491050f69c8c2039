//! Explanations as users get them: tables, JSON, pages.

use serde_json::Value;
use sim::explain::Cause;

use crate::cli::{debubble, refused, results, run, stdout};

const ALL: &str = "gpipe,1f1b,1f1b-i,zb-h1,zb-h2,zb-heuristic,zb-1p,zb-2p,zb-v";

pub(crate) fn explained(rest: &str) -> Vec<Value> {
    let times = "--forward 10ms,10ms,10ms,14ms --backward-input 11ms --backward-weight 7ms";
    let shape = "--stages 4 --microbatches 8 --explain --json";
    results(&format!("simulate {shape} {times} {rest}"))
}

#[test]
fn machines_read_causes_that_add_up() {
    let noise = "--slowdown stage:1=1.2 --jitter pass=lognormal:0.05 --seed 3";
    let cluster = "--cluster a100-roce --message 100MB --seating across-nodes --steps 2 \
                   --exchange 5ms --optimizer 3ms";
    for rest in ["--hop 1ms", &format!("--hop 1ms {noise}"), &format!("{cluster} {noise}")] {
        for result in explained(&format!("--schedule {ALL} {rest}")) {
            let why = &result["explain"];
            let cost = why["cost_ns"].as_i64().unwrap();
            // On hardware, the whole step with all that lies between two.
            let hardware = &result["hardware"];
            let step = if hardware.is_null() { &result["span_ns"] } else { &hardware["step_ns"] };
            assert_eq!(cost, *step);
            let optimizer = if hardware.is_null() { 0 } else { 3_000_000 };
            for (stage, busy) in why["stages"].as_array().unwrap().iter().zip(0..) {
                let own = Cause::ALL.into_iter().filter(|cause| !cause.is_of_streams());
                let keys: Vec<i64> =
                    own.map(|cause| stage[cause.key()].as_i64().unwrap()).collect();
                assert_eq!(keys.iter().sum::<i64>(), stage["idle_ns"]);
                let busy = result["busy_ns"][busy].as_i64().unwrap();
                assert_eq!(stage["optimizer_ns"], optimizer);
                assert_eq!(cost - busy - optimizer, stage["idle_ns"], "{}", result["schedule"]);
            }
            let path = why["critical_path"].as_array().unwrap();
            assert!(!path.is_empty() && path.iter().all(|link| link["waited_for"].is_string()));
        }
    }
}

#[test]
fn the_optimizer_has_a_column_of_its_own() {
    let times = "--forward 10ms --backward-input 10ms --backward-weight 10ms";
    let boundary = "--steps 2 --optimizer 5ms --exchange 3ms --explain";
    let table = |rest: &str| {
        stdout(&run(&format!(
            "simulate --stages 4 --microbatches 8 --schedule zb-h2 {times} {rest} --gantt never"
        )))
    };
    let text = table(boundary);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let words = |name: &str| row(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(row("stage ").ends_with("synchronisation  warm-up, drain"));
    let first = ["0", "240.000", "ms", "5.000", "ms", "33.000", "ms", "33.000", "ms", "0"];
    assert_eq!(words("0 "), first);
    let shares = ["of", "the", "step", "86.33", "%", "1.80", "%", "11.87", "%", "11.87", "%"];
    assert_eq!(words("of the step")[..11], shares);
    assert!(!table("--explain").contains("optimizer"));
    // A single step says that it is not one of many.
    let cold = "begins on all stages at once";
    assert!(table("--boundary asynchronous --explain").contains(cold) && !text.contains(cold));
    assert!(!table("--boundary asynchronous --steps 2 --explain").contains(cold));
}

#[test]
fn activations_called_back_late_are_waited_for() {
    // Called back only when its backward is next, an activation of 3.6 GiB is waited for.
    let cluster = "--cluster a100-roce --message 50MB --activation 4GiB";
    let late = &explained(&format!("--schedule 1f1b {cluster} --offload 0.9 --reload-ahead 0"))[0];
    for stage in late["explain"]["stages"].as_array().unwrap() {
        assert!(stage["memory_ns"].as_i64().unwrap() > 0);
    }
    let links = late["explain"]["critical_path"].to_string();
    assert!(links.contains("on the way from the host"));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let small = "simulate --stages 2 --microbatches 2 --explain";
    let times = "--forward 1ms --backward-input 1ms --backward-weight 1ms";
    refused(&run(&format!("{small} {times} --schedule zb-h3")), &["there is no schedule"]);
    refused(&run(&format!("{small} --schedule 1f1b")), &["--forward"]);
    let full = "--activation 2GiB --device-memory 3GiB --when-full wait --schedule gpipe";
    refused(&run(&format!("{small} {times} {full}")), &["stuck", "device"]);
}

/// The data of the page that `words` ask for, and what else is said.
fn page(words: &str) -> (Value, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let said = stdout(&run(&format!("simulate {words} --gantt never --html {}", path.display())));
    let html = std::fs::read_to_string(path).unwrap();
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    let data = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    (data, said, html)
}

#[test]
fn gaps_of_the_page_are_the_idle_time_of_the_table() {
    let question = "--stages 4 --microbatches 8 --schedule gpipe,1f1b-i,zb-v --seed 3 \
                    --forward 10ms,10ms,10ms,14ms --backward-input 11ms --backward-weight 7ms";
    let cluster = "--cluster a100-roce --message 100MB --seating across-nodes --activation 2GiB";
    let noise = "--jitter pass=lognormal:0.05 --stall 0.05:9ms";
    for rest in [
        "--hop 1ms".to_owned(),
        format!("--hop 1ms {noise}"),
        format!("{cluster} {noise} --steps 2 --exchange 5ms --optimizer 3ms --offload 0.5"),
    ] {
        let words = format!("{question} {rest} --explain");
        let (data, table, _) = page(&words);
        let charts = data["charts"].as_array().unwrap();
        let rows = table.lines().filter(|line| line.starts_with("average"));
        let shares = table.lines().filter(|line| line.starts_with("of the step"));
        let rows: Vec<_> = rows.zip(shares).collect();
        assert_eq!((charts.len(), rows.len()), (3, 3));
        for (chart, (times, shares)) in charts.iter().zip(rows) {
            let keys = chart["idle"]["keys"].as_array().unwrap();
            let all = |key: &str| -> Vec<_> {
                keys.iter().map(|one| one[key].as_str().unwrap()).collect()
            };
            let cells = |line: &str| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(cells(times)[1..], all("time"));
            assert_eq!(cells(shares)[1..], all("share"));
        }
        let (_, json, _) = page(&format!("{words} --json"));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_gaps(&data, &json);
    }
}

/// Asserts that the gaps of the page, with what is exposed in slots, are what `json` says of each cause.
fn assert_gaps(data: &Value, json: &Value) {
    let own: Vec<Cause> = data["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| Cause::ALL.into_iter().find(|cause| own[0] == cause.name()).unwrap())
        .collect();
    let charts = data["charts"].as_array().unwrap();
    for (chart, result) in charts.iter().zip(json["results"].as_array().unwrap()) {
        let gaps = chart["idle"]["gaps"].as_array().unwrap();
        for (gaps, stage) in gaps.iter().zip(result["explain"]["stages"].as_array().unwrap()) {
            let sums = owed(gaps.as_str().unwrap());
            for (cause, sum) in own.iter().zip(sums) {
                let exposed = if cause.is_of_streams() { &stage["exposed_ns"] } else { &0.into() };
                let whole = sum + exposed.as_i64().unwrap();
                assert_eq!(whole, stage[cause.key()].as_i64().unwrap(), "{cause:?}");
            }
        }
    }
}

/// The sums by cause of the gaps of a stage, as the page has them: before which slot, to which causes, and
/// how much to each, in digits of 32.
fn owed(packed: &str) -> [i64; Cause::ALL.len()] {
    const DIGITS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";
    let mut bytes = packed.bytes().map(|byte| DIGITS.find(char::from(byte)).unwrap());
    let mut natural = || {
        let (mut number, mut scale) = (0i64, 1i64);
        loop {
            let digit = bytes.next()?;
            number += (digit % 32) as i64 * scale;
            scale *= 32;
            if digit < 32 {
                return Some(number);
            }
        }
    };
    let signed = |twice: i64| if twice % 2 == 1 { -(twice + 1) / 2 } else { twice / 2 };
    let mut sums = [0; Cause::ALL.len()];
    while natural().is_some() {
        let causes = natural().unwrap();
        for (_, sum) in sums.iter_mut().enumerate().filter(|(cause, _)| causes >> cause & 1 == 1) {
            *sum += signed(natural().unwrap());
        }
    }
    sums
}

/// Passes as chains of segments, on two orders with pairs and one without.
const CHAINS: &str = "--stages 4 --microbatches 8 --layers 16 --hop 2ms --chunks 2 \
    --schedule 1f1b-i,1f1b-i-overlap,dualpipe-v --chain \
    attention=4ms/9ms/2ms,dispatch=6ms/7ms,experts=4ms/5ms/6ms,combine=8ms/5ms";

#[test]
fn causes_of_streams_add_up_to_idle_and_exposed_time() {
    let cluster = "--cluster a100-roce --message 50MB --steps 2 --optimizer 3ms";
    for rest in ["", "--contention 0.35,1.31 --chain-measured alone", cluster] {
        for result in results(&format!("simulate {CHAINS} {rest} --explain --json")) {
            let (why, rates) = (&result["explain"], &result);
            let cost = why["cost_ns"].as_i64().unwrap();
            let (mut computing, mut exposed, mut all) = (0, 0, 0);
            for stage in why["stages"].as_array().unwrap() {
                let of = |key: &str| stage[key].as_i64().unwrap();
                let own = |cause: &Cause| *cause != Cause::CollectivesNotHidden;
                let own = Cause::ALL.into_iter().filter(own);
                let causes: i64 = own.map(|cause| of(cause.key())).sum();
                assert_eq!(causes, of("idle_ns") + of("exposed_ns"));
                assert_eq!(of("busy_ns"), of("computing_ns") + of("exposed_ns"));
                assert_eq!(cost, of("busy_ns") + of("idle_ns") + of("optimizer_ns"));
                computing += of("computing_ns");
                exposed += of("exposed_ns");
                all += of("communicating_ns");
                assert_eq!(
                    of("stretched_ns") > 0,
                    rest.contains("contention") && { result["schedule"] != "1f1b-i" }
                );
            }
            let span = 4.0 * result["span_ns"].as_f64().unwrap();
            let close = |key: &str, value: f64| {
                assert!((rates[key].as_f64().unwrap() - value).abs() < 1e-9, "{key} {value}");
            };
            close("compute_utilisation", computing as f64 / span);
            close("communication_hidden", (all - exposed) as f64 / all as f64);
            let pairs = result["pairs"].as_array().unwrap();
            assert_eq!(pairs.is_empty(), result["schedule"] == "1f1b-i");
            for pair in pairs {
                let of = |key: &str| pair[key].as_u64().unwrap();
                assert!(of("bound_ns") <= of("duration_ns") && of("duration_ns") <= of("apart_ns"));
                assert!(of("exposed_ns") < of("duration_ns") && of("count") > 0);
            }
        }
    }
}

#[test]
fn the_page_and_the_tables_of_streams_say_the_same() {
    let words = format!("{CHAINS} --explain");
    let (data, table, html) = page(&words);
    assert!(html.contains("class Lane") && data["communication"].as_array().unwrap().len() == 2);
    let (_, json, _) = page(&format!("{words} --json"));
    assert_gaps(&data, &serde_json::from_str(&json).unwrap());
    for text in [
        "communication not hidden",
        "(causes add up to idle and exposed time)",
        "pairs, by chunks",
        "F of 0-7, BW of 0-7",
        "communication of segments takes no time",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let header = table.lines().find(|line| line.starts_with("schedule")).unwrap();
    assert!(header.contains("compute   hidden") && !table.contains("stretched"), "{header}");
    // Nothing of that where passes have no segments.
    let plain = "--stages 4 --microbatches 8 --schedule 1f1b --forward 10ms --backward-input 9ms \
                 --backward-weight 8ms --explain";
    let (data, table, _) = page(plain);
    assert!(data["communication"].is_null() && data["charts"][0]["streams"].is_null());
    assert!(!table.contains("hidden") && !table.contains("exposed"));
}

#[test]
fn names_of_settings_are_no_markup_in_any_picture() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("hostile.toml");
    let name = "</script><img src=x onerror=alert(1)>&<b>";
    let keys = "stages = 2\nmicrobatches = 2\nschedule = \"1f1b\"\nforward = \"1ms\"\n\
                backward-input = \"1ms\"\nbackward-weight = \"1ms\"\nhop = \"1ms\"\n";
    std::fs::write(&scenario, format!("{keys}[[setting]]\nname = \"{name}\"\n")).unwrap();
    let pictures = ["gantt.svg", "levers.svg", "trace.json"].map(|one| folder.path().join(one));
    let [gantt, levers, trace] = pictures.each_ref().map(|path| path.display().to_string());
    let scenario = scenario.display();
    let (data, _, html) =
        page(&format!("{scenario} --svg {gantt} --explain-svg {levers} --trace {trace}"));
    assert!(data["charts"][0]["name"].as_str().unwrap().contains(name));
    // Nothing but the two elements of the page itself ends.
    assert!(!html.contains("<img") && html.matches("</script>").count() == 2);
    for svg in &pictures[..2] {
        let svg = std::fs::read_to_string(svg).unwrap();
        assert!(!svg.contains("<img") && !svg.contains("<b>") && svg.contains("&lt;/script&gt;"));
    }
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(&pictures[2]).unwrap()).unwrap();
    assert!(trace["traceEvents"][0]["args"]["name"].as_str().unwrap().contains(name));
}

#[test]
fn the_page_is_whole_and_takes_no_markup_from_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let order = folder.path().join("<b onclick=1>.txt");
    std::fs::write(&order, "F0.0 BW0.0\n").unwrap();
    let page = folder.path().join("page.html");
    let times = ["--forward", "1ms", "--backward-input", "1ms", "--backward-weight", "1ms"];
    let files = ["--schedule".as_ref(), order.as_os_str(), "--html".as_ref(), page.as_os_str()];
    let words = std::iter::once("simulate").chain(times).map(std::ffi::OsStr::new);
    stdout(&debubble(words.chain(files)));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("<b onclick") && html.contains("\\u003cb onclick"));
    let nothing = "--forward 0ms --backward-input 0ms --backward-weight 0ms --html unwritten.html";
    let empty = format!("simulate --stages 2 --microbatches 2 --schedule 1f1b {nothing}");
    refused(&run(&empty), &["nothing to draw"]);
}
