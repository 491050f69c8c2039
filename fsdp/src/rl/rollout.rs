//! The rollout of a step: prompts and responses, dealt to replicas.

use rayon::prelude::*;

use super::engine::{Engine, EngineRun, Request};
use crate::error::{FsdpError, count};
use crate::lengths::Lengths;

/// The most responses of a step.
pub const MAX_REQUESTS: u64 = 1 << 20;

/// Makes the lengths of responses another draw than those of prompts.
const OF_RESPONSES: u64 = 0x5eed;

/// What is generated in every step, and by how many replicas.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// A replica.
    pub engine: Engine,
    /// How many there are.
    pub replicas: u64,
    /// Prompts of a step.
    pub prompts: u64,
    pub responses: u64,
    /// Tokens of prompts.
    pub prompt_lengths: Lengths,
    /// Tokens of responses.
    pub response_lengths: Lengths,
    /// The most tokens that a response gets in a step: a longer one goes on in the next (partial rollouts,
    /// Kimi k1.5, arXiv 2501.12599, section 2.6.2).
    pub budget: Option<u32>,
    /// The seed of lengths.
    pub seed: u64,
}

/// A response under way: its request without an end, and its whole length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Response {
    request: Request,
    length: u32,
}

/// The rollout of one step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RolloutRun {
    /// When the last response ended, in picoseconds.
    pub time: u64,
    /// From when nine of ten responses were done until the end, in picoseconds.
    pub tail: u64,
    /// What replicas did not generate while they waited for the slowest, in picoseconds, of all together.
    pub idle: u128,
    /// Tokens that were generated.
    pub tokens: u64,
    /// Decode steps of all replicas.
    pub steps: u64,
    /// The most sequences of a replica at a time.
    pub peak: u64,
    /// Sequences that were preempted.
    pub preemptions: u64,
    /// The time of prefills of the average replica, in picoseconds.
    pub prefill: u64,
    /// Prompt and response together, in tokens, of each response that is done, in the order of prompts.
    pub samples: Vec<u32>,
}

impl Rollout {
    /// Responses of a step.
    pub fn requests(&self) -> Result<u64, FsdpError> {
        count("prompts of a step", self.prompts, 1, MAX_REQUESTS)?;
        count("responses to a prompt", self.responses, 1, MAX_REQUESTS)?;
        count("engines", self.replicas, 1, MAX_REQUESTS)?;
        count("responses of a step", self.prompts * self.responses, 1, MAX_REQUESTS)
    }

    /// How many steps go by before steps with a budget are like those that follow: as many as the longest
    /// response takes, where that is more than one.
    #[must_use]
    pub fn warm_up(&self) -> u64 {
        let longest = self.response_lengths.longest();
        let budget = self.budget.filter(|budget| *budget < longest);
        budget.map_or(0, |budget| u64::from(longest.div_ceil(budget.max(1))))
    }

    /// Step number `step`: responses under way in `carried` go on, and new ones fill up.
    pub(super) fn run(
        &self,
        step: u64,
        carried: &mut Vec<Response>,
    ) -> Result<RolloutRun, FsdpError> {
        let all = self.requests()?;
        let mut responses = std::mem::take(carried);
        let fresh = all.saturating_sub(responses.len() as u64);
        responses.extend(self.draw(step, fresh));
        let budget = self.budget.unwrap_or(u32::MAX).max(1);
        let requests: Vec<Request> = responses
            .iter()
            .map(|one| {
                let until = one.length.min(one.request.before.saturating_add(budget));
                Request { until, ..one.request }
            })
            .collect();
        let run = self.generate(&requests)?;
        let mut samples = Vec::with_capacity(responses.len());
        for (response, request) in responses.iter().zip(&requests) {
            if request.until == response.length {
                samples.push(request.prompt_tokens.saturating_add(response.length));
            } else {
                let request = Request { before: request.until, ..*request };
                carried.push(Response { request, ..*response });
            }
        }
        Ok(RolloutRun { samples, ..run })
    }

    /// The first `fresh` responses that are drawn for step number `step`.
    fn draw(&self, step: u64, fresh: u64) -> Vec<Response> {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let prompts = self.prompt_lengths.draw(self.seed, step, size(self.prompts));
        // The first of those that a step without a budget draws.
        let all = size(self.prompts * self.responses);
        let mut lengths = self.response_lengths.draw(self.seed ^ OF_RESPONSES, step, all);
        lengths.truncate(size(fresh));
        let response = |(at, length): (usize, u32)| {
            let prompt = at / size(self.responses);
            Response {
                request: Request {
                    prompt: step.wrapping_mul(self.prompts).wrapping_add(prompt as u64),
                    prompt_tokens: prompts[prompt],
                    before: 0,
                    until: length,
                },
                length,
            }
        };
        lengths.into_iter().enumerate().map(response).collect()
    }

    /// Deals prompts to replicas in turn, and runs them.
    fn generate(&self, requests: &[Request]) -> Result<RolloutRun, FsdpError> {
        let mut dealt = vec![Vec::new(); usize::try_from(self.replicas).unwrap_or(usize::MAX)];
        for request in requests {
            dealt[usize::try_from(request.prompt % self.replicas).unwrap_or(0)].push(*request);
        }
        let runs: Vec<Result<EngineRun, FsdpError>> =
            dealt.par_iter().map(|own| self.engine.run(own)).collect();
        let runs = runs.into_iter().collect::<Result<Vec<EngineRun>, _>>()?;
        let mut ends: Vec<u64> = runs.iter().flat_map(|run| run.ends.iter().copied()).collect();
        ends.sort_unstable();
        let time = ends.last().copied().unwrap_or(0);
        // Nine of ten, rounded up.
        let most = ends.len().saturating_mul(9).div_ceil(10).saturating_sub(1);
        let sum = |of: fn(&EngineRun) -> u64| runs.iter().map(of).sum::<u64>();
        Ok(RolloutRun {
            time,
            tail: time - ends.get(most).copied().unwrap_or(time),
            idle: runs.iter().map(|run| u128::from(time - run.end())).sum(),
            tokens: sum(|run| run.tokens),
            steps: sum(|run| run.steps),
            peak: runs.iter().map(|run| run.peak).max().unwrap_or(0),
            preemptions: sum(|run| run.preemptions),
            prefill: sum(|run| run.prefill) / self.replicas,
            samples: Vec::new(),
        })
    }
}
