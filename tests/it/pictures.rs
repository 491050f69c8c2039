//! Pictures say what tables say: every point of a picture is held against its row, front and fit too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{debubble, refused, run, stdout};
use crate::plan::SMALL as SMALL_PLAN;

const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 500us";

/// The hint of a point of a picture.
type Spot = BTreeMap<String, String>;

/// Every point of `svg`, by the names of its attributes.
fn spots(svg: &str) -> Vec<Spot> {
    let lines = svg.lines().filter(|line| line.starts_with("<path class=\"spot\""));
    let attributes = |line: &str| {
        let parts = line.split(" data-").skip(1).map(|part| {
            let (name, rest) = part.split_once("=\"").unwrap();
            let (value, _) = rest.split_once('"').unwrap();
            (name.to_owned(), value.to_owned())
        });
        parts.collect()
    };
    lines.map(attributes).collect()
}

fn number(spot: &Spot, name: &str) -> f64 {
    spot[name].parse().unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// A folder with `text` as `grid.toml`, and a sweep of it.
fn swept(text: &str, more: &[&str]) -> (TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("grid.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.current_dir(folder.path()).args(["sweep", "grid.toml", "--out", "grid.csv"]);
    let output = command.args(more).output().unwrap();
    (folder, output)
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

fn rows(folder: &Path) -> Vec<Spot> {
    csv::Reader::from_path(folder.join("grid.csv"))
        .unwrap()
        .deserialize()
        .map(Result::unwrap)
        .collect()
}

/// Whether a point is on the front of `all`, by its definition.
fn on_front(point: (f64, f64), all: &[(f64, f64)]) -> bool {
    !all.iter().any(|other| other.0 <= point.0 && other.1 <= point.1 && *other != point)
}

#[test]
fn every_schedule_stands_as_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.svg");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/all.toml");
    let args = ["simulate", scenario, "--json", "--pareto", path.to_str().unwrap()];
    let answer: Value = serde_json::from_str(&stdout(&debubble(args))).unwrap();
    let svg = fs::read_to_string(&path).unwrap();
    let spots = spots(&svg);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(spots.len(), results.len());
    let mut counts = BTreeMap::new();
    for one in results {
        let spot = spots.iter().find(|spot| spot["series"] == one["schedule"]).unwrap();
        let peaks = one["peak_activation_bytes"].as_array().unwrap().iter();
        let peak = peaks.map(|peak| peak.as_f64().unwrap()).fold(0.0, f64::max);
        assert!(near(number(spot, "x") * f64::from(1u32 << 30), peak), "{spot:?}");
        assert!(near(number(spot, "y"), one["bubble_rate"].as_f64().unwrap()), "{spot:?}");
        let expected = match (one["on_front"] == true, one["fits"] == true) {
            _ if !one["measured_updates"].is_null() => "not-compared",
            (_, false) => "over-limit",
            (true, _) => "front",
            (false, _) => "beaten",
        };
        assert_eq!(spot["standing"], expected, "{one}");
        assert_eq!(one["on_front"] == true, expected == "front", "{one}");
        *counts.entry(expected).or_insert(0) += 1;
    }
    assert!(counts.len() == 4 && counts["front"] >= 5, "{counts:?}");
    let of = |name: &str| &spots.iter().find(|spot| spot["series"] == name).unwrap()["standing"];
    for name in ["zb-v", "v-adaptive", "v-zb"] {
        assert_eq!(of(name), "front");
    }
    assert_eq!(of("pipedream"), "not-compared");
    // The staircase goes down at each memory of the front, and nowhere else.
    let front = spots.iter().filter(|spot| spot["standing"] == "front");
    let mut steps: Vec<String> = front.map(|spot| spot["x"].clone()).collect();
    steps.sort();
    steps.dedup();
    let stairs = svg.lines().filter(|line| line.starts_with("<polyline"));
    let corners = stairs.map(|line| line.matches(',').count()).max().unwrap();
    assert_eq!(corners, 2 * steps.len() + 1);
}

#[test]
fn no_front_goes_through_a_bound_that_nobody_reached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front.svg");
    let question = "search --stages 4 --microbatches 6 --memory-limits 0.5p,1p,2p --effort 0";
    let words = format!("{question} {TIMES} --pareto {}", path.display());
    let table = stdout(&run(&words));
    let answer: Value = serde_json::from_str(&stdout(&run(&format!("{words} --json")))).unwrap();
    let spots = spots(&fs::read_to_string(&path).unwrap());
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    let point = |row: &Value, peak: &str, rate: &str| {
        Some((row[peak].as_f64()? / 4.0, row[rate].as_f64()?))
    };
    let found = |row: &Value| point(row, "peak_microbatches", "bubble_rate");
    let published = |row: &Value| point(row, "published_peak_microbatches", "published_rate");
    let all: Vec<(f64, f64)> =
        results.iter().flat_map(|row| [found(row), published(row)]).flatten().collect();
    let at = |series: &str, (x, y): (f64, f64)| {
        let same = |spot: &&Spot| near(number(spot, "x"), x) && near(number(spot, "y"), y);
        spots.iter().filter(|spot| spot["series"] == series).find(same).unwrap()
    };
    for row in results {
        assert_eq!(row["on_front"], on_front(found(row).unwrap(), &all), "{row}");
        let standing = |marked: &Value| if *marked == true { "front" } else { "beaten" };
        let spot = at("zb-auto", found(row).unwrap());
        assert_eq!(spot["standing"], standing(&row["on_front"]));
        if let Some(point) = published(row) {
            let marked = &row["published_on_front"];
            assert_eq!(*marked, on_front(point, &all), "{row}");
            assert_eq!(at("best published", point)["standing"], standing(marked));
        }
        // A bound stands at its limit.
        let limit = row["memory_limit"].as_str().unwrap().trim_end_matches('p').parse().unwrap();
        let bound = at("bound", (limit, row["bound_rate"].as_f64().unwrap()));
        assert_eq!(bound["standing"], "not-compared");
    }
    let stars = table.lines().filter(|line| line.ends_with(" *")).count();
    assert_eq!(stars, results.iter().filter(|row| row["on_front"] == true).count());
}

const GRID: &str = r#"
schedule = ["1f1b", "zb-h2", "zb-heuristic", "pipedream"]
forward = "10ms"
backward-input = "11ms"
backward-weight = "7ms"
[sweep]
stages = [2, 4]
microbatches = [8, 16]
memory-limit = ["1p", "1.5p", "2p"]
"#;

#[test]
fn a_sweep_draws_what_does_not_fit_as_such() {
    let (folder, output) = swept(GRID, &["--plot", "lines.svg"]);
    stdout(&output);
    let (rows, svg) = (rows(folder.path()), read(folder.path(), "lines.svg"));
    let spots = spots(&svg);
    assert_eq!(spots.len(), rows.len());
    let over = rows.iter().filter(|row| row["fits"] == "false").count();
    assert!(over > 0 && over < rows.len());
    for row in &rows {
        let panel = format!("stages={}, microbatches={}", row["stages"], row["microbatches"]);
        let limit = row["memory-limit"].trim_end_matches('p');
        let own = |spot: &&Spot| {
            spot["panel"] == panel && spot["series"] == row["schedule"] && spot["x"] == limit
        };
        let spot = spots.iter().find(own).unwrap();
        assert_eq!(spot["fits"], row["fits"], "{row:?}");
        assert_eq!(spot["y"], row["bubble_rate"], "{row:?}");
    }
    assert!(svg.contains("\ndoes not fit in memory\n"));
    let map = ["--plot", "map.svg", "--plot-map", "memory-limit,microbatches"];
    let (folder, output) = swept(GRID, &map);
    stdout(&output);
    let svg = read(folder.path(), "map.svg");
    assert_eq!(svg.matches("data-fits=\"false\"").count(), over);
    assert_eq!(svg.matches("\ngrey and struck through").count(), 1);
}

#[test]
fn a_sweep_compares_what_answers_the_same_question() {
    let (folder, output) = swept(GRID, &["--plot-pareto", "pareto.svg"]);
    stdout(&output);
    let (rows, spots) = (rows(folder.path()), spots(&read(folder.path(), "pareto.svg")));
    let mut panels: BTreeMap<String, Vec<&Spot>> = BTreeMap::new();
    for row in &rows {
        let panel = format!("stages={}, microbatches={}", row["stages"], row["microbatches"]);
        panels.entry(panel).or_default().push(row);
    }
    assert_eq!(panels.len(), 4);
    let mut seen = BTreeMap::new();
    for (panel, rows) in &panels {
        let at = |row: &Spot| {
            let of = |name: &str| row[name].parse::<f64>().unwrap();
            (of("peak_microbatches") / of("stages"), of("bubble_rate"))
        };
        let compared = |row: &&&Spot| row["fits"] == "true" && row["schedule"] != "pipedream";
        let all: Vec<(f64, f64)> = rows.iter().filter(compared).map(|row| at(row)).collect();
        for row in rows {
            let point = at(row);
            let expected = match (&row["schedule"][..], &row["fits"][..]) {
                ("pipedream", _) => "not-compared",
                (_, "false") => "over-limit",
                _ if on_front(point, &all) => "front",
                _ => "beaten",
            };
            *seen.entry(expected).or_insert(0) += 1;
            let own = |spot: &&Spot| {
                spot["panel"] == *panel
                    && spot["series"] == row["schedule"]
                    && spot["standing"] == expected
                    && near(number(spot, "x"), point.0)
                    && near(number(spot, "y"), point.1)
            };
            assert!(spots.iter().any(|spot| own(&spot)), "{row:?}, {expected}");
        }
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    // Far too many panels are refused before anything is answered.
    let many = GRID.replace("[8, 16]", "{ from = 1, to = 40, step = 1 }");
    for flag in ["--plot-pareto", "--plot"] {
        let (folder, output) = swept(&many, &[flag, "x.svg"]);
        refused(&output, &[flag, "would draw 80 panels", "at most 36"]);
        assert!(!folder.path().join("grid.csv").exists());
    }
}

#[test]
fn the_planner_draws_its_front() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.svg");
    let question = folder.path().join("plan.toml");
    let gpt3 = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/plan/gpt3.toml");
    // With one schedule it is answered in a quarter of the time.
    let gpt3 = fs::read_to_string(gpt3).unwrap() + "\n[search]\nschedule = [\"1f1b\"]\n";
    fs::write(&question, gpt3).unwrap();
    let [question, path] = [&question, &path].map(|path| path.to_str().unwrap());
    let answer = debubble(["plan", question, "--json", "--svg", path]);
    let answer: Value = serde_json::from_str(&stdout(&answer)).unwrap();
    let plans = answer["plans"].as_array().unwrap();
    let svg = fs::read_to_string(path).unwrap();
    let spots = spots(&svg);
    let figure = |plan: &Value, name: &str| plan[name].as_f64().unwrap();
    let all: Vec<(f64, f64)> =
        plans.iter().map(|plan| (figure(plan, "days"), figure(plan, "dollars"))).collect();
    for (plan, &point) in plans.iter().zip(&all) {
        assert_eq!(plan["on_front"], on_front(point, &all), "{plan}");
        let standing = if plan["on_front"] == true { "front" } else { "beaten" };
        let own = |spot: &&Spot| near(number(spot, "x"), point.0) && spot["standing"] == standing;
        assert!(spots.iter().any(|spot| own(&spot)), "{plan}");
    }
    for standing in ["front", "beaten"] {
        let of = |spot: &&Spot| spot["standing"] == standing;
        assert!(spots.iter().filter(of).count() > 1, "{standing}");
    }
}

#[test]
fn figure_9_shows_what_was_published() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let spots = spots(&fs::read_to_string(format!("{root}results/fig9.svg")).unwrap());
    let figures = format!("{root}scenarios/paper/fig9.csv");
    let mut reader = csv::Reader::from_path(figures).unwrap();
    let mut count = 0;
    for line in reader.deserialize::<Spot>() {
        let line = line.unwrap();
        for method in ["zb-heuristic", "zb-v"] {
            let limit = line["memory-limit"].trim_end_matches('p').parse().unwrap();
            let own = |spot: &&Spot| {
                spot["panel"] == line["setting"]
                    && spot["series"] == method
                    && near(number(spot, "x"), limit)
            };
            let spot = spots.iter().find(own).unwrap();
            let published: f64 = line[method].parse().unwrap();
            assert!(near(number(spot, "beside"), published), "{spot:?}");
            assert!((number(spot, "y") - published).abs() < 1e-9, "{spot:?}");
            count += 1;
        }
    }
    assert_eq!((count, spots.len()), (306, 306));
}

#[test]
fn committed_pictures_name_themselves_and_read_whole_numbers_as_such() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "svg") {
            continue;
        }
        let svg = fs::read_to_string(&path).unwrap();
        let named = |tag: &str| svg.matches(&format!("\n<{tag}>")).count();
        assert_eq!((named("title"), named("desc")), (1, 1), "{}", path.display());
        assert!(!svg.contains(".0\n"), "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 13);
}

/// A bar is the gain in pairs where the schedule has some, its tick the gain with passes one after the other.
#[test]
fn the_picture_of_gains_by_overlap_shows_its_table() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/results/");
    let spots = spots(&fs::read_to_string(format!("{root}overlap-gain.svg")).unwrap());
    let mut reader = csv::Reader::from_path(format!("{root}overlap-gain.csv")).unwrap();
    let rows: Vec<Spot> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(spots.len(), 7 * 6);
    for spot in &spots {
        let of = |convention: &str| {
            let own = |row: &&Spot| {
                let setting = row["row"].split(", ").next().unwrap();
                setting == spot["panel"]
                    && row["column"] == spot["series"]
                    && row["convention"] == convention
            };
            rows.iter().find(own).map(|row| number(row, "ours"))
        };
        let apart = of("one pass after the other").unwrap();
        assert!(near(number(spot, "tick"), apart), "{spot:?}");
        assert!(near(number(spot, "y"), of("pairs").unwrap_or(apart)), "{spot:?}");
    }
}

/// Width of a picture, in pixels.
fn width(svg: &str) -> u32 {
    let (_, rest) = svg.split_once(" width=\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn timelines_have_their_figures_and_the_width_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.svg");
    let question = format!("simulate {TIMES} --stages 4 --microbatches 12 --schedule 1f1b,zb-h1");
    for (asked, wide) in [("1col", 317), ("2col", 673), ("84mm", 317), ("900px", 900)] {
        let words = format!("{question} --json --width {asked} --svg {}", path.display());
        let answer: Value = serde_json::from_str(&stdout(&run(&words))).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        assert_eq!(width(&svg), wide, "{asked}");
        assert!(svg.contains("\n4 stages, 12 microbatches\n"));
        for one in answer["results"].as_array().unwrap() {
            let bubble = format!("bubble {:.2} %", one["bubble_rate"].as_f64().unwrap() * 100.0);
            let makespan = one["makespan_ns"].as_f64().unwrap() / 1e6;
            assert!(svg.contains(&bubble), "{asked}: {bubble}");
            // In the description, whatever the width is.
            assert!(svg.contains(&format!("makespan {makespan:.3} ms")), "{asked}");
        }
    }
    let words = format!("{question} --width 3cm --svg {}", path.display());
    refused(&run(&words), &["--width", "`3cm` is not a width", "84mm, 1200px, 1col or 2col"]);
}

/// The width of the picture that `words` draw in a column of a paper, which end with the flag of its file.
fn width_in_a_column(words: &str) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture.svg");
    stdout(&run(&format!("{words} {} --width 1col", path.display())));
    width(&fs::read_to_string(path).unwrap())
}

#[test]
fn every_command_that_draws_has_a_width() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let question = format!("{TIMES} --stages 4 --microbatches 6 --schedule zb-h1");
    stdout(&run(&format!("simulate {question} --timeline {}", at("a.json"))));
    let axes = "schedule = \"1f1b\"\n[sweep]\nstages = [2, 4]\nmicrobatches = [4, 8]\n";
    let times = "forward = \"2ms\"\nbackward-input = \"2ms\"\nbackward-weight = \"2ms\"\n";
    fs::write(at("grid.toml"), format!("{times}{axes}")).unwrap();
    fs::write(at("plan.toml"), SMALL_PLAN).unwrap();
    let packed = "fsdp --devices 2 --minibatch-size 1,2 --minibatches 4";
    let commands = [
        format!("simulate {question} --explain-svg"),
        format!("simulate {question} --pareto"),
        format!("search {TIMES} --stages 2 --microbatches 4 --svg"),
        format!("search {TIMES} --stages 2 --microbatches 4 --pareto"),
        format!("sweep {} --svg", at("grid.toml")),
        format!("sweep {} --out {} --plot", at("grid.toml"), at("lines.csv")),
        format!("sweep {} --out {} --plot-pareto", at("grid.toml"), at("front.csv")),
        format!("compare {0} {0} --svg", at("a.json")),
        format!("plan {} --svg", at("plan.toml")),
        format!("{packed} --svg"),
        "fsdp --devices 2 --minibatch-size 2 --layers 1 --timeline".to_owned(),
        format!("execute {question} --duration 20ms --steps 1 --svg"),
    ];
    for words in commands {
        assert_eq!(width_in_a_column(&words), 317, "{words}");
    }
    stdout(&run(&format!("reproduce table5 interleave --width 2col --out {}", at("tables"))));
    for name in ["table5", "interleave"] {
        let svg = fs::read_to_string(at(&format!("tables/{name}.svg"))).unwrap();
        assert_eq!(width(&svg), 673, "{name}");
    }
}

#[test]
fn a_search_draws_the_bound_that_it_proves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.svg");
    let words = format!(
        "search {TIMES} --stages 4 --microbatches 6 --memory-limit 0.75p --effort 0 --json --svg {}",
        path.display()
    );
    let answer: Value = serde_json::from_str(&stdout(&run(&words))).unwrap();
    let found = &answer["results"][0];
    let svg = fs::read_to_string(&path).unwrap();
    let [cost, bound] = ["cost_ns", "bound_ns"].map(|name| found[name].as_f64().unwrap() / 1e6);
    assert!(cost > bound, "{found}");
    assert!(svg.contains(&format!("span {cost:.3} ms; dashed: lower bound {bound:.3} ms")));
    // Dashes of two pixels, and nothing else is drawn with them.
    assert!(svg.matches("stroke=\"#222222\" stroke-width=\"2\"").count() > 5);
}

#[test]
fn a_sweep_is_drawn_as_its_axes_suggest_and_needs_no_file_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let draw = |axes: &str| {
        let (head, _) = GRID.split_once("[sweep]").unwrap();
        let text = format!("{head}stages = 4\n[sweep]\n{axes}");
        fs::write(folder.path().join("grid.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.current_dir(folder.path()).args(["sweep", "grid.toml", "--svg", "grid.svg"]);
        stdout(&command.output().unwrap());
        read(folder.path(), "grid.svg")
    };
    let limits = "memory-limit = [\"1p\", \"1.5p\", \"2p\"]\n";
    let lines = draw(&format!("microbatches = [8]\n{limits}"));
    assert_eq!(spots(&lines).len(), 4 * 3);
    assert!(lines.contains("\nmemory-limit, in p\n"));
    let maps = draw(&format!("microbatches = [8, 16]\n{limits}"));
    assert_eq!(spots(&maps).len(), 4 * 3 * 2);
    assert!(maps.contains("16, 1.5p: ") || maps.contains("1.5p, 16: "), "{maps}");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["grid.svg", "grid.toml"]);
}

#[test]
fn a_terminal_shows_the_first_part_of_what_is_too_large() {
    let question = format!("simulate {TIMES} --stages 4 --microbatches 200 --schedule zb-h1");
    let always = stdout(&run(&format!("{question} --gantt always")));
    let shown: Vec<&str> = always.lines().filter(|line| line.starts_with("stage ")).collect();
    assert!(
        shown.len() == 4 && shown.iter().all(|line| line.len() > 110 && line.len() <= 120),
        "{always}"
    );
    assert!(shown[0].starts_with("stage 0 |F0 "), "{always}");
    assert!(always.contains("the first ") && always.contains(" of 5"), "{always}");
    assert!(!stdout(&run(&question)).contains("stage 0 |"));
}

#[test]
fn passes_too_narrow_to_draw_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dense.svg");
    let draw = |microbatches: u32| {
        let shape = format!("--stages 2 --microbatches {microbatches} --schedule zb-h1");
        stdout(&run(&format!("simulate {TIMES} {shape} --gantt never --svg {}", path.display())));
        fs::read_to_string(&path).unwrap()
    };
    assert!(!draw(20).contains("narrower than a pixel"));
    let svg = draw(2000);
    let said = "12000 of 12000 passes are narrower than a pixel";
    assert!(svg.contains(said) && svg.contains("crispEdges"));
}

/// The page that `words` ask for.
fn page(words: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    stdout(&run(&format!("simulate {TIMES} {words} --gantt never --html {}", path.display())));
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_large_page_is_small_and_says_where_it_ends() {
    let shape = "--stages 32 --microbatches 256 --schedule 1f1b,zb-h1,zb-2p,zb-v";
    let calm = page(shape);
    assert!(calm.len() < 3_000_000, "{}", calm.len());
    let jitter = page(&format!("{shape} --jitter pass=lognormal:0.05 --seed 1"));
    assert!(jitter.len() < 6_000_000, "{}", jitter.len());
    let one = page("--stages 4 --microbatches 8 --schedule 1f1b");
    let (_, rest) = one.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let (end, makespan) = (&data["end"], &data["charts"][0]["makespan"]);
    assert!(end.as_u64() > makespan.as_u64(), "{end} {makespan}");
    let text = data["axis"].as_str().unwrap();
    assert!(text.contains("makespan") && text.contains("grey after its last pass"), "{text}");
    assert!(data["left_out"].is_null());
    // The script draws an axis.
    assert!(one.contains("axis(pen)"));
}

#[test]
fn a_page_that_no_browser_would_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let shape = "--stages 2 --microbatches 1000000 --schedule 1f1b,gpipe";
    let output = run(&format!("simulate {TIMES} {shape} --gantt never --html {}", path.display()));
    refused(&output, &["--html", "at most 20 MB", "name fewer schedules"]);
    assert!(!path.exists());
}

#[test]
fn what_is_not_checked_neither_matches_nor_misses() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let paper = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/paper");
    let output = debubble([
        "reproduce".as_ref(),
        "offload".as_ref(),
        "--check".as_ref(),
        "--json".as_ref(),
        "--paper".as_ref(),
        Path::new(paper).as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let cells = answer["cells"].as_array().unwrap();
    let of = |verdict: &str| cells.iter().filter(|cell| cell["verdict"] == verdict).count();
    let [matched, expected, not_checked] = ["yes", "expected miss", "not checked"].map(of);
    assert_eq!(matched + expected + not_checked, cells.len());
    let count = |wanted: &Value| cells.iter().filter(|cell| cell["match"] == *wanted).count();
    assert_eq!(count(&Value::Null), expected + not_checked);
    let beside = cells.iter().filter(|cell| cell["verdict"] == "not checked");
    assert!(
        beside
            .into_iter()
            .all(|cell| { cell["convention"].as_str().unwrap().starts_with("not checked: ") })
    );
    let said = String::from_utf8(output.stderr).unwrap();
    let line = format!(
        "offload: {matched} of {} cells match, {expected} expected misses, {not_checked} not checked",
        matched + expected
    );
    assert!(said.contains(&line), "{said}");
    let drawn = spots(&fs::read_to_string(out.join("offload.svg")).unwrap());
    assert_eq!(drawn.len(), 26, "a point for each bar of figure 15");
    let written = fs::read_to_string(out.join("offload.csv")).unwrap();
    let column = |word: &str| written.lines().filter(|line| line.contains(word)).count();
    assert_eq!(column(",not checked,,"), not_checked);
    assert_eq!(column(",yes,"), matched);
    assert_eq!(column(",expected miss,"), expected);
}
