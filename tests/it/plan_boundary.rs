//! `debubble plan`: what lies between two steps is a key, and whoever takes a step takes it from there.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;
use crate::plan::{SMALL, command, refusal};

/// The small question on one node under `boundary`, with `schedule` on four stages.
fn question(boundary: &str, schedule: &str, more: &str) -> String {
    let keys = format!(
        "[training]\nboundary = \"{boundary}\"\n[search]\npipeline = [4]\nzero = [0]\n\
         schedule = [\"{schedule}\"]\n{more}\n[noise]"
    );
    SMALL.replace("[8, 16]", "[8]").replace("[noise]", &keys)
}

/// The plan to take, and what `simulate` says of its scenario.
fn planned_and_simulated(question: &str) -> (Value, Value, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question).unwrap();
    let winner = folder.path().join("winner");
    let mut ask = command();
    ask.arg("plan").arg(&path).arg("--json").arg("--export").arg(&winner);
    let answer: Value = serde_json::from_str(&stdout(&ask.output().unwrap())).unwrap();
    let at = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
    let scenario = winner.join("scenario.toml");
    let out = command().args(["simulate", "--json"]).arg(&scenario).output().unwrap();
    let simulated: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let megatron = fs::read_to_string(winner.join("megatron.sh")).unwrap_or_default();
    (answer["plans"][at].clone(), simulated["results"][0].clone(), megatron)
}

#[test]
fn exported_scenarios_have_the_step_of_the_plan_under_both_boundaries() {
    // Two replicas have gradients to reduce.
    let keys = "tensor = [1]\nmicrobatch = [1]";
    for schedule in ["1f1b", "zb-2p", "1f1b-i", "zb-v", "vocab-1"] {
        let step = |boundary: &str| {
            let (plan, simulated, _) = planned_and_simulated(&question(boundary, schedule, keys));
            let hardware = &simulated["hardware"];
            assert_eq!(plan["step_ns"], hardware["step_ns"], "{schedule}, {boundary}");
            assert!(hardware["out_of_memory"].is_null(), "{schedule}, {boundary}");
            assert_eq!(plan["boundary"], boundary);
            plan["step_ns"].as_u64().unwrap()
        };
        let [barrier, post] = ["barrier", "post-validation"].map(step);
        assert!(post <= barrier, "{schedule}: {post} against {barrier}");
        // Stages of ZB-2p end as staggered as they begin: all of that is hidden.
        assert!(schedule != "zb-2p" || post < barrier, "{schedule}: {post}");
    }
}

/// Searching, replay and noise take the boundary from the question too.
#[test]
fn all_steps_of_a_plan_are_under_the_boundary_of_its_question() {
    let ask =
        |boundary: &str| planned_and_simulated(&question(boundary, "zb-2p", "tensor = [2]")).0;
    let [barrier, post] = ["barrier", "post-validation"].map(ask);
    for key in ["step_ns", "replay_step_ns", "step_p50_ns", "step_p95_ns", "bubble_rate", "days"] {
        let number = |plan: &Value| plan[key].as_f64().unwrap_or_else(|| panic!("{key} of {plan}"));
        assert!(number(&post) < number(&barrier), "{key}: {post} against {barrier}");
    }
}

#[test]
fn the_boundary_is_said_and_anything_else_refused() {
    let (_, _, megatron) =
        planned_and_simulated(&question("post-validation", "1f1b", "tensor = [2]"));
    assert!(megatron.contains("--enable-optimizer-post-validation"), "{megatron}");
    let (_, _, megatron) = planned_and_simulated(&question("barrier", "1f1b", "tensor = [2]"));
    assert!(!megatron.is_empty() && !megatron.contains("post-validation"), "{megatron}");
    let text = refusal(&question("asynchronous", "1f1b", ""));
    assert!(
        text.contains("boundary is `asynchronous`: write barrier or post-validation"),
        "{text}"
    );
}

/// A fused loss is faster, and the flags say that it is one.
#[test]
fn the_loss_is_a_key() {
    let ask = |loss: &str| {
        let question = question("barrier", "1f1b", "tensor = [2]\nmicrobatch = [1]");
        let keys = format!("[training]\nloss = \"{loss}\"");
        planned_and_simulated(&question.replace("[training]", &keys))
    };
    let (separate, _, plain) = ask("separate");
    let (fused, _, flags) = ask("fused");
    assert!(separate["step_ns"].as_u64() > fused["step_ns"].as_u64());
    assert!(flags.contains("--cross-entropy-loss-fusion") && !plain.contains("loss-fusion"));
    let text =
        refusal(&question("barrier", "1f1b", "").replace("[search]", "loss = \"x\"\n[search]"));
    assert!(text.contains("loss is `x`: write separate or fused"), "{text}");
}
