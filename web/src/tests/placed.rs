//! Encoders in front of a model, and dead workers: the answers are the library's, faults are told at their keys.

use question::encoder::EncoderKeys;
use question::failures::FailureKeys;

use super::*;

const ENCODER: &str = "schedule = [\"1f1b\", \"zb-h1\"]\nstages = 4\nmicrobatches = 6\nforward = \"20ms\"\n\
                       encoder-forward = \"10ms\"\nencoder-layers = 4\n";
const DEAD: &str = "data-parallel = 3\ndraws = 2\n";

fn in_front(text: &str) -> Value {
    json!({ "ask": "encoder", "text": text })
}

fn dead(text: &str) -> Value {
    json!({ "ask": "failures", "text": text, "scenario": QUESTION })
}

/// The failure of `request`: its key and its text.
fn failure(request: &Value) -> (String, String) {
    let files = Files::new();
    let answer = answer(&Context::new(&files), &request.to_string());
    let failure: Value = serde_json::from_str(&answer.unwrap_err().json()).unwrap();
    let part = |name: &str| failure[name].as_str().unwrap_or_default().to_owned();
    (part("key"), part("text"))
}

#[test]
fn an_encoder_is_placed_as_by_the_library() {
    let found = asked(&in_front(ENCODER), &Files::new());
    let host = Files::new();
    let keys: EncoderKeys = toml::from_str(ENCODER).unwrap();
    let expected = ::answer::encoder::encoder(&Context::new(&host), &keys).unwrap();
    assert_eq!(found["answer"], printed(&expected));
    assert_eq!(text(&found, "csv").as_bytes(), expected.csv().unwrap());
    assert!(text(&found, "svg").starts_with("<svg"));
    let operations = ::answer::csv(::answer::encoder::operations(&expected)).unwrap();
    assert_eq!(text(&found, "operations").as_bytes(), operations);
    let best = &expected.results[0];
    let lead = text(&found["answer"], "headline");
    assert!(
        lead.starts_with(&format!("Shortest step: {} with the encoder ", best.schedule)),
        "{lead}"
    );
    assert!(
        lead.contains(" more steps per hour than with the encoder on the first stage"),
        "{lead}"
    );
}

#[test]
fn without_bubbles_there_is_no_picture_of_them() {
    let first = format!("{ENCODER}placement = \"first-stage\"\n");
    let found = asked(&in_front(&first), &Files::new());
    assert!(found.get("svg").is_none() && found.get("operations").is_none());
    let lead = text(&found["answer"], "headline");
    assert!(lead.contains("with the encoder on the first stage: a step of "), "{lead}");
    let tight = format!("{ENCODER}activation = \"1GiB\"\nmemory-limit = \"1GiB\"\n");
    let found = asked(&in_front(&tight), &Files::new());
    assert!(text(&found["answer"], "headline").starts_with("No step fits the memory limit."));
}

#[test]
fn dead_workers_are_rerouted_as_by_the_library() {
    let more = format!("{DEAD}mtbf = \"7200s\"\n");
    let found = asked(&dead(&more), &Files::new());
    let host = Files::new();
    let context = Context::new(&host);
    let keys: FailureKeys = toml::from_str(&more).unwrap();
    let scenario = scenario(&context, &Keys::default());
    let expected = ::answer::failures::failures(&context, &scenario, &keys).unwrap();
    assert_eq!(found["answer"], printed(&expected));
    assert_eq!(text(&found, "csv").as_bytes(), expected.csv().unwrap());
    let (step, policy) = text(&found["answer"], "headline").split_once('\n').unwrap();
    assert!(step.starts_with("With one worker dead where it costs most, "), "{step}");
    assert!(
        step.contains(" has the shortest step: ") && step.contains(" % longer than the "),
        "{step}"
    );
    let policies = expected.results.iter().flat_map(|row| &row.policies);
    let most = policies.max_by(|a, b| a.steps_per_hour.total_cmp(&b.steps_per_hour)).unwrap();
    assert!(policy.contains(&format!("policy {} does", most.policy)), "{policy}");
    let found = asked(&dead(&format!("{DEAD}dead = [\"0.1\", \"1.2\"]\n")), &Files::new());
    let lead = text(&found["answer"], "headline");
    assert!(lead.starts_with("With workers 0.1, 1.2 dead, ") && lead.lines().count() == 1);
}

#[test]
fn faults_stand_at_their_keys_without_flags() {
    for (request, key, why) in [
        (in_front("forward = \"1ms\"\n"), "encoder-forward", "`encoder-forward` is missing"),
        (in_front("frozen = true\n"), "frozen", "there is no key `frozen`"),
        (in_front("stages = \"many\"\n"), "stages", "a whole number"),
        (in_front(&format!("{ENCODER}own-stages = 4\n")), "own-stages", "both encoder and model"),
        (in_front(&format!("{ENCODER}encoder-work = [1, 2]\n")), "encoder-work", "2 factors"),
        (in_front(&ENCODER.replace("zb-h1", "dualpipe")), "schedule", "cannot have an encoder"),
        (dead(""), "data-parallel", "`data-parallel`"),
        (dead("data-parallel = 1\n"), "data-parallel", "no worker has a peer"),
        (dead("data-parallel = 3\ndead = \"0.9\"\n"), "dead", "0.9"),
        (dead("data-parallel = 3\ndead = \"first\"\n"), "dead", "PIPELINE.STAGE"),
        (dead("pipelines = 3\n"), "pipelines", "there is no key `pipelines`"),
    ] {
        let (found, said) = failure(&request);
        assert!(found == key && said.contains(why) && !said.contains("--"), "{found}: {said}");
    }
    let none = json!({ "ask": "failures", "text": DEAD, "scenario": "stages = 4\n" });
    assert!(!failure(&none).1.is_empty());
}

#[test]
fn questions_beyond_the_limits_are_refused_at_once() {
    for (request, key) in [
        (in_front(&ENCODER.replace("microbatches = 6", "microbatches = 60000")), "microbatches"),
        (
            in_front(&ENCODER.replace("encoder-layers = 4", "encoder-layers = 90000")),
            "encoder-layers",
        ),
        (
            in_front(
                &ENCODER
                    .replace("encoder-layers = 4", "encoder-layers = 1000")
                    .replace("ches = 6", "ches = 200"),
            ),
            "microbatches",
        ),
        (in_front(&ENCODER.replace("stages = 4", "stages = 18446744073709551615")), ""),
        (in_front(&format!("{ENCODER}effort = 5000\n")), "effort"),
        (dead("data-parallel = 4000\n"), "data-parallel"),
        (dead("data-parallel = 18446744073709551615\n"), "data-parallel"),
        (dead("data-parallel = 900\ndraws = 1000\n"), "draws"),
        (dead("data-parallel = 4\ndraws = 18446744073709551615\n"), "draws"),
        (dead("data-parallel = 4\nmost-dead = 1000000\n"), "most-dead"),
        (dead("data-parallel = 4\nspares = 1000000000\n"), "spares"),
        (dead("data-parallel = 4\neffort = 1000000000\n"), "effort"),
    ] {
        let (found, said) = failure(&request);
        assert!(found == key && !said.is_empty(), "{request}: {found}: {said}");
    }
}

#[test]
fn a_saved_question_is_told_apart_by_its_keys() {
    for (content, kind) in [
        ("model = \"qwen2.5-7b\"\nmachine = \"h100\"\ndevices = 8\n", "rl"),
        ("model = \"qwen2.5-7b\"\nmachine = \"h100\"\nminibatch-size = 4\n", "fsdp"),
        (ENCODER, "encoder"),
        (DEAD, "failures"),
        ("model = \"qwen2.5-7b\"\ntokens = 1e12\n", "plan"),
    ] {
        let found =
            asked(&json!({ "ask": "kind", "file": "saved.toml" }), &one("saved.toml", content));
        assert_eq!((&found["kind"], &found["text"]), (&json!(kind), &json!(content)));
    }
}
