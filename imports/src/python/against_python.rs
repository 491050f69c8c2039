//! Recipes of many forms, run by Python with an object that records what is set, and read: a value is the same, or
//! refused.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use question::Context;

use crate::{Given, Imported, of_text};

/// How many recipes are tried, times `DEBUBBLE_CASES`.
const CASES: usize = 300;

/// Objects, fields, and the values that a form may give them.
const KEYS: [(&str, &str, [u64; 3]); 6] = [
    ("model", "tensor_model_parallel_size", [2, 4, 8]),
    ("model", "pipeline_model_parallel_size", [2, 4, 8]),
    ("model", "context_parallel_size", [2, 4, 8]),
    ("model", "seq_length", [2048, 4096, 8192]),
    ("train", "micro_batch_size", [1, 2, 4]),
    ("train", "global_batch_size", [512, 1024, 2048]),
];

/// Forms that are read: what stands in front of the recipe, and what stands in it. KEY is `cfg.OWN.FIELD`, V and W are
/// values, N is a number of its own.
const READ: [(&str, &str); 29] = [
    ("", "KEY = V"),
    ("", "KEY: int = V"),
    ("A_N = V", "KEY = A_N"),
    ("A_N: int = V", "KEY = (A_N)"),
    ("", "a_N = V\nb_N = a_N\nKEY = b_N"),
    ("", "a_N = W\na_N = V\nKEY = a_N"),
    ("", "m_N = cfg.OWN\nm_N.FIELD = V"),
    ("", "KEY = V * 1"),
    ("", "KEY = V // 1"),
    ("", "KEY = W\nKEY += 3\nKEY -= 3\nKEY = V"),
    ("", "KEY = 1\nKEY *= V"),
    ("", "KEY = V if 3 > 2 else W"),
    ("", "KEY = W if \"a\" == \"b\" else V"),
    ("", "KEY = {\"a\": W}.get(\"b\", V)"),
    ("", "x_N = {\"a\": V, \"b\": W}\nKEY = x_N.get(\"a\")"),
    ("", "x_N = 2\nif x_N == 1:\n    pass\nelif x_N == 2:\n    KEY = V\nelse:\n    KEY = W"),
    ("", "if \"8b\" in \"llama8b\":\n    KEY = V\nelse:\n    KEY = W"),
    ("A_N = W # a\rA_N = V", "KEY = A_N"),
    ("", "if True:\n    KEY = V"),
    (
        "def f_N(c, is_fast=False, size=None):\n    if is_fast:\n        c.OWN.FIELD = W\n    elif size:\n        c.OWN.FIELD = 3\n    else:\n        c.OWN.FIELD = V",
        "f_N(cfg)",
    ),
    (
        "def f_N(c, is_fast=False):\n    if is_fast:\n        c.OWN.FIELD = V\n    elif c.OWN.unset_N:\n        c.OWN.FIELD = W",
        "f_N(cfg, is_fast=True)",
    ),
    ("", "x_N = 1\nassert x_N\nKEY = V"),
    ("def f_N(c):\n    c.OWN.FIELD = V", "f_N(cfg)"),
    ("def f_N(c):\n    c.OWN.FIELD = V\n    return c", "cfg = f_N(cfg)"),
    ("def f_N(c, *, size=V, **more):\n    c.OWN.FIELD = size", "f_N(c=cfg)"),
    ("def f_N(c, size=W):\n    c.FIELD = size", "f_N(cfg.OWN, V)"),
    ("def f_N():\n    \"\"\"A text: = 3.\"\"\"\n    return V", "KEY = f_N()"),
    ("def f_N():\n    return None", "f_N()\nKEY = V"),
    ("if __name__ == \"__main__\":\n    raise SystemExit", "KEY = V  # = W"),
];

/// Forms that may be refused, but not read wrongly.
const OTHERS: [(&str, &str); 133] = [
    ("from megatron.bridge.recipes import Tool", "Tool.default().put(cfg.OWN, \"FIELD\", V)"),
    (
        "from megatron.bridge.recipes import Tool",
        "t_N = Tool.default()\nt_N.put(cfg.OWN, \"FIELD\", V)",
    ),
    (
        "def f_N():\n    return W\ndef g_N():\n    global f_N\n    f_N = lambda: V",
        "g_N()\nKEY = f_N()",
    ),
    ("def f_N():\n    return W", "exec(\"def f_N(): return V\", globals())\nKEY = f_N()"),
    ("", "KEY = other_N = V"),
    ("", "KEY = dict(a=V, b=W).get(\"a\", 7)"),
    (
        "",
        "if False:\n    pass\nfor _ in range(2):\n    break\nelse:\n    KEY = V\nif False:\n    KEY = W\nx_N = 1\nwhile False:\n    pass\nelse:\n    KEY = V",
    ),
    ("", "a_N = [W]\nb_N = a_N\nb_N += [V]\nKEY = a_N[-1]"),
    ("", "sub_N = cfg.OWN\ncfg.OWN = cfg.spare\nsub_N.FIELD = W\ncfg.OWN = sub_N\nKEY = V"),
    ("", "cfg.OWN, keep_N = cfg.OWN, 1\ncfg.OWN.FIELD = V"),
    ("", "cfg_N = cfg\ncfg_N.OWN.FIELD = V"),
    ("", "(cfg).OWN.FIELD = V"),
    ("", "cfg.OWN . FIELD = \\\n    V"),
    ("", "KEY = (\n    V  # W\n)"),
    ("", "KEY = V; del cfg.OWN.FIELD"),
    ("", "with open(os.devnull) as f_N, open(os.devnull):\n    KEY = V"),
    ("", "for cfg.OWN.FIELD in (W, V):\n    pass"),
    ("", "import os as KEY_N\nKEY = V"),
    ("", "getattr(cfg, \"OWN\").FIELD = V"),
    ("", "next(iter([cfg.OWN])).FIELD = V"),
    ("", "(lambda c: setattr(c, \"FIELD\", V))(cfg.OWN)"),
    ("", "put_N = cfg.OWN.__setattr__\nput_N(\"FIELD\", V)"),
    ("", "put_N = setattr\nput_N(cfg.OWN, \"FIELD\", V)"),
    ("", "locals()[\"cfg\"].OWN.FIELD = V"),
    ("", "eval(\"setattr(cfg.OWN, 'FIELD', V)\")"),
    ("", "KEY = W\nif cfg.OWN.FIELD == W:\n    KEY = V"),
    ("", "KEY = W\nKEY = cfg.OWN.FIELD and V"),
    ("", "x_N = cfg.OWN.unset_N\nKEY = V if x_N else W"),
    ("", "KEY = cfg.OWN.FIELD if False else V"),
    ("def setattr(a, b, c):\n    pass", "setattr(cfg.OWN, \"FIELD\", W)"),
    ("def int(x):\n    return V", "KEY = int(W)"),
    ("len = lambda x: x.__setattr__(\"FIELD\", V)", "len(cfg.OWN)"),
    ("A_N = [W]\ndef f_N():\n    A_N[0] = V", "f_N()\nKEY = A_N[0]"),
    ("A_N = {\"a\": W}\ndef f_N():\n    A_N.update(a=V)", "f_N()\nKEY = A_N.get(\"a\")"),
    (
        "def f_N(c, seen=[]):\n    seen.append(1)\n    if seen.count(1) > 1:\n        c.OWN.FIELD = V",
        "f_N(cfg)\nf_N(cfg)",
    ),
    ("def f_N(c):\n    try:\n        return 1\n    finally:\n        c.OWN.FIELD = V", "f_N(cfg)"),
    ("def f_N(c):\n    c = 3\n    return c", "f_N(cfg)\nKEY = V"),
    (
        "def f_N(c):\n    cfg = c\n    cfg.OWN.FIELD = V\n    if True:\n        return\n    cfg.OWN.FIELD = W",
        "f_N(cfg)",
    ),
    ("async def f_N(c):\n    c.OWN.FIELD = V", "f_N(cfg).close()"),
    ("A_N = W\nfor A_N in (W, V): pass", "KEY = A_N"),
    ("A_N, B_N = W, V", "KEY = B_N"),
    ("try:\n    A_N = V\nexcept ImportError:\n    A_N = W", "KEY = A_N"),
    ("if True:\n    A_N = V", "KEY = A_N"),
    ("def f_N(c):\n    return c.OWN", "f_N(cfg).FIELD = V"),
    ("def f_N(*all, **more):\n    all[0].OWN.FIELD = more[\"x\"]", "f_N(cfg, x=V)"),
    ("def f_N(c, a=1, b=W):\n    c.OWN.FIELD = b", "f_N(cfg, b=V)"),
    ("def f_N(c, x):\n    c.OWN.FIELD = x", "f_N(*[cfg, V])"),
    ("def f_N(c, x):\n    c.OWN.FIELD = x", "f_N(**{\"c\": cfg, \"x\": V})"),
    ("def f_N(c):\n    c.OWN.FIELD = V\n    return W", "x_N = f_N(cfg) if 1 > 2 else 3"),
    ("def f_N(c):\n    c.OWN.FIELD = V\n    return W", "x_N = 0 and f_N(cfg)"),
    ("def f_N(c):\n    c.OWN.FIELD = V\n    return W", "x_N = [f_N(cfg) for _ in ()]"),
    ("def f_N(c):\n    c.OWN.FIELD = V\n    return W", "f = f_N\nf(cfg)"),
    ("def f_N(c):\n    c.OWN.FIELD = V", "d_N = {\"f\": f_N}\nd_N[\"f\"](cfg)"),
    ("def f_N(c):\n    c.OWN.FIELD = V", "sorted([cfg], key=f_N)"),
    ("", "KEY = V; x_N = 1"),
    ("", "x_N = 1; KEY = V"),
    ("", "KEY = int(os.environ.get(\"NOT_THERE\", \"V\"))"),
    ("", "KEY = 0x8 if V else W"),
    ("", "KEY = 1 << 1"),
    ("", "KEY = int(2 * V / 2)"),
    ("", "KEY = V + V - V"),
    ("", "KEY = 2 ** 2"),
    ("", "KEY = -(-V)"),
    ("", "KEY = W or V"),
    ("", "KEY = None or V"),
    ("", "KEY = (1 < 2 < 3) and V"),
    ("", "KEY = V if 1 < 2 < 1 else W"),
    ("", "KEY = V if not 1 in [1, 2] else W"),
    ("", "KEY = V if None is None else W"),
    ("", "KEY = [x * 2 for x in (W, V)][1] // 2"),
    ("", "KEY = [W, V][1]"),
    ("", "KEY = (W, V)[-1]"),
    ("", "KEY = {\"a\": V}[\"a\"]"),
    ("", "KEY = sum(x for x in [V])"),
    ("", "KEY = len(\"ab\")"),
    ("", "KEY = max(V, W)"),
    ("", "KEY = int(f\"{V}\")"),
    ("", "KEY = int(\"V\")"),
    ("", "KEY = int(\"V W\".split()[0])"),
    ("", "KEY = (lambda: V)()"),
    ("", "KEY = (x_N := V)\ncfg.train.other = x_N"),
    ("", "if (KEY_N := V) > 0:\n    KEY = KEY_N"),
    ("", "KEY, y_N = V, W"),
    ("", "y_N, *z_N = W, V\nKEY = z_N[0]"),
    ("", "a_N, b_N = W, V\na_N, b_N = b_N, a_N\nKEY = a_N"),
    ("", "for t in (W, V):\n    KEY = t"),
    ("", "for t in [cfg.OWN]:\n    t.FIELD = V"),
    ("", "for k_N in [\"FIELD\"]:\n    setattr(cfg.OWN, k_N, V)"),
    ("", "for k_N, v_N in zip([\"FIELD\"], [V]):\n    setattr(cfg.OWN, k_N, v_N)"),
    ("", "while cfg.train.seen_N != 1:\n    KEY = V\n    cfg.train.seen_N = 1"),
    ("", "for _ in range(2):\n    break\nelse:\n    KEY = V"),
    ("", "m_N = cfg.other\nfor _ in range(2):\n    m_N.FIELD = V\n    m_N = cfg.OWN"),
    ("", "setattr(cfg.OWN, \"FIELD\", V)"),
    ("", "setattr(cfg.OWN, \"FIE\" + \"LD\", V)"),
    ("", "cfg.OWN.__dict__.update(FIELD=V)"),
    ("", "vars(cfg.OWN)[\"FIELD\"] = V"),
    ("", "cfg.OWN.__dict__[\"FIELD\"] = V"),
    ("", "cfg.OWN.__setattr__(\"FIELD\", V)"),
    ("", "object.__setattr__(cfg.OWN, \"FIELD\", V)"),
    ("", "exec(\"KEY = V\")"),
    ("", "[setattr(cfg.OWN, \"FIELD\", x) for x in (W, V)]"),
    ("", "list(map(lambda x: setattr(cfg.OWN, \"FIELD\", x), (W, V)))"),
    ("", "f_N = lambda: setattr(cfg.OWN, \"FIELD\", V)\nf_N()"),
    ("", "def inner_N():\n    cfg.OWN.FIELD = V\ninner_N()"),
    ("", "def inner_N():\n    return V\nKEY = inner_N()"),
    ("", "if os.path.exists(\"/not/there\"):\n    KEY = W\nelse:\n    KEY = V"),
    ("", "if os.environ.get(\"NOT_THERE\"): KEY = W"),
    ("", "if 1 > 2: KEY = W\nelse: KEY = V"),
    ("", "if os.environ.get(\"NOT_THERE\") is None:\n    cfg.OWN.FIELD = V"),
    ("", "try:\n    KEY = V\n    raise SOME\nexcept SOME:\n    pass"),
    ("", "try:\n    raise SOME\nexcept SOME as e_N:\n    KEY = V\nfinally:\n    x_N = 1"),
    ("", "try: KEY = V\nfinally: pass"),
    (
        "import contextlib",
        "with contextlib.suppress(SOME):\n    KEY = V\n    raise SOME\n    KEY = W",
    ),
    ("", "match V:\n    case W:\n        KEY = W\n    case x_N:\n        KEY = x_N"),
    ("", "m_N = cfg.OWN\ncfg.OWN.FIELD = W\ndel m_N\nKEY = V"),
    ("", "KEY = V\ndel KEY"),
    ("", "d_N = {\"FIELD\": V}\nfor k, v in d_N.items():\n    setattr(cfg.OWN, k, v)"),
    ("", "d_N = {\"a\": W}\nd_N[\"a\"] = V\nKEY = d_N.get(\"a\")"),
    ("", "d_N = {\"a\": W}\nd_N.update(a=V)\nKEY = d_N.get(\"a\")"),
    ("", "d_N = dict(a=V)\nKEY = d_N.get(\"a\", W)"),
    ("", "d_N = {\"a\": V, **{\"a\": W}}\nKEY = d_N.get(\"a\")"),
    ("", "x_N = [W]\ny_N = x_N\ny_N[0] = V\nKEY = x_N[0]"),
    ("A_N = W\ndef g_N():\n    global A_N\n    A_N = V", "g_N()\nKEY = A_N"),
    (
        "def f_N(x):\n    for i in range(9000):\n        if i == V:\n            return i\n    return W",
        "KEY = f_N(3)",
    ),
    ("def f_N(c):\n    yield 1\n    c.OWN.FIELD = V", "f_N(cfg)\nlist(f_N(cfg))"),
    (
        "def f_N(c, n):\n    if n == 0:\n        c.OWN.FIELD = V\n        return\n    f_N(c, n - 1)",
        "f_N(cfg, 3)",
    ),
    (
        "def f_N(c):\n    if os.environ.get(\"NOT_THERE\"):\n        return\n    c.OWN.FIELD = V",
        "f_N(cfg)",
    ),
    (
        "def d_N(f):\n    return lambda c: setattr(c.OWN, \"FIELD\", V)\n@d_N\ndef f_N(c):\n    c.OWN.FIELD = W",
        "f_N(cfg)",
    ),
    ("class C_N:\n    FIELD = V\n    def __init__(self, c):\n        c.OWN.FIELD = V", "C_N(cfg)"),
    ("class C_N:\n    FIELD = V", "KEY = C_N.FIELD"),
    ("class C_N:\n    @staticmethod\n    def put(c):\n        c.OWN.FIELD = V", "C_N.put(cfg)"),
    ("import functools\ndef f_N(c, x):\n    c.OWN.FIELD = x", "functools.partial(f_N, cfg)(V)"),
    ("import copy", "old_N = copy.copy(cfg.OWN)\ncfg.OWN.FIELD = V\nold_N.FIELD = W"),
];

/// What runs recipes: every field that is asked for and not set is an object.
const DRIVER: &str = r#"
import json, os, sys, types
class Record:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Record()
        self.__dict__[name] = made
        return made
for name in ("megatron", "megatron.bridge", "megatron.bridge.recipes"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["megatron.bridge.recipes"].llama3_8b_pretrain_config = Record
class Tool:
    default = classmethod(lambda own: own())
    put = lambda self, owner, name, value: setattr(owner, name, value)
sys.modules["megatron.bridge.recipes"].Tool = Tool
asked = json.load(sys.stdin)
def run(text):
    names = {"__name__": "recipe"}
    try:
        exec(compile(text, "recipe", "exec"), names)
        made = names["llama3_8b_pretrain_config_8gpu"]()
        return [getattr(getattr(made, own), field) for own, field in asked["keys"]]
    except BaseException as error:
        return None
plain = lambda values: values and [x if type(x) is int else None for x in values]
print(json.dumps([plain(run(text)) for text in asked["texts"]]))
"#;

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    /// A recipe of some of `forms` behind literals.
    fn recipe(&mut self, forms: &[(&str, &str)]) -> String {
        let mut above =
            "import os\nfrom megatron.bridge.recipes import llama3_8b_pretrain_config\n".to_owned();
        let mut body = String::new();
        for (own, field, values) in KEYS {
            if field.ends_with("batch_size") || field == "seq_length" || self.below(3) > 0 {
                body += &format!("cfg.{own}.{field} = {}\n", values[self.below(3)]);
            }
        }
        for at in 0..=self.below(4) {
            let (own, field, values) = KEYS[self.below(KEYS.len())];
            let (one, other) =
                (values[self.below(3)].to_string(), values[self.below(3)].to_string());
            let (before, inside) = forms[self.below(forms.len())];
            let filled = |text: &str| {
                let text = text.replace("KEY_N", "key_N").replace("KEY", "cfg.OWN.FIELD");
                let text = text
                    .replace("OWN", own)
                    .replace("FIELD", field)
                    .replace("_N", &format!("_{at}"));
                text.replace('V', &one).replace('W', &other).replace("SOME", "ValueError")
            };
            above += &format!("{}\n", filled(before));
            body += &format!("{}\n", filled(inside));
        }
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        format!(
            "{above}\ndef llama3_8b_pretrain_config_8gpu():\n    cfg = llama3_8b_pretrain_config()\n{body}    return cfg\n"
        )
    }
}

fn imported(text: &str) -> Result<Imported, String> {
    let files = BTreeMap::new();
    let given =
        Given { recipe: Some("llama3_8b_pretrain_config_8gpu".to_owned()), ..Given::default() };
    of_text(&Context::new(&files), Path::new("a.py"), text, &given).map_err(|wrong| wrong.message)
}

/// The values of [`KEYS`] in a question, where 1 is none.
fn values(imported: &Imported) -> Vec<u64> {
    let document = &imported.document;
    let setup = document.setup.clone().unwrap_or_default();
    let degrees = [setup.tensor, setup.pipeline, setup.context];
    let mut all: Vec<u64> = degrees.map(|degree| degree.unwrap_or(1)).to_vec();
    all.extend([document.sequence.unwrap_or(1), setup.microbatch.unwrap_or(1), document.batch]);
    all
}

/// What Python says of `texts`: the values of [`KEYS`], none for a recipe that raises; none without Python.
fn of_python(texts: &[String]) -> Option<Vec<Option<Vec<Option<u64>>>>> {
    let keys: Vec<[&str; 2]> = KEYS.iter().map(|(own, field, _)| [*own, *field]).collect();
    let asked = serde_json::json!({ "keys": keys, "texts": texts }).to_string();
    let python = Command::new("python3")
        .args(["-c", DRIVER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut python = python.ok()?;
    let mut input = python.stdin.take()?;
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let output = python.wait_with_output().ok()?;
    writer.join().unwrap().unwrap();
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
#[allow(clippy::disallowed_methods)] // How many cases, as other tests take it.
fn no_value_is_another_than_that_of_python() {
    let times = env::var("DEBUBBLE_CASES").map_or(1, |times| times.parse().unwrap());
    let mut numbers = Numbers(7);
    let all: Vec<(&str, &str)> = READ.iter().chain(&OTHERS).copied().collect();
    let count = CASES * times;
    let forms = |at: usize| if at.is_multiple_of(3) { &READ[..] } else { &all[..] };
    let texts: Vec<String> = (0..count).map(|at| numbers.recipe(forms(at))).collect();
    let Some(said) = of_python(&texts) else {
        println!("skipped: there is no python3");
        return;
    };
    let (mut equal, mut refused, mut raised) = (0, 0, 0);
    for (at, (text, said)) in texts.iter().zip(said).enumerate() {
        let own = imported(text);
        let Some(said) = said else {
            assert!(!at.is_multiple_of(3), "a form that is read raises:\n{text}");
            raised += 1;
            continue;
        };
        match own {
            Ok(own) => {
                let said: Vec<u64> = said.into_iter().map(|value| value.unwrap_or(1)).collect();
                assert_eq!(values(&own), said, "case {at}:\n{text}");
                equal += 1;
            }
            Err(why) => {
                let is_of_setup = !why.contains("is not read");
                assert!(
                    !at.is_multiple_of(3) || is_of_setup,
                    "case {at} is refused: {why}\n{text}"
                );
                refused += 1;
            }
        }
    }
    println!("{count} recipes: {equal} equal, {refused} refused, {raised} raise in Python");
    assert!(equal > count / 3);
}
