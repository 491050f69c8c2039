//! Small scripts of all forms.

/// Draws scripts.
pub(super) struct Draw {
    state: u64,
    functions: usize,
    counters: usize,
    /// Whether a part that only a run decides on ends the script.
    pub(super) may_end: bool,
}

impl Draw {
    pub(super) const fn new(state: u64) -> Self {
        Self { state, functions: 0, counters: 0, may_end: false }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % most
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        let most = u64::try_from(all.len()).unwrap();
        all[usize::try_from(self.below(most)).unwrap()]
    }

    fn name(&mut self) -> &'static str {
        self.of(&["A", "B", "C", "D"])
    }

    fn literal(&mut self) -> String {
        match self.below(8) {
            0..=3 => self.below(20).to_string(),
            4 => self.of(&["llama8b", "x.y.z", "a:b", "on"]).to_owned(),
            5 => self.of(&["'p q'", "\"p  q\"", "p\\ q", "$'p\\tq'"]).to_owned(),
            6 => self.of(&["''", "\"\"", "'a\"b'", "\"a'b\"", "\"a#b\"", "a#b"]).to_owned(),
            _ => format!("{}{}", self.below(9), self.of(&["a", "k", "%", "-"])),
        }
    }

    fn value(&mut self) -> String {
        let (name, other) = (self.name(), self.name());
        let (literal, n) = (self.literal(), self.below(4));
        let plain = self.of(&["4", "7", "x", "1"]);
        let sign = self.of(&["+", "-", "*", "/", "%", "<<", "==", "<", "&&", "||", "**"]);
        match self.below(22) {
            0..=4 => literal,
            5 => format!("${name}"),
            6 => format!("\"${name}\"${{{other}}}"),
            7 => format!("${{{name}:-{plain}}}"),
            8 => format!("${{{name}{}{plain}}}", self.of(&["-", ":+", "+", ":=", "="])),
            9 => format!(
                "${{{name}{}{}}}",
                self.of(&["%", "%%", "#", "##"]),
                self.of(&["1", "*1", "?", "[0-9]", "*.", ".*", "'*'", "[!a]*"])
            ),
            10 => format!("${{{name}{}1/{plain}}}", self.of(&["/", "//"])),
            11 => format!("${{{name}:{n}:2}}"),
            12 => format!("${{#{name}}}"),
            13 => format!("${{L[{n}]}}"),
            14 => "${#L[@]}".to_owned(),
            15 => "\"${L[*]}\"".to_owned(),
            16 => format!("$(({name}+{n}*2))"),
            17 => format!("$(( ({n} {sign} {}) + 1 ))", self.below(5)),
            18 => format!("$((${{{name}:-3}} {sign} 2))"),
            19 if n == 0 => format!("$(echo {plain})"),
            19 => format!("${{NOPE:-${{NADA:-{plain}}}}}"),
            20 if n == 0 => format!("`echo {plain}`"),
            20 if n == 1 => format!("$(({name} = {}))", self.below(9)),
            _ => format!("$(({name} + 1))"),
        }
    }

    fn condition(&mut self) -> String {
        let (name, n) = (self.name(), self.below(12));
        let compare = self.of(&["-eq", "-ne", "-gt", "-ge", "-lt", "-le"]);
        match self.below(16) {
            0 => format!("[ \"${name}\" = {n} ]"),
            1 => {
                format!("[[ ${name} == {} ]]", self.of(&["1*", "llama*", "4", "[0-9]", "'*'", "?"]))
            }
            2 => format!("[ -n \"${name}\" ]"),
            3 => format!("[ -z \"${name}\" ]"),
            4 => format!("[[ -n ${name} && {n} {compare} 4 ]]"),
            5 => format!("[ {n} {compare} 5 ]"),
            6 => format!("[ ! {n} {compare} 5 ]"),
            7 => format!("! [[ {n} {compare} 4 || ${name} != 4 ]]"),
            8 | 9 if n < 8 => {
                let all =
                    ["[ -d / ]", "[ -f /nope ]", "grep -q root /dev/null", "[ -n \"$NOPE\" ]"];
                self.of(&all).to_owned()
            }
            8..=10 => format!("[ \"${name}\" {compare} {n} ]"),
            11 => format!("(( {name} > {n} ))"),
            12 => "true".to_owned(),
            13 => "false".to_owned(),
            14 => format!("test {n} {compare} 3 -a \"${name}\" != 7"),
            _ => format!("[[ ( {n} {compare} 4 ) && ! -z ${name} ]]"),
        }
    }

    fn body(&mut self, depth: u32) -> String {
        let count = 1 + self.below(3);
        (0..count)
            .map(|_| self.statement(depth))
            .collect::<Vec<_>>()
            .join(self.of(&["\n", "; ", "\n\n  "]))
    }

    fn launch(&mut self) -> String {
        let tail = self.of(&[
            "",
            " | cat",
            " > /dev/stdout",
            " 2>&1",
            " &\nwait",
            " # \\",
            " 2> /dev/null",
        ]);
        let more = self.of(&["${L[@]}", "\"${L[@]}\"", "${L[*]}", "${M[@]}", "$D"]);
        format!(
            "torchrun \\\n  train.py --a \"$A\" --b=$B\\\n  --c \"${{C}}x\" {more} --e \"${{D:-7}}\"{tail}\n"
        )
    }

    fn statement(&mut self, depth: u32) -> String {
        match self.below(if depth > 2 { 22 } else { 40 }) {
            kind @ 0..=21 => self.plain(kind),
            kind => self.compound(kind, depth),
        }
    }

    fn plain(&mut self, kind: u64) -> String {
        let (name, other, value) = (self.name(), self.name(), self.value());
        let n = self.below(9);
        match kind {
            0..=4 => format!("{name}={value}"),
            5 => format!("{name}+={value}"),
            6 => format!("L=({value} {n} ${other})"),
            7 => format!("L+=({value})"),
            8 => format!("L[{}]={value}", self.below(3)),
            9 => format!(
                "{} {name}={value} {other}={n}",
                self.of(&["export", "declare", "declare -x", "typeset"])
            ),
            10 => format!("unset {name}"),
            11 => format!("# comment {name}={n} \\"),
            12 => format!("{name}=\\\n{n} {other}={n}"),
            13 => format!("(({name}{}{n}))", self.of(&["=", "+=", "-=", "*="])),
            14 => format!(
                "{} ",
                self.of(&[
                    "let A=4+4",
                    "((B++))",
                    "eval \"A=8 B=\\$A\"",
                    "printf -v A 8",
                    "read A B <<< '8 9'",
                    "declare -i C=4+4",
                    "readonly E=1",
                    ": ${A:=5}",
                    "((A = B > 2 ? 4 : 6, C = 3))"
                ])
            ),
            15 => format!("{name}={n} true"),
            16 => {
                format!("cat > /dev/null <<{}\nA=8\n$B `echo x`\nEOF\n", self.of(&["EOF", "'EOF'"]))
            }
            17 => format!(": '\n{name}={n}\n'"),
            18 => format!("M=(\n  --m{n} {value} # \\\n  \"${{L[@]}}\" ${name}\n)"),
            19 => self
                .of(&[
                    "echo \"A=8\" > /dev/null",
                    "set -- 3 4",
                    "set +o pipefail",
                    "L=()",
                    "M=(\"${L[@]}\")",
                    "set --",
                    "cd /",
                    "true",
                    "shift 2>/dev/null",
                    "A=$1",
                    "B=\"$#\"",
                ])
                .to_owned(),
            20 => self.leave(),
            21 if self.functions > 0 => {
                let which = usize::try_from(self.below(9)).unwrap() % self.functions;
                self.call(which, n)
            }
            _ => format!("{name}={n}"),
        }
    }

    /// A call of function `which`.
    fn call(&mut self, which: usize, n: u64) -> String {
        match self.below(8) {
            0 => format!("'f{which}' {n}"),
            1 => format!("eval f{which} \"{n}\""),
            2 => format!("F=f{which}\n$F {n} $A"),
            3 => format!("{} && f{which} {n}", self.condition()),
            _ => format!("f{which} {n} $B"),
        }
    }

    fn compound(&mut self, kind: u64, depth: u32) -> String {
        let (name, other, value) = (self.name(), self.name(), self.value());
        let n = self.below(9);
        match kind {
            22..=24 => format!(
                "if {}; then\n{}\nelse\n{}\nfi",
                self.condition(),
                self.body(depth + 1),
                self.body(depth + 1)
            ),
            25 => format!(
                "if {}; then {}\nelif {}; then {}\nfi",
                self.condition(),
                self.body(depth + 1),
                self.condition(),
                self.body(depth + 1)
            ),
            26 => format!(
                "case \"${name}\" in\n  {}) {};;\n  {n}|a*) {}\n;;\n  *) {};;\nesac",
                self.of(&["llama*", "[0-4]", "'1'", "?*"]),
                self.body(depth + 1),
                self.body(depth + 1),
                self.body(depth + 1)
            ),
            27 => format!("for {name} in 1 {value} ${other}; do\n{}\ndone", self.body(depth + 1)),
            28 | 29 => self.counted(depth),
            30 => format!("( {}\n)", self.body(depth + 1)),
            31 => format!("{{ {}\n}}", self.body(depth + 1)),
            32 => format!("{} && {{ {}\n}}", self.condition(), self.body(depth + 1)),
            33 => format!("{} || {{ {}\n}}", self.condition(), self.body(depth + 1)),
            34 => {
                format!("{} && {} && {name}={n} || {other}={n}", self.condition(), self.condition())
            }
            35 => format!("{name}={n} | cat"),
            36 | 37 => self.function(depth),
            38 => format!(
                "{{ {}\n}} {}",
                self.body(depth + 1),
                self.of(&["> /dev/stdout", "2>&1", "| cat"])
            ),
            _ => self.launch(),
        }
    }

    fn leave(&mut self) -> String {
        match self.below(7) {
            0 => "break".to_owned(),
            1 => "continue".to_owned(),
            2 => "return".to_owned(),
            3 if self.below(4) == 0 => {
                self.may_end = true;
                "exit 0".to_owned()
            }
            4 if self.below(3) == 0 => {
                self.may_end = true;
                "set -e".to_owned()
            }
            5 => "[ -d / ] && break".to_owned(),
            _ => "if [ -f /nope ]; then continue; fi".to_owned(),
        }
    }

    fn counted(&mut self, depth: u32) -> String {
        self.counters += 1;
        let i = format!("I{}", self.counters);
        let most = self.below(5);
        let body = self.body(depth + 1);
        match self.below(3) {
            0 => format!("for (({i}=0; {i} < {most}; {i}++)); do\n{body}\ndone"),
            1 => format!("{i}=0\nwhile [ ${i} -lt {most} ]; do\n{i}=$(({i} + 1))\n{body}\ndone"),
            _ => format!("{i}=0\nuntil (( {i}++ >= {most} )); do\n{body}\ndone"),
        }
    }

    fn function(&mut self, depth: u32) -> String {
        let local = self.of(&[
            "local A",
            "local B=$1",
            "local L=(1 2)",
            "declare C=$2",
            "D=$#",
            "A=\"$*\"",
            "shift",
            "L=(\"$@\")",
        ]);
        let body = format!("{local}\n{}", self.body(depth + 1));
        let text = match self.below(2) {
            0 => format!("f{}() {{\n{body}\n}}", self.functions),
            _ => format!("function f{} {{ {body}\n}}", self.functions),
        };
        self.functions += 1;
        text
    }

    pub(super) fn script(&mut self) -> String {
        (self.functions, self.counters, self.may_end) = (0, 0, false);
        let count = 2 + self.below(7);
        let statements: Vec<String> = (0..count).map(|_| self.statement(0)).collect();
        format!("A=1\nB=2\nC=16\nD=3\nL=(1 2)\n{}\n{}", statements.join("\n"), self.launch())
    }
}
