//! One replica of an engine that generates, with continuous batching.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::error::{FsdpError, count};

/// How long an engine takes, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// To read all weights once, in every decode step.
    pub weights: u64,
    /// To read the keys and values of one token of context.
    pub context: u64,
    /// To compute the next token of one sequence.
    pub compute: u64,
    /// Of one sequence beside both, as collectives of tensor groups are.
    pub sequence: u64,
    /// Of a decode step beside all: launches, latencies.
    pub step: u64,
    /// To prefill one token.
    pub prefill: u64,
    /// To prefill one pair of tokens of a sequence, for attention.
    pub prefill_pair: u64,
}

/// One replica: the devices of a tensor-parallel group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Engine {
    /// How long it takes.
    pub times: Times,
    /// The tokens whose keys and values its memory holds.
    pub capacity: u64,
    /// The most sequences that it generates at a time.
    pub sequences: u64,
}

/// A response to be generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The prompt: responses to the same one share its keys and values.
    pub prompt: u64,
    pub prompt_tokens: u32,
    /// Tokens of the response that were generated before, by another policy.
    pub before: u32,
    /// Tokens of the response with which this run ends.
    pub until: u32,
}

/// What a replica did with its requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EngineRun {
    /// When each request was done, in picoseconds, in the order of the requests.
    pub ends: Vec<u64>,
    /// Tokens that were generated.
    pub tokens: u64,
    /// Decode steps.
    pub steps: u64,
    /// The most sequences at a time.
    pub peak: u64,
    /// How often a sequence had to leave for want of memory, to be prefilled again.
    pub preemptions: u64,
    /// The time of prefills, in picoseconds.
    pub prefill: u64,
}

impl EngineRun {
    /// When the last request was done, in picoseconds.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ends.iter().copied().max().unwrap_or(0)
    }
}

impl Engine {
    /// Generates all of `requests`, in their order.
    ///
    /// A decode step gives every running sequence a token. It takes the longer of reading weights and
    /// contexts and of computing, and what comes on top. Sequences are admitted in order when one ends,
    /// as far as memory and the largest batch allow; where memory is full, the one admitted last leaves
    /// and is prefilled again later, as vLLM preempts. Between two such events steps are summed as a
    /// series.
    pub fn run(&self, requests: &[Request]) -> Result<EngineRun, FsdpError> {
        count("sequences of an engine", self.sequences, 1, 1 << 20)?;
        let longest = requests.iter().map(Request::tokens).max().unwrap_or(0);
        if longest > self.capacity {
            return Err(FsdpError::Engine { tokens: longest, capacity: self.capacity });
        }
        let mut replica = Replica::new(self, requests);
        replica.admit();
        while replica.running > 0 {
            replica.decode();
            replica.leave();
        }
        let run = replica.run;
        let overflow = replica.now > u128::from(u64::MAX / 2);
        if overflow { Err(FsdpError::Overflow) } else { Ok(run) }
    }
}

impl Request {
    /// Tokens of its context in the end.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.until)
    }

    /// Tokens that are still to be generated.
    #[must_use]
    pub fn left(&self) -> u64 {
        u64::from(self.until.saturating_sub(self.before))
    }
}

/// A sequence that runs.
#[derive(Clone, Copy)]
struct Admitted {
    request: usize,
    /// The step before which it was admitted, and its response had so many tokens.
    step: u64,
    generated: u64,
}

struct Replica<'a> {
    engine: &'a Engine,
    requests: &'a [Request],
    /// Requests that wait, with the tokens that their responses have.
    waiting: VecDeque<(usize, u64)>,
    /// Those admitted, by number; `None` where it has left.
    admitted: Vec<Option<Admitted>>,
    /// Their numbers, the last at the end; some have left.
    order: Vec<usize>,
    /// The step at which each ends, and its number among those admitted.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    /// How many sequences of each prompt run.
    prompts: HashMap<u64, u64>,
    running: u64,
    /// Tokens of all contexts as they are read, and as they lie in memory.
    read: u64,
    held: u64,
    now: u128,
    step: u64,
    run: EngineRun,
}

impl<'a> Replica<'a> {
    fn new(engine: &'a Engine, requests: &'a [Request]) -> Self {
        let waiting = requests.iter().enumerate().map(|(at, one)| (at, u64::from(one.before)));
        Self {
            engine,
            requests,
            waiting: waiting.collect(),
            admitted: Vec::new(),
            order: Vec::new(),
            ends: BinaryHeap::new(),
            prompts: HashMap::new(),
            running: 0,
            read: 0,
            held: 0,
            now: 0,
            step: 0,
            run: EngineRun { ends: vec![0; requests.len()], ..EngineRun::default() },
        }
    }

    /// Admits requests in order as long as they fit.
    fn admit(&mut self) {
        while let Some(&(request, generated)) = self.waiting.front() {
            let one = &self.requests[request];
            let prompt = u64::from(one.prompt_tokens);
            let is_held = self.prompts.contains_key(&one.prompt);
            let added = generated + if is_held { 0 } else { prompt };
            // One token more is about to be generated.
            let fits = self.held + added + self.running < self.engine.capacity.max(1);
            if self.running > 0 && (self.running >= self.engine.sequences || !fits) {
                return;
            }
            self.waiting.pop_front();
            self.prefill(added, prompt + generated);
            *self.prompts.entry(one.prompt).or_default() += 1;
            self.running += 1;
            self.read += prompt + generated;
            self.held += added;
            let until = u64::from(one.until).max(generated + 1);
            self.ends.push(Reverse((self.step + until - generated, self.admitted.len())));
            self.order.push(self.admitted.len());
            self.admitted.push(Some(Admitted { request, step: self.step, generated }));
            self.run.peak = self.run.peak.max(self.running);
        }
    }

    /// The time of `tokens` new tokens at the end of a context of `context`.
    fn prefill(&mut self, tokens: u64, context: u64) {
        let Times { prefill, prefill_pair, .. } = self.engine.times;
        // Each of the new tokens attends to all before it: half of a square where all are new.
        let pairs = u128::from(tokens) * u128::from(2 * context - tokens.min(context)) / 2;
        let time = u128::from(tokens) * u128::from(prefill) + pairs * u128::from(prefill_pair);
        self.now = self.now.saturating_add(time);
        self.run.prefill = self.run.prefill.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
    }

    /// Decodes until the next sequence ends, or the memory is full.
    fn decode(&mut self) {
        let Some(&Reverse((end, _))) = self.ends.peek() else { return };
        let until_full = (self.engine.capacity.saturating_sub(self.held)) / self.running;
        let steps = (end - self.step).min(until_full);
        if steps == 0 {
            return self.preempt();
        }
        self.now = self.now.saturating_add(self.time(steps));
        self.step += steps;
        let tokens = steps * self.running;
        self.read += tokens;
        self.held += tokens;
        self.run.steps += steps;
        self.run.tokens += tokens;
    }

    /// The time of the next `steps` decode steps: contexts grow by a token in each, so that reading is
    /// an arithmetic series, which overtakes computing at some step.
    fn time(&self, steps: u64) -> u128 {
        let Times { weights, context, compute, sequence, step, .. } = self.engine.times;
        let [running, steps] = [self.running, steps].map(u128::from);
        let computing = u128::from(compute) * running;
        let first = u128::from(weights) + u128::from(context) * u128::from(self.read);
        let more = u128::from(context) * running;
        let below = match computing.checked_sub(first) {
            None => 0,
            Some(_) if more == 0 => steps,
            Some(gap) => gap.div_ceil(more).min(steps),
        };
        // Reading in steps `below` to `steps`, which number `read`.
        let read = steps - below;
        let reading = read * first + more * (below * read + read * read.saturating_sub(1) / 2);
        let beside = u128::from(step) + u128::from(sequence) * running;
        below * computing + reading + steps * beside
    }

    /// Ends sequences whose step it is, and admits others.
    fn leave(&mut self) {
        let mut has_ended = false;
        while let Some(&Reverse((end, at))) = self.ends.peek() {
            if end > self.step && self.admitted[at].is_some() {
                break;
            }
            self.ends.pop();
            let Some(own) = self.admitted[at].take() else { continue };
            has_ended = true;
            self.run.ends[own.request] = u64::try_from(self.now).unwrap_or(u64::MAX);
            self.free(own);
        }
        if has_ended {
            self.admit();
        }
    }

    /// The sequence admitted last leaves, to be prefilled again.
    fn preempt(&mut self) {
        let admitted = &mut self.admitted;
        let last = std::iter::from_fn(|| self.order.pop()).find_map(|at| admitted[at].take());
        let Some(own) = last else { return };
        self.run.preemptions += 1;
        let generated = own.generated + self.step - own.step;
        self.free(own);
        self.waiting.push_front((own.request, generated));
    }

    fn free(&mut self, own: Admitted) {
        let one = &self.requests[own.request];
        let generated = own.generated + self.step - own.step;
        self.running -= 1;
        self.read -= u64::from(one.prompt_tokens) + generated;
        self.held -= generated;
        if let Some(sharers) = self.prompts.get_mut(&one.prompt) {
            *sharers -= 1;
            if *sharers == 0 {
                self.prompts.remove(&one.prompt);
                self.held -= u64::from(one.prompt_tokens);
            }
        }
    }
}
