//! Headlines of answers against an exhaustive comparison of their rows: the best one that keeps its limits.

use serde_json::Value;

use crate::cli::{run, stdout};

const TIMES: &str = "--stages 4 --microbatches 8 --forward 12ms --backward-input 10ms --backward-weight 8ms \
                     --hop 500us --activation 1GiB";

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(&format!("{line} --json")))).unwrap()
}

fn headline(answer: &Value) -> &str {
    answer["headline"].as_str().unwrap()
}

fn rows(answer: &Value) -> &[Value] {
    answer["results"].as_array().unwrap()
}

/// The first line that the command line prints, without the ends of lines.
fn printed(line: &str) -> String {
    let out = stdout(&run(line));
    let (first, _) = out.split_once("\n\n").unwrap();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn schedules_side_by_side_are_led_by_the_shortest_that_fits() {
    for schedules in ["1f1b,zb-v,zb-h2,pipedream", "1f1b-i,zb-1p,v-half", "all"] {
        for limit in ["2GiB", "3GiB", "4GiB", "7GiB", "40GiB"] {
            let line = format!(
                "simulate {TIMES} --schedule {schedules} --memory-limit {limit} --gantt never"
            );
            let answer = json(&line);
            let asynchronous =
                |row: &&Value| row["schedule"] == "pipedream" || row["schedule"] == "pipedream-2bw";
            let compared: Vec<&Value> =
                rows(&answer).iter().filter(|row| !asynchronous(row)).collect();
            let fitting = compared.iter().filter(|row| row["fits"] == true);
            let least = fitting.clone().map(|row| row["span_ns"].as_u64().unwrap()).min();
            let said = headline(&answer);
            match least {
                None => assert!(said.starts_with("None of these"), "{limit}: {said}"),
                Some(least) => {
                    let best: Vec<&str> = fitting
                        .filter(|row| row["span_ns"] == least)
                        .map(|row| row["schedule"].as_str().unwrap())
                        .collect();
                    let named = best.iter().any(|name| said.contains(&format!(": {name}, ")));
                    assert!(named && said.starts_with("Best that fits, of "), "{best:?}: {said}");
                }
            }
            // 1F1B is compared with where it keeps the limit alone.
            let baseline = rows(&answer).iter().find(|row| row["schedule"] == "1f1b");
            let fits = baseline.is_some_and(|row| row["fits"] == true);
            assert!(fits || !said.contains("as fast as 1f1b"), "{limit}: {said}");
            let spaces = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(printed(&line), spaces);
        }
    }
}

#[test]
fn many_settings_are_counted() {
    let answer = json("simulate scenarios/paper/table5.toml");
    let mut best = std::collections::BTreeMap::<&str, usize>::new();
    let settings: std::collections::BTreeSet<&str> =
        rows(&answer).iter().map(|row| row["setting"].as_str().unwrap()).collect();
    for setting in &settings {
        let own = rows(&answer).iter().filter(|row| row["setting"] == **setting);
        let least = own.min_by_key(|row| row["span_ns"].as_u64().unwrap()).unwrap();
        *best.entry(least["schedule"].as_str().unwrap()).or_default() += 1;
    }
    let said = headline(&answer);
    assert!(said.contains(&format!("of {} settings", settings.len())), "{said}");
    for (name, count) in best {
        assert!(said.contains(&format!("{name} in {count}")), "{said}");
    }
}

#[test]
fn steps_with_dead_workers_keep_the_limit_of_healthy_ones() {
    let line = format!(
        "failures {TIMES} --schedule 1f1b,zb-h2 --memory-limit 4GiB --data-parallel 4 --mtbf 7200s"
    );
    let answer = json(&line);
    let row = |name: &str| rows(&answer).iter().find(|row| row["schedule"] == name).unwrap();
    assert_eq!(
        (&row("1f1b")["healthy_fits"], &row("zb-h2")["healthy_fits"]),
        (&true.into(), &false.into())
    );
    let said = headline(&answer);
    assert!(said.contains("1f1b") && !said.contains("zb-h2"), "{said}");
    // Every way that fits is compared with.
    let ways = rows(&answer).iter().filter(|row| row["healthy_fits"] == true).flat_map(|row| {
        [&row["rerouted"]["step_ns"], &row["dropped"]["step_ns"]].map(Value::as_u64)
    });
    let least = ways.flatten().min().unwrap();
    #[allow(clippy::cast_precision_loss)]
    let least = format!("{:.3} ms", least as f64 / 1e6);
    assert!(said.contains(&format!("shortest step that fits: {least}")), "{least}: {said}");
    let policies = rows(&answer).iter().flat_map(|row| row["policies"].as_array().unwrap());
    let most = policies
        .filter(|one| one["fits"] == true)
        .max_by(|a, b| {
            let rate = |one: &Value| one["steps_per_hour"].as_f64().unwrap();
            rate(a).total_cmp(&rate(b))
        })
        .unwrap();
    assert!(said.contains(&format!("policy {} does", most["policy"].as_str().unwrap())), "{said}");
    let table = stdout(&run(&line));
    assert!(table.contains("no: healthy"), "{table}");
}

#[test]
fn searches_lead_with_the_gain_and_the_bound() {
    let line = format!("search {TIMES} --memory-limit 3GiB");
    let answer = json(&line);
    let [row] = rows(&answer) else { panic!() };
    let said = headline(&answer);
    let [cost, bound] = ["cost_ns", "bound_ns"].map(|key| row[key].as_u64().unwrap());
    assert!(said.starts_with("Best order found of 1 chunk per stage under 3GiB: "), "{said}");
    assert_eq!(cost == bound, said.contains("proved optimal"), "{said}");
    assert_eq!(printed(&line), said.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// The optimum of one chunk is not that of all chunks: what `simulate` lists as shorter, `search` names.
#[test]
fn searches_name_a_shorter_published_schedule_of_other_chunks() {
    let times = "--forward 1ms --backward-input 1ms --backward-weight 1ms --activation 1GiB";
    let question = format!("--stages 2 --microbatches 31 {times} --memory-limit 0.75p");
    let answer = json(&format!("search {question}"));
    let [row] = rows(&answer) else { panic!() };
    let solution = &row["solution"];
    assert_eq!((&solution["gap"], &solution["among"]), (&0.0.into(), &"1 chunk per stage".into()));
    let elsewhere = &row["elsewhere"];
    assert_eq!((&elsewhere["chunks"], &elsewhere["placement"]), (&2.into(), &"looped".into()));
    let name = elsewhere["schedule"].as_str().unwrap();
    let simulated = json(&format!("simulate {question} --schedule {name}"));
    let [listed] = rows(&simulated) else { panic!() };
    assert_eq!((&listed["span_ns"], &listed["fits"]), (&elsewhere["cost_ns"], &true.into()));
    assert!(elsewhere["cost_ns"].as_u64() < row["cost_ns"].as_u64());
    let said = headline(&answer);
    let optimal = "proved optimal: no order of 1 chunk per stage takes less. But ";
    let cure = "`chunks` 2 and `placement` looped give its order.";
    assert!(said.contains(&format!("{optimal}{name} ")) && said.ends_with(cure), "{said}");
    // The search there has run, too, and gives what it gives by itself.
    let there = json(&format!("search {question} --chunks 2 --placement looped"));
    let [alone] = rows(&there) else { panic!() };
    assert!(alone["cost_ns"].as_u64() <= elsewhere["cost_ns"].as_u64(), "{alone}");
    for key in ["cost_ns", "bound_ns"] {
        assert_eq!(alone[key], elsewhere["searched"][key], "{said}");
    }
    // Where chunks are asked for, or a time is set, the schedule is named alone.
    for flag in ["--chunks 1", "--time-limit 10s"] {
        let answer = json(&format!("search {question} {flag}"));
        let [row] = rows(&answer) else { panic!() };
        assert_eq!(row["elsewhere"]["cost_ns"], elsewhere["cost_ns"], "{flag}");
        assert!(row["elsewhere"]["searched"].is_null(), "{flag}");
        let cure = "`chunks` 2 and `placement` looped search there.";
        assert!(headline(&answer).ends_with(cure), "{flag}");
    }
}
