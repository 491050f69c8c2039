//! The answer to the first question, as the README shows it.

use serde_json::Value;

use super::markdown::table;
use super::schedules::ask;
use crate::reference::root;

/// The schedules of the README, and what it calls them.
const ROWS: [(&str, &str); 3] = [("1f1b", "1F1B"), ("zb-v", "ZB-V"), ("zb-auto", "searched")];

/// The results of `command`, asked about the question of the README.
fn results(command: &str, rest: &str) -> Vec<Value> {
    let scenario = root().join("scenarios/first.toml");
    let line = format!("{command} {} --json {rest}", scenario.display());
    let answer: Value = serde_json::from_slice(&ask(&line)).unwrap();
    answer["results"].as_array().unwrap().clone()
}

fn percent(rate: &Value) -> String {
    format!("{:.2}\u{a0}%", rate.as_f64().unwrap() * 100.0)
}

/// Bubble, peak memory and proof of three orders.
pub fn answer() -> String {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    let simulated = results("simulate", &format!("--gantt never --schedule {}", names.join(",")));
    let searched = &results("search", "")[0];
    assert_eq!(searched["bubble_rate"], simulated[2]["bubble_rate"]);
    let rows = simulated.iter().zip(ROWS).map(|(one, (name, shown))| {
        let peaks = one["peak_activation_bytes"].as_array().unwrap().iter();
        let peak = peaks.map(|peak| peak.as_f64().unwrap()).fold(0.0, f64::max);
        let fits = match one["fits"] == true {
            true if searched["published"] == name => "**yes, best published schedule**",
            true => "yes",
            false => "no",
        };
        let is_searched = name == "zb-auto";
        let bound = percent(&searched["bound_rate"]);
        let proof = match is_searched {
            true => format!("no order is below {bound}"),
            false => String::new(),
        };
        vec![
            shown.to_owned(),
            percent(&one["bubble_rate"]),
            format!("{:.2}\u{a0}GiB", peak / f64::from(1u32 << 30)),
            fits.to_owned(),
            proof,
        ]
    });
    table(&["schedule", "bubble", "peak memory", "fits 32 GiB", "proved"], rows)
}
