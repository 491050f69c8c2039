//! Sends and receives between ranks, as `torch.profiler` shows them.
//!
//! `c10d::send` and `c10d::recv_` are those of any backend. NCCL adds `record_param_comms`, within
//! them or on its own, with the name of the operation, the group, its ranks and the peer: `Dst Rank`
//! or `Src Rank` among all ranks, `Rank` within the group.

use super::{Span, number};
use crate::events::Args;

/// One end of a transfer to or from another rank, when the host posts it.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) thread: i64,
    pub(super) span: Span,
    pub(super) is_send: bool,
    /// The other end, among all ranks, where the trace says it.
    pub(super) peer: Option<u32>,
    /// Whether its process group is one of a pipeline, by its description.
    pub(super) of_pipeline: bool,
}

impl Message {
    /// Whether `inner`, which does not begin before it, is the same one.
    fn is_same(&self, inner: &Self) -> bool {
        let alike = self.thread == inner.thread && self.is_send == inner.is_send;
        alike && self.span.has(inner.span)
    }
}

/// A message without its time.
pub(super) struct Untimed(Message);

impl Untimed {
    pub(super) fn at(self, span: Span) -> Message {
        Message { span, ..self.0 }
    }
}

/// The message that an operator `name` posts.
pub(super) fn of(name: &str, args: &Args, thread: i64) -> Option<Untimed> {
    let called = args.collective.as_ref().and_then(|name| name.as_str());
    let is_send = match (name, called) {
        ("c10d::send", _) | ("record_param_comms", Some("send")) => true,
        ("c10d::recv_" | "c10d::recv_any_source_", _) | ("record_param_comms", Some("recv")) => {
            false
        }
        _ => return None,
    };
    let nowhere = Span { start: pipeline::Nanos(0), end: pipeline::Nanos(0) };
    Some(Untimed(Message {
        thread,
        span: nowhere,
        is_send,
        peer: peer(args, is_send),
        of_pipeline: args.group.as_ref().and_then(|name| name.as_str()).is_some_and(is_pipeline),
    }))
}

fn peer(args: &Args, is_send: bool) -> Option<u32> {
    let global = if is_send { &args.destination } else { &args.source };
    let within = || {
        let rank = usize::try_from(number(args.rank.as_ref())?).ok()?;
        let ranks = args.ranks.as_ref()?;
        let listed = match ranks.as_str() {
            Some(text) => {
                let ranks = text.trim().strip_prefix('[')?.strip_suffix(']')?;
                ranks.split(',').nth(rank)?.trim().parse().ok()
            }
            None => ranks.get(rank)?.as_i64(),
        };
        // A long list is cut in its middle, which is not a rank.
        let is_cut = ranks.as_str().is_some_and(|text| text.contains("..."));
        listed.filter(|_| !is_cut)
    };
    let peer = number(global.as_ref()).or_else(within)?;
    u32::try_from(peer).ok()
}

/// Whether a process group of this description is one of a pipeline: Megatron-LM and device meshes of torch
/// name them so.
fn is_pipeline(description: &str) -> bool {
    let lower = description.to_ascii_lowercase();
    lower.contains("pipeline") || lower == "pp" || lower.ends_with("_pp")
}

/// The messages in order, each once: one that lies within another is that one, with what it knows more.
/// Where some are of a pipeline by their group, the rest is left out.
pub(super) fn merged(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by_key(|one| (one.thread, one.span.start, std::cmp::Reverse(one.span.end)));
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for one in messages {
        match all.last_mut() {
            Some(outer) if outer.is_same(&one) => {
                outer.peer = outer.peer.or(one.peer);
                outer.of_pipeline |= one.of_pipeline;
            }
            _ => all.push(one),
        }
    }
    if all.iter().any(|one| one.of_pipeline) {
        all.retain(|one| one.of_pipeline);
    }
    all.sort_by_key(|one| (one.span, one.thread));
    all
}
