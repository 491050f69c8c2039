//! Scripts that are drawn, read here and run by bash: a launch has the same words, or is not known.

mod draw;

use std::collections::BTreeMap;
use std::process::Command;

use self::draw::Draw;
use super::{END, MANY, UNKNOWN, read, unknowns};

/// In place of a launcher, one that prints its words.
const LAUNCHER: &str = "torchrun() { printf '\\036'; printf '%s\\037' \"$@\"; printf '\\036'; }\n";

/// What bash does with a script.
struct Real {
    /// The words of each launch.
    launches: Vec<Vec<String>>,
    /// Whether a sum ends a command.
    has_failed: bool,
}

/// What bash does with `script`; `None` without bash.
fn run(script: &str) -> Option<Real> {
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{LAUNCHER}{script}")])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let launches = text.split('\u{1e}').skip(1).step_by(2);
    let words = |launch: &str| {
        launch.strip_suffix('\u{1f}').unwrap_or(launch).split('\u{1f}').map(str::to_owned).collect()
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    let has_failed = errors.contains("error token");
    Some(Real { launches: launches.map(words).collect(), has_failed })
}

/// Whether `word`, which may have parts that are not known, can be `real`.
fn can_be(word: &str, real: &str) -> bool {
    if !word.contains(UNKNOWN) {
        return word == real;
    }
    let first = word.split(UNKNOWN).next().unwrap_or_default();
    let last = word.rsplit(END).next().unwrap_or_default();
    real.starts_with(first) && real.ends_with(last) && unknowns(word).1.len() <= real.len()
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Equal,
    Refused,
    Wrong,
}

fn outcome(script: &str, real: &Real) -> Outcome {
    let Ok(own) = read(script, &BTreeMap::new(), &|_| None) else { return Outcome::Refused };
    let own: Vec<_> = own.commands.iter().filter(|words| words[0] == "torchrun").collect();
    if own.iter().any(|words| words.concat().contains(MANY)) {
        return Outcome::Refused;
    }
    let is_same = |(own, real): (&&Vec<String>, &Vec<String>)| {
        let mut pairs = own.iter().skip(1).zip(real);
        own.len() == real.len() + 1 && pairs.all(|(own, real)| can_be(own, real))
    };
    let is_known = !own.iter().any(|words| words.concat().contains(UNKNOWN));
    let real_launches = &real.launches;
    match own.len() == real_launches.len() && own.iter().zip(real_launches).all(is_same) {
        true if is_known => Outcome::Equal,
        // A sum of what is not known may end a command.
        false if is_known || !real.has_failed => Outcome::Wrong,
        _ => Outcome::Refused,
    }
}

#[test]
fn drawn_scripts_launch_what_bash_launches() {
    #[allow(clippy::disallowed_methods)] // How many cases a test tries is not a question.
    let times = std::env::var("DEBUBBLE_CASES").map_or(1, |times| times.parse::<usize>().unwrap());
    let mut draw = Draw::new(0);
    let (mut equal, mut refused, mut ended) = (0, 0, 0);
    for number in 0..400 * times {
        if number % 400 == 0 {
            let seed = u64::try_from(number / 400 + 1).unwrap();
            draw = Draw::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        let script = draw.script();
        let Some(real) = run(&script) else {
            println!("skipped: there is no bash");
            return;
        };
        match outcome(&script, &real) {
            Outcome::Equal => equal += 1,
            Outcome::Refused => refused += 1,
            Outcome::Wrong if draw.may_end => ended += 1,
            Outcome::Wrong => panic!(
                "{number}:\n{script}\nbash: {:?}\nhere: {:?}",
                real.launches,
                read(&script, &BTreeMap::new(), &|_| None).map(|own| own.commands)
            ),
        }
    }
    println!("{equal} equal, {refused} refused, {ended} may end early");
    assert!(equal > 50 * times && ended < 20 * times, "{equal} equal, {ended} end early");
}

/// Scripts of a form that is followed to the end; `N` is a number.
const FOLLOWED: [&str; 23] = [
    "A=1\nif [ ! $A = 1 ]; then A=N; fi",
    "if [ $B -eq 2 ]; then A=N; else A=4; fi; C=32",
    "if [ $B -eq 3 ]; then A=1; elif [ $B -eq 2 ]; then A=N; else A=4; fi",
    "A=${NOPE:-${NADA:-N}}",
    "L=(--a)\nL+=(N)",
    "K=b\ncase \"$K\" in\n a|b)\n  A=N\n  ;;\n *)\n  A=4\n  ;;\nesac",
    "export A=N B=1",
    ": '\nA=N\n'",
    "set_a() {\n A=N\n}\nset_a",
    "cat > /dev/null <<EOF\nA=N\nEOF",
    "K=N1\nA=${K%1}",
    "K=(1 2 N)\nA=${K[2]}",
    "((A=N))",
    "true && A=N",
    "K=llama8b\ncase $K in llama*) A=N;; *) A=4;; esac",
    "A=N true",
    "{ A=N; }",
    "[ $B = 2 ] || A=N",
    "L=(\n  1 # --x \\\n  N\n)",
    "# A=4 \\\nA=N",
    "A=${B:+N}",
    "eval \"A=N\"",
    "X=8 Y=\"it's N\"; A=\"$Y\"",
];

#[test]
fn plain_forms_are_followed() {
    for (number, form) in FOLLOWED.iter().enumerate() {
        for value in [1_u64, 8, 16] {
            let form =
                form.replace("NOPE", "n_o").replace("NADA", "n_a").replace('N', &value.to_string());
            let script = format!(
                "A=1\nB=2\nC=16\nL=(1)\n{form}\ntorchrun \"$A\" $B $C \"${{L[@]}}\" \"${{D:-7}}\"\n"
            );
            let Some(real) = run(&script) else { return };
            assert_eq!(outcome(&script, &real), Outcome::Equal, "{number}: {script}");
        }
    }
}
