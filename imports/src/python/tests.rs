//! Recipes that are read, those that are refused by key, and what Python writes of them.

use super::super::recipes_tests::read_named;
use super::super::tests::sizes;
use crate::Given;

/// A recipe whose degrees are set by `lines`.
fn recipe_of(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "from .common import base as start\n\nSTAGES = 4\n\n\
         def _tuned(cfg, *, stages=2):\n    cfg.model.pipeline_model_parallel_size = stages\n\n\
         def qwen3_8b_recipe():\n    cfg = start()\n    cfg.train.micro_batch_size = 1\n    \
         cfg.train.train_iters = 10\n    cfg.model = AutoBridge.from_hf_pretrained(\"Qwen/Qwen3-8B\").get_model_config()\n    \
         cfg.model.seq_length = 2 * 2048\n{lines}    cfg.train.global_batch_size = 32\n    return cfg\n\n\
         def other_recipe():\n    return qwen3_8b_recipe()\n"
    )
}

#[test]
fn literals_constants_and_helpers_of_a_recipe_are_read() {
    let text = recipe_of("_tuned(cfg, stages=STAGES)");
    let read = |recipe: Option<&str>| {
        let given = Given { recipe: recipe.map(str::to_owned), ..Given::default() };
        read_named(("recipes/own.py", &text), &[], &given)
    };
    let several = read(None).err().unwrap();
    assert!(several.help.unwrap().contains("qwen3_8b_recipe, other_recipe"));
    let imported = read(Some("other_recipe")).ok().unwrap();
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!((setup.pipeline, setup.context, imported.document.batch), (Some(4), None, 32));
    assert!((imported.document.tokens - 10.0 * 32.0 * 4096.0).abs() < 1.0);
    let notes = &imported.notes;
    let base = notes.iter().find(|note| note.contains("what base sets is not known"));
    assert!(base.unwrap().contains("context_parallel_size"), "{notes:?}");
    assert!(read(Some("third")).err().unwrap().message.contains("no recipe is called"));
}

#[test]
fn keys_of_other_forms_are_refused_by_name() {
    let given = Given { recipe: Some("qwen3_8b_recipe".to_owned()), ..Given::default() };
    for lines in [
        "if getattr(cfg.model, 'nothing', None) is None:\n    cfg.model.pipeline_model_parallel_size = STAGES",
        "for i in range(9):\n    cfg.model.pipeline_model_parallel_size = 64",
        "cfg.model.pipeline_model_parallel_size = {**{'a': 64}}['a']",
        "cfg.model.pipeline_model_parallel_size //= 2",
        "_tuned(cfg)\nif os.environ['X']:\n    cfg.model.pipeline_model_parallel_size = 16",
        "cfg.model.pipeline_model_parallel_size = PIPELINE",
    ] {
        let text = recipe_of(lines);
        let wrong = read_named(("own.py", &text), &[], &given).err().unwrap();
        let says = "pipeline_model_parallel_size: line 1";
        assert!(wrong.message.contains(says), "{text}{}", wrong.message);
        assert!(wrong.help.unwrap().contains("python -m debubble.recipe"));
        let set = [("pipeline_model_parallel_size".to_owned(), "8".to_owned())].into();
        let given = Given { variables: set, ..given.clone() };
        let imported = read_named(("own.py", &text), &[], &given).ok().unwrap();
        assert_eq!(imported.document.setup.unwrap().pipeline, Some(8));
    }
    let wrong =
        |lines: &str| read_named(("own.py", &recipe_of(lines)), &[], &given).err().unwrap().message;
    assert!(wrong("tune(cfg)").contains("line 14 may set it"), "{}", wrong("tune(cfg)"));
    assert!(wrong("cfg = [cfg for cfg in [cfg]][0]").contains("line 14 is not read"));
}

/// What `python -m debubble.recipe` writes.
fn dump(keys: &str) -> String {
    format!(
        "{{\"debubble_recipe\": {{\"module\": \"a.b\", \"function\": \"llama3_8b_pretrain_64gpu_h100_bf16_config\"}}, \
         \"keys\": {{\"class\": \"ConfigContainer\", \"model.class\": \"GPTModelProvider\", \"train.class\": \"TrainingConfig\", \
         \"model.num_layers\": 16, \"model.hidden_size\": 2048, \"model.num_attention_heads\": 16, \
         \"model.ffn_hidden_size\": 8192, \"model.gated_linear_unit\": true, \"model.add_bias_linear\": false, \
         \"model.normalization\": \"RMSNorm\", \"model.position_embedding_type\": \"rope\", \"model.vocab_size\": 32000, \
         \"model.seq_length\": 4096, \"train.micro_batch_size\": 1, {keys} \"train.global_batch_size\": 128}}}}"
    )
}

#[test]
fn a_configuration_that_python_writes_is_read() {
    let keys = "\"model.tensor_model_parallel_size\": 2, \"model.pipeline_model_parallel_size\": 4, \
                \"model.recompute_modules\": [\"core_attn\"], \"model.recompute_granularity\": \"selective\", \
                \"mixed_precision.class\": \"MixedPrecisionConfig\", \"mixed_precision.fp8\": \"hybrid\",";
    let imported = read_named(("any.json", &dump(keys)), &[], &Given::default()).ok().unwrap();
    let (document, model) = (&imported.document, sizes(&imported));
    // Of the file, not of the model that its name has.
    assert_eq!((model.layers, model.hidden, model.vocabulary), (16, 2048, 32_000));
    let setup = document.setup.as_ref().unwrap();
    assert_eq!((setup.tensor, setup.pipeline, document.batch), (Some(2), Some(4), 128));
    assert_eq!(document.training.precision.as_deref(), Some("fp8"));
    assert_eq!(document.cluster[0].devices, Some(vec![64]));
    assert!(imported.left_out.is_empty());
    let wrong = read_named(("any.json", &dump("\"train\": 3,")), &[], &Given::default());
    assert!(wrong.err().unwrap().message.contains("two values"));
    let wrong = read_named(("any.json", "{\"debubble_recipe\": 1}"), &[], &Given::default());
    assert!(wrong.err().unwrap().message.contains("not a configuration"));
}

#[test]
fn deep_nesting_is_read_or_refused_in_a_small_stack() {
    let many = |text: &str, count: usize| text.repeat(count);
    // As deep as is read: functions that call each other below conditions, within brackets.
    let mut deep = "ConfigContainer\nfrom x import y\n".to_owned();
    for at in 0..20 {
        deep += &format!("def f{at}(c):\n");
        let conditions = (1..44).map(|depth| format!("{}if True:\n", many(" ", depth)));
        deep.extend(conditions);
        deep +=
            &format!("{}c.a = {}f{}(c){}\n", many(" ", 44), many("[", 44), at + 1, many("]", 44));
    }
    deep += "def recipe():\n    c = y()\n    f0(c)\n    return c\n";
    let head = "ConfigContainer\ndef recipe():\n";
    let texts = [
        deep,
        format!("{head}    return {}1{}\n", many("(", 100_000), many(")", 100_000)),
        format!("{head}    return {}1\n", many("not ", 50_000)),
        format!("{head}    return 1{}\n", many(" if 1 else 2", 20_000)),
        format!("{head}    return a{}\n", many(".b", 90_000)),
        format!("{head}    return a{}\n", many("()", 90_000)),
        format!("{head}    a{} = 1\n", many("[0]", 60_000)),
        (0..600).map(|depth| format!("{}if x:\n", many(" ", depth))).collect(),
        format!("{head}    return {}\n", many("lambda: ", 20_000)),
        format!("Running with args: {{'a': {}", many("{'a': [", 20_000)),
        format!("Running with args: {}1{}\n", many("{'a': ", 47), many("}", 47)),
    ];
    for text in texts {
        let own = move || read_named(("a.py", &text), &[], &Given::default()).is_err();
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(own);
        assert!(thread.unwrap().join().unwrap());
    }
}
